SET default_storage_engine = Millpond;
-- What a comparison of random statements with InnoDB has found.

-- An update that changes no column counts no row, also where the server has not read all columns.
CREATE TABLE same (id INT PRIMARY KEY, a INT, b VARCHAR(10), c TEXT, d BIT(9), KEY a (a));
INSERT INTO same VALUES (1, 1, 'one', 'text', b'101'), (2, NULL, NULL, NULL, NULL);
UPDATE same SET a = 1 WHERE id = 1;
SELECT ROW_COUNT();
UPDATE same SET a = 1, b = 'one', c = 'text', d = b'101' WHERE id = 1;
SELECT ROW_COUNT();
UPDATE same SET a = NULL, c = NULL WHERE id = 2;
SELECT ROW_COUNT();
UPDATE same SET b = 'ONE' WHERE id = 1;
SELECT ROW_COUNT();
UPDATE same SET c = 'texT' WHERE id = 1;
SELECT ROW_COUNT();
UPDATE same SET a = 0 WHERE id = 2;
SELECT ROW_COUNT();
-- So does ON DUPLICATE KEY UPDATE: the bytes of a NULL column are those of the default row.
INSERT INTO same (id, a, b) VALUES (3, NULL, 'x');
INSERT INTO same (id, a, b) VALUES (3, 5, 'y') ON DUPLICATE KEY UPDATE a = NULL;
SELECT ROW_COUNT();
DROP TABLE same;

-- An index with a column that cannot be put back from its bytes answers no query alone.
CREATE TABLE cover (id INT PRIMARY KEY, a INT, s VARCHAR(8), b INT, d BIT(9), KEY k (a, s, b), UNIQUE KEY u (s, b), KEY d (d));
INSERT INTO cover VALUES (1, 10, 'x', 100, b'1'), (2, 20, 'y', 200, b'100000000');
SELECT a, id FROM cover FORCE INDEX (k) WHERE a > 0;
SELECT b FROM cover FORCE INDEX (k) WHERE a > 0;
SELECT COUNT(*) FROM cover x FORCE INDEX (u) WHERE x.id BETWEEN 1 AND 2;
SELECT BIN(d), id FROM cover FORCE INDEX (d) WHERE d > 0;
DROP TABLE cover;

-- HANDLER: behind the last row, a step back finds that row.
CREATE TABLE walk (id INT PRIMARY KEY, k INT, KEY k (k), UNIQUE KEY u (k, id));
INSERT INTO walk VALUES (1, 10), (2, 20), (3, 20), (4, 30);
HANDLER walk OPEN;
HANDLER walk READ `PRIMARY` = (2) LIMIT 4;
HANDLER walk READ `PRIMARY` PREV;
HANDLER walk READ `PRIMARY` = (2) LIMIT 4;
HANDLER walk READ `PRIMARY` NEXT;
HANDLER walk READ k = (20) LIMIT 4;
HANDLER walk READ k PREV;
HANDLER walk READ k = (20) LIMIT 4;
HANDLER walk READ k NEXT;
HANDLER walk READ k NEXT;
HANDLER walk READ k PREV;
HANDLER walk READ k FIRST;
HANDLER walk READ k PREV;
HANDLER walk READ k NEXT;
HANDLER walk READ k = (25);
HANDLER walk READ k PREV;
HANDLER walk READ k = (25);
HANDLER walk READ k NEXT;
HANDLER walk READ u > (30);
HANDLER walk READ u PREV;
HANDLER walk CLOSE;
DROP TABLE walk;

-- CHECKSUM TABLE is that of InnoDB: BIT columns are whole bytes, virtual columns are not NULL.
CREATE TABLE sums (id INT PRIMARY KEY, b BIT(9), v BIGINT AS (id % 7) VIRTUAL);
INSERT INTO sums (id, b) VALUES (1, b'101000001'), (2, NULL), (3, b'1');
CREATE TABLE sums_innodb LIKE sums;
ALTER TABLE sums_innodb ENGINE = InnoDB;
INSERT INTO sums_innodb (id, b) SELECT id, b FROM sums;
ALTER TABLE sums FORCE, ALGORITHM = COPY;
CHECKSUM TABLE sums, sums_innodb;
DROP TABLE sums, sums_innodb;

