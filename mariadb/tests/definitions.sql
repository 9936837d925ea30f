-- A definition that was changed alone fits its trees, also when they are opened again.
SET default_storage_engine = Millpond, alter_algorithm = INSTANT;
CREATE TABLE t (
  id INT(5) UNSIGNED, name VARCHAR(10) NOT NULL, other VARCHAR(20) COLLATE utf8mb4_bin, e ENUM('a', 'b') COLLATE latin1_swedish_ci,
  s SET('x', 'y'), d DECIMAL(10,3), f FLOAT(7,2), y YEAR(4), z TIMESTAMP(3) NULL, b BIT(9), c CHAR(5), g TEXT, u UUID,
  i INET6, v INT AS (id + 1), w VARCHAR(12) AS (CONCAT(name, 'w')) PERSISTENT, m GEOMETRY, bin BINARY(16), j JSON,
  PRIMARY KEY (id, name), UNIQUE KEY n (name), KEY p (name(4), e), KEY o (other, id), KEY vi (v), KEY down (d DESC, e)) CHARSET utf8mb4;
INSERT INTO t (id, name, other, e, s, d, f, y, z, b, c, g, u, i, bin, j) VALUES
  (1, 'one', 'eins', 'a', 'x', 1.5, 1.5, 2001, '2001-02-03 04:05:06.789', 5, 'c', 'g', UUID(), '::1', 'bin', '{}');
ALTER TABLE t MODIFY name VARCHAR(20) NOT NULL, MODIFY other VARCHAR(30) COLLATE utf8mb4_bin;
ALTER TABLE t MODIFY e ENUM('a', 'b', 'c') COLLATE latin1_swedish_ci;
ALTER TABLE t MODIFY e ENUM('A', 'b', 'c') COLLATE latin1_swedish_ci;
ALTER TABLE t MODIFY s SET('x', 'y', 'z');
ALTER TABLE t MODIFY id INT(9) UNSIGNED COMMENT 'an id';
ALTER TABLE t MODIFY id INT(9) UNSIGNED ZEROFILL;
ALTER TABLE t MODIFY f FLOAT(8,3);
ALTER TABLE t MODIFY y YEAR(2);
ALTER TABLE t CHANGE c cc CHAR(5) DEFAULT 'x', ALTER d SET DEFAULT 7;
ALTER TABLE t RENAME COLUMN name TO title;
ALTER TABLE t RENAME KEY o TO o2;
ALTER TABLE t ALTER KEY p IGNORED;
ALTER TABLE t COMMENT 'a table';
FLUSH TABLES;
CHECK TABLE t;
RENAME TABLE t TO r;
FLUSH TABLES;
CHECK TABLE r;
-- What copies the table, what empties it, and trees that were loaded.
SET alter_algorithm = DEFAULT;
ALTER TABLE r MODIFY cc CHAR(6), ADD KEY cc (cc), DROP KEY p;
FLUSH TABLES;
CHECK TABLE r;
TRUNCATE r;
FLUSH TABLES;
CHECK TABLE r;
CREATE TABLE many (id INT PRIMARY KEY, v INT, t VARCHAR(20)) SELECT seq AS id, seq % 10 AS v, seq AS t FROM seq_1_to_3000;
ALTER TABLE many ADD KEY v (v), ADD UNIQUE KEY t (t);
ALTER TABLE many DROP PRIMARY KEY, ADD KEY id (id);
FLUSH TABLES;
CHECK TABLE many;
-- Partitions come and go.
CREATE TABLE p (id INT PRIMARY KEY, v VARCHAR(5), KEY v (v)) PARTITION BY RANGE (id)
  (PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN (20));
CREATE TABLE x (id INT PRIMARY KEY, v VARCHAR(5), KEY v (v));
INSERT INTO p VALUES (1, 'p'), (11, 'p');
INSERT INTO x VALUES (2, 'x');
ALTER TABLE p EXCHANGE PARTITION a WITH TABLE x;
ALTER TABLE p ADD PARTITION (PARTITION c VALUES LESS THAN (30));
ALTER TABLE p TRUNCATE PARTITION b;
FLUSH TABLES;
CHECK TABLE p, x;
CREATE TEMPORARY TABLE temporary (id INT PRIMARY KEY, v INT, KEY (v));
INSERT INTO temporary VALUES (1, 1);
TRUNCATE temporary;
CHECK TABLE temporary;
CREATE TABLE hashed (id INT PRIMARY KEY, g TEXT, UNIQUE KEY g (g));
INSERT INTO hashed VALUES (1, 'g');
FLUSH TABLES;
CHECK TABLE hashed;
DROP TABLE r, many, p, x, temporary, hashed;
