-- engines: InnoDB Millpond
-- REPLACE, ON DUPLICATE KEY UPDATE, INSERT ... SELECT, and UPDATE and DELETE of several tables.
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, u INT, v VARCHAR(10), n INT DEFAULT 7, UNIQUE KEY u (u), UNIQUE KEY v (v), KEY n (n));
INSERT INTO t (id, u, v) VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c'), (4, NULL, NULL);

-- A row takes the place of all rows that have one of its keys.
REPLACE INTO t (id, u, v) VALUES (1, 10, 'a');
SELECT ROW_COUNT();
REPLACE INTO t (id, u, v, n) VALUES (5, 10, 'b', 1);
SELECT ROW_COUNT();
SELECT * FROM t ORDER BY id;
REPLACE INTO t (u, v) VALUES (NULL, NULL), (30, 'x'), (31, 'x');
SELECT ROW_COUNT(), LAST_INSERT_ID();
SELECT * FROM t ORDER BY id;
REPLACE INTO t (id, u, v) VALUES (5, 11, 'e') RETURNING id, u, v, n;
REPLACE INTO t SELECT id + 1, u, v, n + 1 FROM t WHERE u IS NOT NULL ORDER BY id;
SELECT ROW_COUNT();
SELECT * FROM t ORDER BY id;
SELECT u FROM t FORCE INDEX (u) WHERE u > 0 ORDER BY u;
SELECT v FROM t FORCE INDEX (v) WHERE v > '' ORDER BY v;
SELECT n, COUNT(*) FROM t FORCE INDEX (n) GROUP BY n;
REPLACE t SET id = 1, u = 40;
REPLACE DELAYED INTO t (id, u) VALUES (1, 41);
SELECT * FROM t WHERE id = 1;
TRUNCATE TABLE t;

-- An insert that finds a row changes that row instead: the one of the first key that has one.
INSERT INTO t (id, u, v) VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c');
INSERT INTO t (id, u, v) VALUES (1, 20, 'c') ON DUPLICATE KEY UPDATE n = n + 1;
SELECT ROW_COUNT();
INSERT INTO t (u, v) VALUES (20, 'c') ON DUPLICATE KEY UPDATE n = n + 1, id = LAST_INSERT_ID(id);
SELECT ROW_COUNT(), LAST_INSERT_ID();
INSERT INTO t (u, v) VALUES (21, 'c') ON DUPLICATE KEY UPDATE v = CONCAT(v, VALUES(u));
INSERT INTO t (u, v) VALUES (NULL, 'd') ON DUPLICATE KEY UPDATE n = 0;
SELECT ROW_COUNT(), LAST_INSERT_ID();
INSERT INTO t (u, v) VALUES (10, 'z') ON DUPLICATE KEY UPDATE u = u;
SELECT ROW_COUNT();
INSERT INTO t (u, v) VALUES (10, 'z') ON DUPLICATE KEY UPDATE u = 20;
INSERT INTO t (u, v) VALUES (10, 'z') ON DUPLICATE KEY UPDATE id = 2;
INSERT IGNORE INTO t (u, v) VALUES (10, 'z') ON DUPLICATE KEY UPDATE id = 2;
INSERT INTO t (u, v) VALUES (50, 'k'), (50, 'l'), (51, 'k') ON DUPLICATE KEY UPDATE n = n * 10, v = VALUES(v);
SELECT ROW_COUNT();
INSERT INTO t (id, u, v) VALUES (1, 1, 'q') ON DUPLICATE KEY UPDATE id = 100, u = 101;
INSERT INTO t (u, v) SELECT u, 'w' FROM t ORDER BY id ON DUPLICATE KEY UPDATE n = t.n + 100;
SELECT * FROM t ORDER BY id;
SELECT n, COUNT(*) FROM t FORCE INDEX (n) GROUP BY n;

