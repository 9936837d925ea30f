SET default_storage_engine = Millpond;
SET NAMES utf8mb4;
SET sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES');
SET sql_mode = REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '');
CREATE TABLE words (n INT PRIMARY KEY, w VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin);
INSERT INTO words VALUES (1, ''), (2, ' '), (3, 'a'), (4, 'a '), (5, 'a\t'), (6, 'a!'), (7, 'a b'), (8, 'a  b'), (9, 'a\tb'),
  (10, 'A'), (11, 'B'), (12, 'b'), (13, 'ä'), (14, 'ab'), (15, 'a  \t'), (16, 'a \t'), (17, 'aa'), (18, 'ß'), (19, 'ss'),
  (20, 'z'), (21, 'ž'), (22, '\t'), (23, 'a\0'), (24, 'a\0b'), (25, 'ö'), (26, 'oe'), (27, 'o'), (28, ' a'), (29, '  '), (30, 'a b ');
DELIMITER //
-- Compares the order and the groups of an index with those of a sort.
CREATE PROCEDURE compare(collation_name VARCHAR(64), kind VARCHAR(40))
BEGIN
  DECLARE charset_name VARCHAR(64) DEFAULT SUBSTRING_INDEX(collation_name, '_', 1);
  EXECUTE IMMEDIATE CONCAT('CREATE OR REPLACE TABLE t (n INT PRIMARY KEY, w ', kind, ' CHARACTER SET ', charset_name,
                           ' COLLATE ', collation_name, ', KEY w (w)) ENGINE = Millpond');
  EXECUTE IMMEDIATE 'INSERT IGNORE INTO t SELECT n, w FROM words';
  SET @sorted = NULL, @indexed = NULL;
  EXECUTE IMMEDIATE 'SELECT GROUP_CONCAT(n ORDER BY w, n) INTO @sorted FROM t IGNORE INDEX (w)';
  SET @indexed = '';
  FOR row IN (SELECT n FROM t FORCE INDEX (w) ORDER BY w, n) DO
    SET @indexed = CONCAT(@indexed, IF(@indexed = '', '', ','), row.n);
  END FOR;
  SET @missed = (SELECT COUNT(*) FROM t a WHERE (SELECT COUNT(*) FROM t b FORCE INDEX (w) WHERE b.w = a.w)
                 <> (SELECT COUNT(*) FROM t c IGNORE INDEX (w) WHERE c.w = a.w));
  SELECT collation_name, kind, @sorted = @indexed AS same_order, @missed AS missed;
END//
DELIMITER ;
CALL compare('latin1_swedish_ci', 'VARCHAR(40)');
CALL compare('latin1_general_ci', 'VARCHAR(40)');
CALL compare('latin1_bin', 'VARCHAR(40)');
CALL compare('latin1_german1_ci', 'CHAR(40)');
CALL compare('latin1_german2_ci', 'VARCHAR(40)');
CALL compare('latin1_nopad_bin', 'VARCHAR(40)');
CALL compare('utf8mb3_general_ci', 'VARCHAR(40)');
CALL compare('utf8mb4_general_ci', 'VARCHAR(40)');
CALL compare('utf8mb4_general_ci', 'CHAR(40)');
CALL compare('utf8mb4_bin', 'VARCHAR(40)');
CALL compare('utf8mb4_nopad_bin', 'VARCHAR(40)');
CALL compare('utf8mb4_unicode_ci', 'VARCHAR(40)');
CALL compare('utf8mb4_unicode_nopad_ci', 'VARCHAR(40)');
CALL compare('utf8mb4_unicode_520_ci', 'CHAR(40)');
CALL compare('utf8mb4_german2_ci', 'VARCHAR(40)');
CALL compare('utf8mb4_uca1400_ai_ci', 'VARCHAR(40)');
CALL compare('utf8mb4_uca1400_as_cs', 'VARCHAR(40)');
CALL compare('utf8mb4_uca1400_nopad_as_cs', 'VARCHAR(40)');
CALL compare('ucs2_general_ci', 'VARCHAR(40)');
CALL compare('utf16_unicode_ci', 'CHAR(40)');
CALL compare('utf32_bin', 'VARCHAR(40)');
CALL compare('gbk_chinese_ci', 'VARCHAR(40)');
CALL compare('cp1250_general_ci', 'VARCHAR(40)');
-- NO PAD with several levels: the levels behind the first one pad, but not those of CHAR. A CHAR is
-- missed where the server looks it up without its spaces, with InnoDB too.
CALL compare('utf8mb4_uca1400_nopad_ai_cs', 'VARCHAR(40)');
CALL compare('utf8mb4_uca1400_nopad_ai_cs', 'CHAR(40)');
CALL compare('utf8mb4_uca1400_nopad_as_ci', 'VARCHAR(40)');
CALL compare('utf8mb4_uca1400_nopad_as_cs', 'CHAR(40)');
-- Weights that end at a zero, but not those of CHAR.
CALL compare('tis620_thai_nopad_ci', 'VARCHAR(40)');
CALL compare('tis620_thai_nopad_ci', 'CHAR(40)');
CALL compare('tis620_thai_ci', 'VARCHAR(40)');
DROP PROCEDURE compare;
DROP TABLE t;

