-- ALTER TABLE of many rows loads them into new trees: every index has every row afterwards.
CREATE TABLE numbers ENGINE=Aria AS SELECT seq AS n FROM seq_1_to_5000;

-- In the order of the primary key.
CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(40), c TEXT,
  KEY a (a), UNIQUE KEY b (b), KEY c (c(10), a)) ENGINE=Aria;
INSERT INTO t SELECT n, n MOD 71, CONCAT('b', n), REPEAT('c', n MOD 300) FROM numbers;
UPDATE t SET b = NULL, a = NULL WHERE id MOD 50 = 0;
CHECKSUM TABLE t;
ALTER TABLE t ENGINE=Millpond;
CHECKSUM TABLE t;
CHECK TABLE t;
SELECT COUNT(*), SUM(id) FROM t FORCE INDEX (PRIMARY);
SELECT COUNT(*), SUM(id), SUM(a) FROM t FORCE INDEX (a) WHERE a >= 0 OR a IS NULL;
SELECT COUNT(*), SUM(id) FROM t FORCE INDEX (b) WHERE b LIKE 'b1%';
SELECT COUNT(*), SUM(id) FROM t FORCE INDEX (c) WHERE c LIKE 'cccc%';
INSERT INTO t (a) VALUES (1);
SELECT MAX(id) FROM t;
INSERT INTO t (b) VALUES ('b17');
UPDATE t SET a = 72 WHERE id = 17;
DELETE FROM t WHERE id = 18;
CHECK TABLE t;

-- The counter lives on, also where it is ahead of the rows.
ALTER TABLE t AUTO_INCREMENT = 9000;
ALTER TABLE t ADD COLUMN d INT DEFAULT 4, FORCE;
INSERT INTO t (a) VALUES (2);
SELECT MAX(id), MIN(d) FROM t;

-- In the opposite order, and without a primary key.
CREATE TABLE u (id INT NOT NULL, x CHAR(200) NOT NULL, KEY x (x)) ENGINE=Aria;
INSERT INTO u SELECT 5001 - n, CONCAT('x', n MOD 9) FROM numbers ORDER BY n;
ALTER TABLE u ENGINE=Millpond;
SELECT COUNT(*), SUM(id) FROM u FORCE INDEX (x) WHERE x = 'x3';
INSERT INTO u VALUES (0, 'x3');
SELECT COUNT(*), SUM(id) FROM u FORCE INDEX (x) WHERE x = 'x3';
ALTER TABLE u ADD PRIMARY KEY (id);
SELECT COUNT(*), SUM(id) FROM u;
SELECT COUNT(*), SUM(id) FROM u FORCE INDEX (x) WHERE x = 'x3';
CHECK TABLE u;

-- A row that is there twice: the error names it, and the table stays as it was.
INSERT INTO u VALUES (7000, 'x7');
ALTER TABLE u ADD UNIQUE KEY y (x);
ALTER TABLE u DROP PRIMARY KEY;
INSERT INTO u VALUES (4711, 'x');
ALTER TABLE u ADD PRIMARY KEY (id);
SELECT COUNT(*), SUM(id) FROM u;
CREATE TABLE v (id INT NOT NULL, w INT NOT NULL) ENGINE=Aria;
INSERT INTO v SELECT n, n FROM numbers;
INSERT INTO v VALUES (5000, 1);
ALTER TABLE v ENGINE=Millpond, ADD PRIMARY KEY (id);
ALTER IGNORE TABLE v ENGINE=Millpond, ADD PRIMARY KEY (id);
SELECT COUNT(*), SUM(w) FROM v;
CHECK TABLE u, v;

-- Long values, and an index made alone.
CREATE TABLE l (id INT PRIMARY KEY, v LONGTEXT) ENGINE=Millpond;
INSERT INTO l SELECT n, REPEAT(CHAR(65 + n MOD 26), 20 * n) FROM numbers WHERE n <= 1500;
CREATE INDEX v ON l (v(30));
SELECT COUNT(*), SUM(LENGTH(v)), SUM(CRC32(v)) FROM l;
SELECT COUNT(*), SUM(id) FROM l FORCE INDEX (v) WHERE v LIKE 'CCC%';
CHECK TABLE l;

-- More than fits into the memory for sorting: in order, in the opposite order, and in order with
-- lesser keys at the end.
CREATE TABLE w (up INT NOT NULL, down INT NOT NULL, turn INT NOT NULL, v LONGTEXT, KEY k (v(50), up)) ENGINE=Aria;
INSERT INTO w SELECT n, -n, IF(n > 1000, n - 1000, n + 1000), CONCAT(MD5(n), REPEAT('v', 100000)) FROM numbers
  WHERE n <= 1100;
SELECT SUM(CRC32(v)), SUM(up) FROM w;
ALTER TABLE w ENGINE=Millpond, ADD PRIMARY KEY (up);
CHECK TABLE w;
SELECT SUM(CRC32(v)), SUM(up) FROM w;
SELECT SUM(up) FROM w FORCE INDEX (k) WHERE v < '8';
ALTER TABLE w DROP PRIMARY KEY, ADD PRIMARY KEY (down);
CHECK TABLE w;
SELECT SUM(CRC32(v)), SUM(up) FROM w;
SELECT up FROM w FORCE INDEX (PRIMARY) LIMIT 2;
ALTER TABLE w ENGINE=Aria, DROP PRIMARY KEY, ORDER BY up;
ALTER TABLE w ENGINE=Millpond, ADD PRIMARY KEY (turn);
CHECK TABLE w;
SELECT SUM(CRC32(v)), SUM(up) FROM w;
SELECT up FROM w FORCE INDEX (PRIMARY) LIMIT 2;
SELECT SUM(up) FROM w FORCE INDEX (k) WHERE v < '8';
DROP TABLE t, u, v, l, w, numbers;
