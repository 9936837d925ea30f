-- engines: Millpond
-- The buffer pool gets another size while the server runs.
CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000));
INSERT INTO t SELECT seq, REPEAT(seq % 10, 1000) FROM seq_1_to_20000;
SET @before = @@GLOBAL.millpond_buffer_pool_size;
SET GLOBAL millpond_buffer_pool_size = 8388608;
SELECT @@GLOBAL.millpond_buffer_pool_size;
SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Millpond_buffer_pool_bytes';
SELECT COUNT(*), SUM(LENGTH(v)) FROM t;
UPDATE t SET v = REPEAT('x', 900);
SET GLOBAL millpond_buffer_pool_size = 33554432;
SELECT COUNT(*), SUM(LENGTH(v)) FROM t;
-- A size is cut down to whole mebibytes, and there is a least one.
SET GLOBAL millpond_buffer_pool_size = 17000000;
SELECT @@GLOBAL.millpond_buffer_pool_size;
SET GLOBAL millpond_buffer_pool_size = 1;
SELECT @@GLOBAL.millpond_buffer_pool_size;
CHECK TABLE t;
SET GLOBAL millpond_buffer_pool_size = @before;
SELECT COUNT(*), SUM(LENGTH(v)) FROM t;
DROP TABLE t;
