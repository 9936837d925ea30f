-- engines: InnoDB Millpond
-- Indexes over generated columns.
CREATE TABLE v (
  id INT PRIMARY KEY, a INT, s VARCHAR(20),
  twice INT AS (a * 2) VIRTUAL, stored INT AS (a + 100) PERSISTENT,
  upper_s VARCHAR(20) AS (UPPER(s)) VIRTUAL, flag INT AS (IF(a > 10, a, NULL)) VIRTUAL,
  KEY twice (twice), KEY stored (stored), UNIQUE KEY upper_s (upper_s), KEY flag (flag, twice),
  KEY mixed (twice, a, upper_s(3))
);
INSERT INTO v (id, a, s) VALUES (1, 5, 'one'), (2, 15, 'two'), (3, NULL, 'three'), (4, 20, NULL), (5, 5, NULL);
SELECT id, twice FROM v FORCE INDEX (twice) WHERE twice >= 10 ORDER BY twice, id;
SELECT id, stored FROM v FORCE INDEX (stored) WHERE stored > 105 ORDER BY stored;
SELECT id, upper_s FROM v FORCE INDEX (upper_s) WHERE upper_s = 'TWO';
SELECT id, flag FROM v FORCE INDEX (flag) WHERE flag IS NULL ORDER BY twice, id;
SELECT twice FROM v FORCE INDEX (twice) WHERE twice IS NOT NULL ORDER BY twice;
SELECT COUNT(*), MAX(twice) FROM v;
SELECT id FROM v FORCE INDEX (mixed) WHERE twice = 10 AND a = 5 AND upper_s LIKE 'ON%';
-- A duplicate of a computed value.
INSERT INTO v (id, a, s) VALUES (6, 1, 'One');
INSERT INTO v (id, a, s) VALUES (6, 1, 'six'), (7, 2, 'SIX');
INSERT INTO v (id, a, s) VALUES (6, 1, 'oNe') ON DUPLICATE KEY UPDATE a = 6;
REPLACE INTO v (id, a, s) VALUES (7, 7, 'tWo');
INSERT IGNORE INTO v (id, a, s) VALUES (8, 8, 'Three'), (9, 9, 'nine');
SELECT id, a, s, twice, stored, upper_s, flag FROM v ORDER BY id;
-- What the index has follows the columns that it is computed of.
UPDATE v SET a = a + 10 WHERE id IN (1, 4, 9);
UPDATE v SET s = 'uno' WHERE upper_s = 'ONE';
UPDATE v SET id = id + 10 WHERE flag > 15;
UPDATE v SET a = NULL WHERE twice = 14;
SELECT id, twice FROM v FORCE INDEX (twice) ORDER BY twice, id;
SELECT id, upper_s FROM v FORCE INDEX (upper_s) WHERE upper_s > 'A';
SELECT id, flag, twice FROM v FORCE INDEX (flag) ORDER BY flag, twice, id;
CHECK TABLE v;
DELETE FROM v WHERE twice = 10;
DELETE FROM v WHERE upper_s = 'UNO';
DELETE v FROM v JOIN (SELECT 19 AS n) x ON v.a = x.n;
UPDATE v JOIN (SELECT 7 AS n) x ON v.id = x.n SET v.s = 'joined', v.a = 3;
SELECT id, a, s, twice, upper_s FROM v ORDER BY id;
CHECK TABLE v;
-- A rollback, and reads of another transaction's past.
BEGIN;
UPDATE v SET a = 1000;
SELECT id FROM v FORCE INDEX (twice) WHERE twice = 2000 ORDER BY id;
ROLLBACK;
SELECT id FROM v FORCE INDEX (twice) WHERE twice = 2000;
SELECT id, twice FROM v FORCE INDEX (twice) WHERE twice > 0 ORDER BY twice FOR UPDATE;
CHECK TABLE v;
-- New indexes, other expressions.
ALTER TABLE v ADD COLUMN len INT AS (LENGTH(s)) VIRTUAL, ADD KEY len (len);
SELECT id, len FROM v FORCE INDEX (len) WHERE len > 3 ORDER BY len, id;
ALTER TABLE v MODIFY COLUMN len INT AS (LENGTH(s) * 10) VIRTUAL;
SELECT id, len FROM v FORCE INDEX (len) WHERE len > 30 ORDER BY len, id;
CHECK TABLE v;
ALTER TABLE v RENAME COLUMN s TO t;
SELECT id, len FROM v FORCE INDEX (len) WHERE len > 30 ORDER BY len, id;
ALTER TABLE v DROP KEY len, RENAME INDEX twice TO double_a;
SELECT id, twice FROM v FORCE INDEX (double_a) WHERE twice > 0 ORDER BY twice;
CHECK TABLE v;
-- Long virtual columns, of JSON and BLOB.
CREATE TABLE j (id INT PRIMARY KEY AUTO_INCREMENT, doc JSON, name TEXT AS (JSON_VALUE(doc, '$.name')) VIRTUAL,
                bin BLOB AS (CONCAT(doc, doc)) VIRTUAL, KEY name (name(10)), KEY bin (bin(30)));
