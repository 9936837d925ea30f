-- engines: InnoDB Millpond
-- A row that names 0 or a negative number. It counts as 0, from which the counter becomes 3 once this
-- connection's instance of the table has handed out a number.
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT, UNIQUE KEY v (v));
INSERT INTO t VALUES (-1, 1);
INSERT INTO t (v) VALUES (2);
INSERT INTO t VALUES (-5, 3);
INSERT INTO t (v) VALUES (4);
SELECT * FROM t ORDER BY v;
-- In a statement that has taken numbers, its rows leave the counter as it is.
TRUNCATE TABLE t;
INSERT INTO t VALUES (NULL, 1), (-1, 2), (NULL, 3);
INSERT INTO t (v) VALUES (4);
SELECT * FROM t ORDER BY v;
-- A duplicate counts if the statement goes on with its next row.
TRUNCATE TABLE t;
INSERT INTO t (v) VALUES (1);
INSERT IGNORE INTO t VALUES (-1, 1);
SHOW CREATE TABLE t;
INSERT IGNORE INTO t SELECT -1, 1 UNION ALL SELECT 0, 2;
SELECT * FROM t ORDER BY v;
TRUNCATE TABLE t;
INSERT INTO t (v) VALUES (1);
REPLACE INTO t VALUES (-1, 1), (NULL, 2);
SELECT * FROM t ORDER BY v;
-- With steps and an offset.
TRUNCATE TABLE t;
SET auto_increment_increment = 10, auto_increment_offset = 5;
INSERT INTO t (v) VALUES (1);
INSERT INTO t VALUES (-1, 2);
INSERT INTO t (v) VALUES (3);
SELECT * FROM t ORDER BY v;
TRUNCATE TABLE t;
SET auto_increment_offset = 10;
INSERT INTO t (v) VALUES (1);
INSERT INTO t VALUES (-1, 2);
INSERT INTO t (v) VALUES (3);
SELECT * FROM t ORDER BY v;
SET auto_increment_increment = DEFAULT, auto_increment_offset = DEFAULT;
-- 0 is a number where sql_mode says so.
TRUNCATE TABLE t;
SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
INSERT INTO t (v) VALUES (1);
INSERT INTO t VALUES (0, 2);
INSERT INTO t (v) VALUES (3);
SELECT * FROM t ORDER BY v;
SET sql_mode = DEFAULT;
-- Behind an update that gives a negative number the server finds no next one: in the numbers that the
-- statement has, and when it asks for more.
TRUNCATE TABLE t;
INSERT INTO t VALUES (1, 1), (2, 2);
INSERT IGNORE INTO t VALUES (NULL, 1), (NULL, 3), (NULL, 4) ON DUPLICATE KEY UPDATE id = -5;
INSERT IGNORE INTO t VALUES (5, 2), (NULL, 6), (NULL, 7) ON DUPLICATE KEY UPDATE id = -6;
INSERT INTO t VALUES (NULL, 8), (9, 8), (NULL, 9) ON DUPLICATE KEY UPDATE id = -2;
SELECT * FROM t ORDER BY v;
DROP TABLE t;