-- Prefixes, LIKE, descending and compound indexes.
CREATE TABLE p (n INT PRIMARY KEY, w VARCHAR(40), x CHAR(10), KEY w (w(2)), KEY d (w DESC, n), KEY wx (x, w)) DEFAULT CHARSET utf8mb4;
INSERT INTO p SELECT n, w, REVERSE(w) FROM words WHERE n NOT IN (23, 24);
SELECT n FROM p FORCE INDEX (w) WHERE w = 'a b' ORDER BY n;
SELECT n FROM p FORCE INDEX (w) WHERE w LIKE 'a%' ORDER BY n;
SELECT n FROM p FORCE INDEX (d) WHERE w LIKE 'a%' ORDER BY w DESC, n;
SELECT n FROM p FORCE INDEX (d) ORDER BY w DESC, n;
SELECT n FROM p FORCE INDEX (d) ORDER BY w, n DESC;
SELECT n FROM p FORCE INDEX (wx) WHERE x = 'a' AND w >= 'a' ORDER BY n;
SELECT w FROM p FORCE INDEX (d) GROUP BY w ORDER BY w LIMIT 5;
UPDATE p SET w = UPPER(w) WHERE n IN (3, 14);
SELECT n, w FROM p FORCE INDEX (d) WHERE w = 'a' ORDER BY n;
DROP TABLE p;

-- Unique text: what is equal in the collation is a duplicate.
CREATE TABLE q (w VARCHAR(20) PRIMARY KEY, k INT, KEY k (k)) DEFAULT CHARSET utf8mb4;
INSERT INTO q VALUES ('Abc', 1);
INSERT INTO q VALUES ('aBC ', 2);
UPDATE q SET w = 'ABC' WHERE w = 'abc';
SELECT w, k FROM q FORCE INDEX (k) WHERE k = 1;
REPLACE INTO q VALUES ('abc', 5);
SELECT w, k FROM q;
DROP TABLE q, words;

-- Where a table has no primary key, its first index is one like the others: conditions on its text
-- need the row.
CREATE TABLE first_text (n INT, t VARCHAR(20), KEY t (t)) ENGINE=Millpond;
CREATE TABLE first_unique (n INT, t VARCHAR(20), UNIQUE KEY t (t)) ENGINE=Millpond;
CREATE TABLE first_prefix (n INT, t VARCHAR(20) NOT NULL, UNIQUE KEY t (t(3))) ENGINE=Millpond;
INSERT INTO first_text VALUES (1, 'Zz'), (2, 'a'), (3, NULL);
INSERT INTO first_unique SELECT * FROM first_text;
INSERT INTO first_prefix SELECT * FROM first_text WHERE n < 3;
EXPLAIN SELECT n FROM first_text FORCE INDEX (t) WHERE t > '00' AND t <= 'zzz';
SELECT n FROM first_text FORCE INDEX (t) WHERE t > '00' AND t <= 'zzz';
SELECT n FROM first_unique FORCE INDEX (t) WHERE t > '00' AND t <= 'zzz';
SELECT n FROM first_prefix FORCE INDEX (t) WHERE t > '00' AND t <= 'zzz';
SELECT t FROM first_text FORCE INDEX (t) WHERE t > '00' AND t <= 'zzz';
DROP TABLE first_text, first_unique, first_prefix;