INSERT INTO j (doc) VALUES ('{"name": "ada"}'), ('{"name": "bob", "n": 1}'), ('{}'), (NULL);
SELECT id, name FROM j FORCE INDEX (name) WHERE name = 'bob';
UPDATE j SET doc = JSON_SET(doc, '$.name', 'eve') WHERE name = 'ada';
REPLACE INTO j (id, doc) VALUES (2, '{"name": "zoe"}');
INSERT INTO j (id, doc) VALUES (2, '{}') ON DUPLICATE KEY UPDATE doc = JSON_SET(doc, '$.name', 'kim');
SELECT id, name, LENGTH(bin) FROM j FORCE INDEX (name) WHERE name IS NOT NULL ORDER BY name;
DELETE FROM j WHERE name = 'eve';
CHECK TABLE j;
-- A table without a primary key, and a partitioned one.
CREATE TABLE h (a INT, b INT AS (-a) VIRTUAL, KEY b (b));
INSERT INTO h (a) VALUES (1), (2), (2), (3);
UPDATE h SET a = 5 WHERE b = -2 LIMIT 1;
DELETE FROM h WHERE b = -3;
SELECT a, b FROM h FORCE INDEX (b) WHERE b < 0 ORDER BY b;
CHECK TABLE h;
CREATE TABLE p (id INT, a INT, b INT AS (a % 3) VIRTUAL, PRIMARY KEY (id), KEY b (b)) PARTITION BY HASH (id) PARTITIONS 3;
INSERT INTO p (id, a) SELECT seq, seq * 7 FROM seq_1_to_20;
UPDATE p SET id = id + 100, a = a + 1 WHERE b = 1;
DELETE FROM p WHERE b = 0 AND id < 10;
SELECT b, COUNT(*), SUM(id) FROM p FORCE INDEX (b) GROUP BY b;
CHECK TABLE p;
-- A change computes no column that neither it nor an index needs, also without a primary key.
CREATE TABLE c (a INT, s TEXT, n INT AS (LAST_VALUE(@n := @n + 1, a)) VIRTUAL, b INT AS (a + 1) VIRTUAL, KEY b (b));
INSERT INTO c (a, s) VALUES (1, 'one'), (2, 'two'), (3, 'three'), (4, NULL);
SET @n = 0;
UPDATE c SET a = a + 10 WHERE a = 2;
UPDATE c SET s = CONCAT(s, '!') WHERE a > 2;
UPDATE c SET a = 20 ORDER BY a LIMIT 1;
DELETE FROM c WHERE a = 3;
SELECT @n;
SELECT a, s FROM c FORCE INDEX (b) WHERE b > 0 ORDER BY b;
CHECK TABLE c;
DROP TABLE v, j, h, p, c;
