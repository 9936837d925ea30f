-- Conditions on index entries are checked before their rows are read: pushed index conditions, rowid
-- filters, and reads of many ranges, as with InnoDB.
SET default_storage_engine = Millpond;
CREATE TABLE t (
  id INT PRIMARY KEY, a INT NOT NULL, b INT, c VARCHAR(10), d INT, v INT AS (d % 5) VIRTUAL,
  KEY ab (a, b), KEY ca (c, a), KEY va (v, a), UNIQUE KEY bd (d, b)
);
INSERT INTO t (id, a, b, c, d) SELECT seq, seq DIV 100, IF(seq % 11, seq % 10, NULL), CONCAT('c', seq % 7), seq * 3 FROM seq_1_to_2000;
ANALYZE TABLE t;

-- A range with a condition on a later column: forwards, backwards, and with the columns of the key alone.
EXPLAIN SELECT * FROM t FORCE INDEX (ab) WHERE a BETWEEN 3 AND 5 AND b = 4;
FLUSH STATUS;
SELECT COUNT(c), MIN(id), MAX(id), SUM(d), SUM(v) FROM t FORCE INDEX (ab) WHERE a BETWEEN 3 AND 5 AND b = 4;
SHOW STATUS WHERE variable_name LIKE 'Handler_icp%' OR (variable_name LIKE 'Handler_read%' AND value > 0);
SELECT id, a, b, c FROM t FORCE INDEX (ab) WHERE a BETWEEN 3 AND 5 AND b = 4 ORDER BY a, b LIMIT 3;
EXPLAIN SELECT id, a, b, c FROM t FORCE INDEX (ab) WHERE a BETWEEN 3 AND 5 AND b = 4 ORDER BY a DESC, b DESC;
SELECT id, a, b, c FROM t FORCE INDEX (ab) WHERE a BETWEEN 3 AND 5 AND b = 4 ORDER BY a DESC, b DESC, id DESC LIMIT 3;
SELECT id, a, b, c FROM t FORCE INDEX (ab) WHERE a BETWEEN 3 AND 5 AND b IS NULL AND id % 2 = 0 ORDER BY a, b, id;
-- All rows with a key, and a condition on columns behind it, also of the primary key.
EXPLAIN SELECT c FROM t FORCE INDEX (ab) WHERE a = 7 AND id % 50 = 1;
FLUSH STATUS;
SELECT id, c FROM t FORCE INDEX (ab) WHERE a = 7 AND id % 50 = 1;
SHOW STATUS WHERE variable_name LIKE 'Handler_icp%' OR (variable_name LIKE 'Handler_read%' AND value > 0);
SELECT id, c FROM t FORCE INDEX (ab) WHERE a = 7 AND b % 4 = 1 ORDER BY b DESC, id DESC LIMIT 3;
-- One row of a unique key, and none.
SELECT id, c FROM t FORCE INDEX (bd) WHERE d = 30 AND b = 0 AND id % 2 = 0;
SELECT id, c FROM t FORCE INDEX (bd) WHERE d = 30 AND b = 0 AND id % 2 = 1;
SELECT id, c FROM t FORCE INDEX (bd) WHERE d BETWEEN 30 AND 60 AND b > 5;
-- In a join, with a condition that names the other table.
EXPLAIN SELECT x.id, t.id, t.c FROM t x STRAIGHT_JOIN t FORCE INDEX (ab) ON t.a = x.b AND t.b > x.a WHERE x.id < 10;
SELECT COUNT(*), SUM(t.d) FROM t x STRAIGHT_JOIN t FORCE INDEX (ab) ON t.a = x.b AND t.b > x.a WHERE x.id < 10;
SELECT COUNT(*), SUM(t.d) FROM t x STRAIGHT_JOIN t IGNORE INDEX (ab) ON t.a = x.b AND t.b > x.a WHERE x.id < 10;
-- A subquery begins anew for each row.
SELECT x.id, (SELECT COUNT(y.c) FROM t y FORCE INDEX (ab) WHERE y.a = x.id AND y.b > x.b) AS n FROM t x WHERE x.id < 5;

