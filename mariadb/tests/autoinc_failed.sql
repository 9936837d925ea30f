-- engines: InnoDB Millpond
-- server: --innodb-autoinc-lock-mode=0 --millpond-autoinc-lock-mode=0
-- With the lock of each insert to its end, a row that fails uses no number, whatever the statement.
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL, UNIQUE KEY v (v));
INSERT INTO t (v) VALUES (1);
INSERT INTO t (v) VALUES (1);
INSERT INTO t (v) VALUES (2);
SELECT * FROM t ORDER BY v;
-- The second of three rows fails: with the statement, alone, or replaced by an update.
INSERT INTO t (v) VALUES (3), (1), (4);
INSERT IGNORE INTO t (v) VALUES (5), (1), (6);
INSERT INTO t (v) VALUES (7), (1), (8) ON DUPLICATE KEY UPDATE v = VALUES(v) + 100;
INSERT INTO t (v) SELECT 9 UNION ALL SELECT 5;
INSERT IGNORE INTO t (v) SELECT 10 UNION ALL SELECT 5 UNION ALL SELECT 11;
REPLACE INTO t (v) VALUES (12), (5), (13);
INSERT INTO t (v) VALUES (14);
SELECT * FROM t ORDER BY v;
-- A named number raises the counter if its row is stored.
INSERT INTO t VALUES (50, 14);
INSERT INTO t (v) VALUES (15);
INSERT INTO t VALUES (60, 16), (NULL, 17);
INSERT INTO t VALUES (NULL, 18), (70, 14), (NULL, 19);
INSERT INTO t (v) VALUES (20);
SELECT * FROM t WHERE v BETWEEN 15 AND 20 ORDER BY v;
-- In steps.
SET auto_increment_increment = 10, auto_increment_offset = 3;
INSERT INTO t (v) VALUES (20);
INSERT INTO t (v) VALUES (21), (22);
INSERT INTO t (v) VALUES (20);
INSERT INTO t (v) VALUES (23);
SELECT * FROM t WHERE v > 20 AND v < 100 ORDER BY v;
SET auto_increment_increment = DEFAULT, auto_increment_offset = DEFAULT;
-- A number that a transaction has undone is not given again.
BEGIN;
INSERT INTO t (v) VALUES (24);
ROLLBACK;
INSERT INTO t (v) VALUES (25);
SELECT id FROM t WHERE v = 25;
DROP TABLE t;
-- Up to the last number.
CREATE TABLE t (id TINYINT AUTO_INCREMENT PRIMARY KEY, v INT, UNIQUE KEY v (v));
INSERT INTO t VALUES (125, 1);
INSERT INTO t (v) VALUES (1);
INSERT INTO t (v) VALUES (2);
INSERT INTO t (v) VALUES (1);
INSERT INTO t (v) VALUES (3);
INSERT INTO t (v) VALUES (1);
SELECT * FROM t ORDER BY v;
DROP TABLE t;
