-- engines: InnoDB Millpond
-- information_schema.TABLES says when a commit has changed a table last.
CREATE TABLE t (id INT PRIMARY KEY, v INT);
CREATE TABLE u (id INT PRIMARY KEY);
CREATE VIEW times AS SELECT table_name, update_time IS NULL AS never,
  update_time BETWEEN NOW() - INTERVAL 1 MINUTE AND NOW() AS lately
  FROM information_schema.TABLES WHERE table_schema = 'test' AND table_type = 'BASE TABLE' ORDER BY table_name;
SELECT * FROM times;
BEGIN;
INSERT INTO t VALUES (1, 1);
ROLLBACK;
SELECT * FROM times;
BEGIN;
INSERT INTO t VALUES (1, 1);
SELECT * FROM times WHERE table_name = 't';
COMMIT;
SELECT * FROM times;
SELECT Update_time IS NULL FROM (SELECT Update_time FROM information_schema.TABLES WHERE table_name = 't') x;
-- Another name, another definition.
RENAME TABLE t TO renamed;
SELECT * FROM times;
FLUSH TABLES;
SELECT * FROM times;
DROP VIEW times;
DROP TABLE renamed, u;
-- Of a partitioned table: its latest partition.
CREATE TABLE p (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3;
SELECT update_time IS NULL FROM information_schema.TABLES WHERE table_name = 'p';
INSERT INTO p VALUES (4);
SELECT update_time IS NULL FROM information_schema.TABLES WHERE table_name = 'p';
DROP TABLE p;