-- INSERT ... SELECT: of the table itself, with duplicates, and into a table with other columns.
CREATE TABLE copied (c INT PRIMARY KEY, d VARCHAR(5), e INT AS (c * 2) VIRTUAL, KEY e (e));
INSERT INTO copied (c, d) SELECT id, v FROM t ORDER BY id;
SELECT * FROM copied ORDER BY c;
INSERT INTO copied (c, d) SELECT c + 1, d FROM copied ORDER BY c;
SELECT COUNT(*) FROM copied;
INSERT IGNORE INTO copied (c, d) SELECT c + 1, CONCAT(d, '-too-long') FROM copied ORDER BY c;
SELECT * FROM copied ORDER BY c;
INSERT INTO copied (c, d) SELECT MAX(c) + 1, COUNT(*) FROM copied;
INSERT INTO copied (c, d) SELECT 1000 + seq, CONCAT('s', seq) FROM seq_1_to_5 RETURNING c, d, e;
CREATE TABLE made AS SELECT c, e FROM copied WHERE e > 200;
SHOW CREATE TABLE made;
SELECT * FROM made ORDER BY c;
INSERT INTO made SELECT * FROM made;
SELECT COUNT(*) FROM made;
CREATE TABLE refuses (c TINYINT) AS SELECT c FROM made ORDER BY c;
SELECT COUNT(*) FROM refuses;

-- Several tables: which rows change, and that a row that matches several times changes once.
CREATE TABLE owner (id INT PRIMARY KEY, name VARCHAR(10), items INT NOT NULL DEFAULT 0, KEY name (name));
CREATE TABLE item (id INT PRIMARY KEY, owner_id INT, price INT, KEY owner_id (owner_id));
INSERT INTO owner (id, name) VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four');
INSERT INTO item SELECT seq, seq % 3 + 1, seq * 10 FROM seq_1_to_9;
UPDATE owner o JOIN item i ON i.owner_id = o.id SET o.items = o.items + 1;
SELECT ROW_COUNT();
UPDATE owner o JOIN item i ON i.owner_id = o.id SET i.price = i.price + o.items, o.items = 5 WHERE o.id < 3;
SELECT ROW_COUNT();
UPDATE owner o LEFT JOIN item i ON i.owner_id = o.id SET o.name = 'none', i.price = 0 WHERE i.id IS NULL;
UPDATE item a JOIN item b ON b.id = a.id + 1 SET a.price = b.price WHERE a.id IN (1, 5);
UPDATE owner SET name = CONCAT(name, '!') WHERE id IN (SELECT owner_id FROM item WHERE price > 60);
UPDATE owner o JOIN item i ON i.owner_id = o.id SET o.id = o.id + 10, i.owner_id = i.owner_id + 10 WHERE o.id = 1;
UPDATE owner o JOIN item i ON i.owner_id = o.id SET o.id = 2 WHERE o.id = 11;
UPDATE IGNORE owner o JOIN item i ON i.owner_id = o.id SET o.id = 2 WHERE o.id = 11;
SELECT * FROM owner ORDER BY id;
SELECT * FROM item ORDER BY id;
SELECT owner_id, COUNT(*) FROM item FORCE INDEX (owner_id) GROUP BY owner_id;
DELETE i FROM owner o JOIN item i ON i.owner_id = o.id WHERE o.id = 2 AND i.price > 50;
SELECT ROW_COUNT();
DELETE o, i FROM owner o LEFT JOIN item i ON i.owner_id = o.id WHERE o.id IN (3, 4);
SELECT ROW_COUNT();
DELETE FROM a USING item a JOIN item b ON b.id > a.id;
SELECT ROW_COUNT();
DELETE FROM owner WHERE id NOT IN (SELECT owner_id FROM item);
SELECT * FROM owner ORDER BY id;
SELECT * FROM item ORDER BY id;

-- A statement that fails changes nothing, in a transaction too.
BEGIN;
INSERT INTO item VALUES (20, 1, 1);
INSERT INTO item VALUES (21, 1, 1), (22, 1, 1), (20, 1, 1);
INSERT INTO item SELECT id + 1, 1, 1 FROM item ORDER BY id DESC;
UPDATE item SET id = 20 WHERE id < 20;
REPLACE INTO item VALUES (20, 2, 2), (23, 'x', 1);
SELECT * FROM item ORDER BY id;
ROLLBACK;
SELECT * FROM item ORDER BY id;
DROP TABLE t, copied, made, owner, item;