-- Text is not in its index as it is, so its conditions need the row; a number behind it does not.
EXPLAIN SELECT * FROM t FORCE INDEX (ca) WHERE c BETWEEN 'c2' AND 'c4' AND a = 3;
FLUSH STATUS;
SELECT COUNT(*), MIN(id), MAX(id), MIN(c), MAX(c) FROM t FORCE INDEX (ca) WHERE c BETWEEN 'c2' AND 'c4' AND a = 3;
SHOW STATUS WHERE variable_name LIKE 'Handler_icp%' OR (variable_name LIKE 'Handler_read%' AND value > 0);
SELECT COUNT(*), MIN(id), MAX(id) FROM t FORCE INDEX (ca) WHERE c > 'c1' AND c < 'c5' AND a IN (3, 5) AND c LIKE '%3';
SELECT id, c FROM t FORCE INDEX (ca) WHERE c >= 'C5' AND a = 3 ORDER BY c, a, id LIMIT 4;
SELECT id, c FROM t FORCE INDEX (ca) WHERE c <= 'C5' AND a = 3 ORDER BY c DESC, a DESC, id DESC LIMIT 4;
-- Text that the record has of the range before does not count.
ALTER TABLE t ADD KEY acb (a, c, b);
EXPLAIN SELECT COUNT(*), SUM(d) FROM t FORCE INDEX (acb)
  WHERE ((a = 3 AND c BETWEEN 'c5' AND 'c6') OR (a = 5 AND c BETWEEN 'c1' AND 'c2')) AND b > 2;
SELECT COUNT(*), SUM(d) FROM t FORCE INDEX (acb)
  WHERE ((a = 3 AND c BETWEEN 'c5' AND 'c6') OR (a = 5 AND c BETWEEN 'c1' AND 'c2')) AND b > 2;
SELECT COUNT(*), SUM(d) FROM t FORCE INDEX (PRIMARY)
  WHERE ((a = 3 AND c BETWEEN 'c5' AND 'c6') OR (a = 5 AND c BETWEEN 'c1' AND 'c2')) AND b > 2;
ALTER TABLE t DROP KEY acb;
-- An index with a virtual column takes no condition.
EXPLAIN SELECT * FROM t FORCE INDEX (va) WHERE v > 2 AND a = 4;
SELECT COUNT(*), MIN(id), MAX(id), MIN(v), MAX(v) FROM t FORCE INDEX (va) WHERE v > 2 AND a = 4;
EXPLAIN SELECT id, v FROM t FORCE INDEX (ab) WHERE a = 4 AND b > 3 AND v = 3;
SELECT id, v FROM t FORCE INDEX (ab) WHERE a = 4 AND b > 3 AND v = 3 ORDER BY id LIMIT 3;

-- Every type of column, with NULLs, is put back for the condition.
CREATE TABLE types (
  id INT PRIMARY KEY, k INT NOT NULL, tiny TINYINT, big BIGINT UNSIGNED, f FLOAT, g DOUBLE, n DECIMAL(12, 4), day DATE,
  at DATETIME(3), bin BINARY(3), bits BIT(9), e ENUM('x', 'y', 'z'), net INET6, note TEXT,
  KEY k (k, tiny, big DESC, f, g, n, day, at DESC, bin, bits, e, net)
);
INSERT INTO types SELECT seq, seq % 3, seq % 7 - 3, seq * 1000000000000, IF(seq % 5, seq / 4, NULL), -seq / 8, seq DIV 3 + 0.25, '2026-01-01' + INTERVAL seq DAY,
  '2026-01-01' + INTERVAL seq * 1.001 SECOND, CHAR(65 + seq % 26, 66), seq, ELT(seq % 4, 'x', 'y', 'z'), CONCAT('::', HEX(seq)), 'note'
  FROM (SELECT CAST(seq AS SIGNED) AS seq FROM seq_1_to_500) AS numbers;
EXPLAIN SELECT * FROM types FORCE INDEX (k) WHERE k = 1 AND big > 3000000000000 AND e = 'y';
SELECT COUNT(note), SUM(id) FROM types FORCE INDEX (k) WHERE k = 1 AND tiny < 0 AND big > 3000000000000 AND f IS NOT NULL AND g < -2;
SELECT COUNT(note), SUM(id) FROM types IGNORE INDEX (k) WHERE k = 1 AND tiny < 0 AND big > 3000000000000 AND f IS NOT NULL AND g < -2;
SELECT COUNT(note), SUM(id) FROM types FORCE INDEX (k) WHERE k = 2 AND (f IS NULL OR f > 50) AND n BETWEEN 20 AND 100.5 AND day < '2026-09-09' AND bin > 'D';
SELECT COUNT(note), SUM(id) FROM types IGNORE INDEX (k) WHERE k = 2 AND (f IS NULL OR f > 50) AND n BETWEEN 20 AND 100.5 AND day < '2026-09-09' AND bin > 'D';
SELECT COUNT(note), SUM(id) FROM types FORCE INDEX (k) WHERE k = 0 AND at > '2026-01-01 00:01:00.5' AND bits & 1 AND (e IS NULL OR e <> 'x') AND net > '::80';
SELECT COUNT(note), SUM(id) FROM types IGNORE INDEX (k) WHERE k = 0 AND at > '2026-01-01 00:01:00.5' AND bits & 1 AND (e IS NULL OR e <> 'x') AND net > '::80';

