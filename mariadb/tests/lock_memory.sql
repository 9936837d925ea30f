-- engines: Millpond
-- Rows that a statement reads in order are one range lock: the least memory for locks is enough.
-- Rows that it finds through a secondary index have locks of their own.
CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, v INT NOT NULL, KEY k (k));
CREATE TABLE copy LIKE t;
INSERT INTO t SELECT seq, seq, 0 FROM seq_1_to_20000;
SET GLOBAL millpond_lock_memory_bytes = 65536;
SELECT @@GLOBAL.millpond_lock_memory_bytes;
BEGIN;
SELECT SUM(v) FROM t FOR UPDATE;
SELECT SUM(v) FROM t LOCK IN SHARE MODE;
INSERT INTO copy SELECT * FROM t;
UPDATE t SET v = 1 WHERE v = 2;
UPDATE t SET v = 1 WHERE v = 0;
COMMIT;
SELECT COUNT(*), SUM(v) FROM t;
SELECT COUNT(*) FROM copy;
SELECT SUM(v) FROM t FORCE INDEX (k) WHERE k > 0 FOR UPDATE;
SET GLOBAL millpond_lock_memory_bytes = DEFAULT;
SELECT SUM(v) FROM t FORCE INDEX (k) WHERE k > 0 FOR UPDATE;
-- A value is cut down to whole 64 KiB, and 0 means the default.
SET GLOBAL millpond_lock_memory_bytes = 200000;
SELECT @@GLOBAL.millpond_lock_memory_bytes;
SET GLOBAL millpond_lock_memory_bytes = 1;
SELECT @@GLOBAL.millpond_lock_memory_bytes;
SET GLOBAL millpond_lock_memory_bytes = DEFAULT;
DROP TABLE t, copy;
