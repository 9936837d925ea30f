-- The doublewrite is switched off and on while the server runs. Off is unsafe, so it warns.
SELECT @@GLOBAL.millpond_doublewrite;
CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000)) ENGINE=Millpond;
SET GLOBAL millpond_doublewrite = OFF;
SELECT @@GLOBAL.millpond_doublewrite;
SELECT variable_value + 0 FROM information_schema.global_status WHERE variable_name = 'Millpond_doublewrite_off';
INSERT INTO t SELECT seq, REPEAT(seq % 10, 1000) FROM seq_1_to_20000;
UPDATE t SET v = REPEAT('x', 900) WHERE id % 3 = 0;
SET GLOBAL millpond_doublewrite = ON;
SELECT @@GLOBAL.millpond_doublewrite;
SELECT variable_value + 0 FROM information_schema.global_status WHERE variable_name = 'Millpond_doublewrite_off';
SELECT COUNT(*), SUM(LENGTH(v)) FROM t;
CHECK TABLE t;
-- A value that is no switch changes nothing. The setting is the server's, not a session's.
SET GLOBAL millpond_doublewrite = 'unsafe';
SET millpond_doublewrite = OFF;
SELECT @@GLOBAL.millpond_doublewrite;
DROP TABLE t;