-- Filters of primary keys.
CREATE TABLE f (id INT PRIMARY KEY, a INT, b INT, c INT, pad VARCHAR(200), KEY a (a), KEY b (b));
INSERT INTO f SELECT seq, seq % 40, seq % 997, seq, REPEAT('p', 150) FROM seq_1_to_20000;
CREATE TABLE small (id INT PRIMARY KEY, a INT);
INSERT INTO small SELECT seq, seq FROM seq_1_to_20;
ANALYZE TABLE f, small;
EXPLAIN SELECT COUNT(f.pad) FROM small STRAIGHT_JOIN f FORCE INDEX (a, b) ON f.a = small.a WHERE f.b BETWEEN 10 AND 20;
FLUSH STATUS;
SELECT COUNT(f.pad), SUM(f.id) FROM small STRAIGHT_JOIN f FORCE INDEX (a, b) ON f.a = small.a WHERE f.b BETWEEN 10 AND 20;
SHOW STATUS WHERE variable_name IN ('Handler_read_key', 'Handler_read_next', 'Handler_read_rnd', 'Handler_icp_attempts');
SELECT COUNT(f.pad), SUM(f.id) FROM small STRAIGHT_JOIN f IGNORE INDEX (b) ON f.a = small.a WHERE f.b BETWEEN 10 AND 20;
-- Without a primary key, the hidden one is filtered.
CREATE TABLE h LIKE f;
ALTER TABLE h DROP PRIMARY KEY;
INSERT INTO h SELECT * FROM f;
ANALYZE TABLE h;
EXPLAIN SELECT COUNT(h.pad), SUM(h.id) FROM small STRAIGHT_JOIN h FORCE INDEX (a, b) ON h.a = small.a WHERE h.b BETWEEN 10 AND 20;
SELECT COUNT(h.pad), SUM(h.id) FROM small STRAIGHT_JOIN h FORCE INDEX (a, b) ON h.a = small.a WHERE h.b BETWEEN 10 AND 20;
-- A primary key of text is not in the entry as it is: no filter, no condition.
CREATE TABLE x (id VARCHAR(10) PRIMARY KEY, a INT, b INT, pad VARCHAR(200), KEY a (a), KEY b (b));
INSERT INTO x SELECT CONCAT('x', id), a, b, pad FROM f;
ANALYZE TABLE x;
EXPLAIN SELECT COUNT(x.pad) FROM small STRAIGHT_JOIN x FORCE INDEX (a, b) ON x.a = small.a WHERE x.b BETWEEN 10 AND 20;
SELECT COUNT(x.pad), MIN(x.id) FROM small STRAIGHT_JOIN x FORCE INDEX (a, b) ON x.a = small.a WHERE x.b BETWEEN 10 AND 20;
SELECT COUNT(pad), MIN(id) FROM x FORCE INDEX (a) WHERE a = 3 AND id LIKE '%7';
-- Nor a prefix of one: it is the primary key too, but the row alone has the text.
CREATE TABLE cut (t VARCHAR(200), a INT, b INT, pad VARCHAR(200), PRIMARY KEY (t(8)), KEY a (a), KEY b (b));
INSERT INTO cut SELECT CONCAT('x', id), a, b, pad FROM f;
ANALYZE TABLE cut;
EXPLAIN SELECT COUNT(cut.pad) FROM small STRAIGHT_JOIN cut FORCE INDEX (a, b) ON cut.a = small.a WHERE cut.b BETWEEN 10 AND 20;
SELECT COUNT(cut.pad), MIN(cut.t) FROM small STRAIGHT_JOIN cut FORCE INDEX (a, b) ON cut.a = small.a WHERE cut.b BETWEEN 10 AND 20;
EXPLAIN SELECT COUNT(pad) FROM cut FORCE INDEX (PRIMARY) WHERE t < 'x11' AND a = 3;
SELECT COUNT(pad), MIN(t), MAX(t) FROM cut FORCE INDEX (PRIMARY) WHERE t < 'x11' AND a = 3;
EXPLAIN SELECT COUNT(pad) FROM cut FORCE INDEX (a) WHERE a = 3 AND t LIKE '%63';
SELECT COUNT(pad), MIN(t) FROM cut FORCE INDEX (a) WHERE a = 3 AND t LIKE '%63';

