-- server: --skip-millpond-doublewrite
-- The doublewrite is off from the start.
SELECT @@GLOBAL.millpond_doublewrite;
SELECT variable_value + 0 FROM information_schema.global_status WHERE variable_name = 'Millpond_doublewrite_off';
CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000)) ENGINE=Millpond;
INSERT INTO t SELECT seq, REPEAT(seq % 10, 1000) FROM seq_1_to_1000;
SET GLOBAL millpond_doublewrite = DEFAULT;
SELECT @@GLOBAL.millpond_doublewrite;
SELECT variable_value + 0 FROM information_schema.global_status WHERE variable_name = 'Millpond_doublewrite_off';
CHECK TABLE t;
DROP TABLE t;