-- A row that is not inserted leaves the counter as it was; REPLACE counts it.
CREATE TABLE counted (id INT PRIMARY KEY AUTO_INCREMENT, a INT, UNIQUE KEY a (a));
INSERT INTO counted VALUES (3, 1);
INSERT INTO counted VALUES (10, 1);
INSERT INTO counted (a) VALUES (2);
SELECT LAST_INSERT_ID();
INSERT INTO counted VALUES (20, 2) ON DUPLICATE KEY UPDATE a = 3;
INSERT INTO counted (a) VALUES (4);
SELECT LAST_INSERT_ID();
-- As many numbers are taken as rows are left.
INSERT INTO counted VALUES (NULL, 11), (2, 12), (17, 13), (NULL, 14), (NULL, 15);
INSERT INTO counted (a) VALUES (16);
SELECT LAST_INSERT_ID();
SELECT * FROM counted ORDER BY id;
-- An UPDATE that raises a number raises the counter.
UPDATE counted SET id = 50 WHERE id = 20;
INSERT INTO counted (a) VALUES (17);
SELECT LAST_INSERT_ID();
DROP TABLE counted;

-- A row whose key is too long fails and names the index; searches with such a constant are answered.
CREATE TABLE longs (id INT PRIMARY KEY, v VARCHAR(768) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_as_cs, KEY kv (v));
INSERT INTO longs VALUES (1, LEFT(REPEAT('The quick brown fox jumps over the lazy dog ', 20), 500));
INSERT INTO longs VALUES (2, LEFT(REPEAT('The quick brown fox jumps over the lazy dog ', 20), 768));
SET NAMES utf8mb4 COLLATE utf8mb4_uca1400_as_cs;
SELECT id FROM longs FORCE INDEX (kv) WHERE v < LEFT(REPEAT('The quick brown fox jumps over the lazy dog ', 20), 768);
SELECT id FROM longs FORCE INDEX (kv) WHERE v >= LEFT(REPEAT('The quick brown fox jumps over the lazy dog ', 20), 768);
DROP TABLE longs;
SET NAMES utf8mb4;

-- Collations whose sort keys are not in the order of their comparison.
CREATE TABLE czech (id INT PRIMARY KEY, a VARCHAR(10) CHARACTER SET cp1250 COLLATE cp1250_czech_cs,
                    b VARCHAR(10) CHARACTER SET latin2 COLLATE latin2_czech_cs, KEY a (a), KEY b (b));
INSERT INTO czech VALUES (1, 'a', 'a'), (2, 'a\t', 'a\t'), (3, 'a  ', 'a  '), (4, 'a b', 'a b'), (5, 'ab', 'ab'),
                         (6, 'A', 'A'), (7, '', ''), (8, ' ', ' '), (9, 'ch', 'ch'), (10, 'h', 'h'), (11, 'c', 'c');
SELECT id, HEX(a) FROM czech FORCE INDEX (a) ORDER BY a, id;
SELECT id, HEX(b) FROM czech FORCE INDEX (b) ORDER BY b, id;
SELECT COUNT(*) FROM czech IGNORE INDEX (a) WHERE a = 'a';
SELECT COUNT(*) FROM czech FORCE INDEX (a) WHERE a = 'a';
SELECT COUNT(*) FROM czech IGNORE INDEX (b) WHERE b > 'a';
SELECT COUNT(*) FROM czech FORCE INDEX (b) WHERE b > 'a';
DROP TABLE czech;
CREATE TABLE strokes (v VARCHAR(10) CHARACTER SET big5 PRIMARY KEY);
INSERT INTO strokes VALUES (_big5 x'A140'), (_big5 x'A141'), (_big5 x'C8FE'), (_big5 x'A440'), (_big5 x'F9D5'), (_big5 x'C6A1'), (_big5 x'C6A2'), ('b'), ('a');
SELECT HEX(v) FROM strokes ORDER BY v;
SELECT HEX(v) FROM strokes ORDER BY CONCAT(v, '');
DROP TABLE strokes;
