SET default_storage_engine = Millpond;
-- Rows of a table with a primary key.
CREATE TABLE a (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL DEFAULT 0, c CHAR(20) NOT NULL DEFAULT '',
                v VARCHAR(50), KEY k (k));
INSERT INTO a (k, c, v) VALUES (1, 'one', 'eins'), (2, 'two', NULL), (3, 'three  ', 'drei  ');
SELECT id, k, CONCAT('<', c, '>'), CONCAT('<', v, '>') FROM a ORDER BY id;
SELECT * FROM a WHERE k = 2;
SELECT * FROM a WHERE id = 3;
SELECT * FROM a WHERE id = 4;
UPDATE a SET k = 20, v = 'zwei' WHERE id = 2;
SELECT * FROM a ORDER BY k DESC;
SELECT k FROM a FORCE INDEX (k) WHERE k > 1;
UPDATE a SET id = id + 10 ORDER BY id DESC;
SELECT id FROM a FORCE INDEX (k) WHERE k = 3;
DELETE FROM a WHERE k = 1;
SELECT * FROM a ORDER BY id;
INSERT INTO a (id) VALUES (12);
INSERT IGNORE INTO a (id, k) VALUES (12, 5), (14, 5);
REPLACE INTO a (id, k, c) VALUES (12, 6, 'six');
INSERT INTO a (id, k) VALUES (12, 7) ON DUPLICATE KEY UPDATE k = a.k + 100, c = 'updated';
SELECT * FROM a ORDER BY id;
INSERT INTO a (k, c) SELECT k, c FROM a;
SELECT k, c FROM a ORDER BY k, c;
UPDATE a, (SELECT MAX(k) AS m FROM a) x SET a.k = a.k + 1 WHERE a.k = x.m;
DELETE x FROM a x JOIN a y ON x.k = y.k AND x.id > y.id;
SELECT k, c FROM a ORDER BY k, c;
TRUNCATE a;
SELECT COUNT(*) FROM a;
INSERT INTO a (k) VALUES (1);
SELECT id FROM a;
DROP TABLE a;

-- Rows of a table with a hidden key; a unique index with NULLs.
CREATE TABLE h (x INT, y VARCHAR(10), UNIQUE u (x), KEY yy (y));
INSERT INTO h VALUES (1, 'a'), (2, 'b'), (NULL, 'c'), (NULL, 'd');
INSERT INTO h VALUES (2, 'z');
INSERT INTO h VALUES (3, 'p'), (1, 'q');
SELECT * FROM h ORDER BY y;
SELECT * FROM h WHERE x IS NULL ORDER BY y;
SELECT * FROM h WHERE x <=> NULL ORDER BY y;
UPDATE h SET x = 5 WHERE y = 'c';
UPDATE h SET x = 5 WHERE y = 'd';
UPDATE h SET x = NULL WHERE y = 'c';
SELECT * FROM h ORDER BY x, y;
REPLACE INTO h VALUES (2, 'bb');
INSERT INTO h VALUES (1, 'q') ON DUPLICATE KEY UPDATE y = 'dup';
SELECT * FROM h ORDER BY y;
DELETE FROM h WHERE y = 'c';
SELECT y FROM h FORCE INDEX (yy) ORDER BY y DESC;
DELETE FROM h ORDER BY y LIMIT 1;
SELECT * FROM h ORDER BY y;
DROP TABLE h;

-- Two unique indexes: a duplicate in the second leaves nothing of the row.
CREATE TABLE u (a INT PRIMARY KEY, b INT NOT NULL, c INT NOT NULL, UNIQUE b (b), UNIQUE c (c));
INSERT INTO u VALUES (1, 1, 1), (2, 2, 2);
INSERT IGNORE INTO u VALUES (3, 3, 2), (4, 4, 4);
SELECT * FROM u ORDER BY a;
SELECT b FROM u FORCE INDEX (b) ORDER BY b;
UPDATE IGNORE u SET b = b + 1, c = c + 1 ORDER BY a;
SELECT * FROM u ORDER BY a;
REPLACE INTO u VALUES (9, 2, 4);
SELECT * FROM u FORCE INDEX (b) ORDER BY b;
DROP TABLE u;

-- Long values, and columns of every length.
CREATE TABLE l (id INT PRIMARY KEY, t TEXT, b LONGBLOB, v VARCHAR(3000), KEY t (t(20)));
INSERT INTO l VALUES (1, REPEAT('x', 60000), REPEAT('yz', 200000), REPEAT('v', 3000)), (2, '', NULL, NULL);
SELECT id, LENGTH(t), MD5(t), LENGTH(b), MD5(b), LENGTH(v) FROM l ORDER BY id;
UPDATE l SET t = CONCAT('a', t), b = NULL WHERE id = 1;
SELECT id, LENGTH(t), LENGTH(b) FROM l WHERE t LIKE 'axx%';
UPDATE l SET b = REPEAT('q', 100000);
SELECT id, LENGTH(t), MD5(b) FROM l ORDER BY id;
DELETE FROM l WHERE id = 1;
SELECT id, LENGTH(b) FROM l;
DROP TABLE l;

-- An update moves rows forward in the order of the scan, and finds each of them once.
CREATE TABLE f (id INT PRIMARY KEY, v INT);
INSERT INTO f VALUES (1, 1), (2, 2), (3, 3), (100, 4);
UPDATE f SET id = id + 200;
SELECT * FROM f ORDER BY id;
DROP TABLE f;