-- Reads of many ranges: rows in the order of the primary key, keys in the order of the index.
SET optimizer_switch = 'mrr=on,mrr_cost_based=off,mrr_sort_keys=on', join_cache_level = 6;
EXPLAIN SELECT * FROM t FORCE INDEX (ab) WHERE a BETWEEN 3 AND 5 AND b > 7;
SELECT id, a, b FROM t FORCE INDEX (ab) WHERE a BETWEEN 3 AND 5 AND b > 8 AND c = 'c1';
EXPLAIN SELECT * FROM f FORCE INDEX (b) WHERE b IN (7, 3, 500) OR b BETWEEN 900 AND 902;
SELECT COUNT(pad), SUM(id), MIN(b), MAX(b) FROM f FORCE INDEX (b) WHERE b IN (7, 3, 500) OR b BETWEEN 900 AND 902;
EXPLAIN SELECT COUNT(f.pad), SUM(f.id) FROM small STRAIGHT_JOIN f FORCE INDEX (b) ON f.b = small.a;
SELECT COUNT(f.pad), SUM(f.id) FROM small STRAIGHT_JOIN f FORCE INDEX (b) ON f.b = small.a;
EXPLAIN SELECT COUNT(f.pad), SUM(f.id) FROM small STRAIGHT_JOIN f FORCE INDEX (PRIMARY) ON f.id = small.a;
SELECT COUNT(f.pad), SUM(f.id) FROM small STRAIGHT_JOIN f FORCE INDEX (PRIMARY) ON f.id = small.a;
SELECT COUNT(x.pad), MIN(x.id) FROM x FORCE INDEX (b) WHERE b IN (7, 3, 500) OR b BETWEEN 900 AND 902;
SELECT COUNT(h.pad), SUM(h.id) FROM h FORCE INDEX (b) WHERE b IN (7, 3, 500) OR b BETWEEN 900 AND 902;
-- With locks, rows are read and locked in the order of the index.
EXPLAIN SELECT * FROM f FORCE INDEX (b) WHERE b IN (7, 3, 500) FOR UPDATE;

-- Changes find the right rows.
UPDATE t FORCE INDEX (ab) SET d = -d WHERE a BETWEEN 3 AND 5 AND b = 4;
DELETE FROM t WHERE a = 7 AND b BETWEEN 2 AND 5 ORDER BY id LIMIT 20;
UPDATE t, small SET t.c = 'joined' WHERE t.a = small.a AND t.b = 8 AND small.id < 4;
DELETE t FROM t JOIN small ON t.a = small.a WHERE t.b = 9 AND small.id < 3;
UPDATE t SET c = 'sub' WHERE id IN (SELECT c FROM f WHERE a = 3 AND b < 40);
SELECT COUNT(*), SUM(id), SUM(d), SUM(c = 'joined'), SUM(c = 'sub') FROM t;
SET optimizer_switch = DEFAULT, join_cache_level = DEFAULT;

-- Partitions read into records of their own.
CREATE TABLE p (id INT, a INT, b INT, pad VARCHAR(10), PRIMARY KEY (id), KEY ab (a, b)) PARTITION BY HASH (id) PARTITIONS 3;
INSERT INTO p SELECT seq, seq DIV 100, seq % 10, 'pad' FROM seq_1_to_1000;
EXPLAIN SELECT * FROM p FORCE INDEX (ab) WHERE a BETWEEN 3 AND 5 AND b = 4;
SELECT COUNT(pad), SUM(id) FROM p FORCE INDEX (ab) WHERE a BETWEEN 3 AND 5 AND b = 4;
SELECT id, a, b, pad FROM p FORCE INDEX (ab) WHERE a BETWEEN 3 AND 5 AND b = 4 ORDER BY a, b, id LIMIT 4;
SELECT id, a, b, pad FROM p FORCE INDEX (ab) WHERE a = 5 AND b > 7 ORDER BY a, b, id LIMIT 4;
SELECT id, a, b, pad FROM p FORCE INDEX (ab) WHERE a BETWEEN 3 AND 5 AND b = 4 ORDER BY a DESC, b DESC, id DESC LIMIT 4;
DROP TABLE t, types, f, small, h, x, cut, p;
