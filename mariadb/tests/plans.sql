-- engines: InnoDB Millpond
-- round: rows
-- The optimizer chooses for this engine what it chooses for InnoDB on the same data. Only the numbers of rows
-- may differ, where not all leaf pages are counted.
SET GLOBAL innodb_stats_persistent_sample_pages = 1000;  -- All: a sample is another one each time.
CREATE TABLE country (id SMALLINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50) NOT NULL, KEY name (name));
CREATE TABLE city (id SMALLINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50) NOT NULL, country_id SMALLINT UNSIGNED NOT NULL, KEY country (country_id));
CREATE TABLE person (
  id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, city_id SMALLINT UNSIGNED NOT NULL, first VARCHAR(45) NOT NULL, last VARCHAR(45) NOT NULL,
  email VARCHAR(50), active TINYINT NOT NULL, joined DATE NOT NULL, KEY city (city_id), KEY last (last), KEY joined (joined), UNIQUE KEY email (email)
);
CREATE TABLE shop (id TINYINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, city_id SMALLINT UNSIGNED NOT NULL, manager_id TINYINT UNSIGNED NOT NULL, UNIQUE KEY manager (manager_id));
CREATE TABLE clerk (id TINYINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, shop_id TINYINT UNSIGNED NOT NULL, name VARCHAR(45), KEY shop (shop_id));
CREATE TABLE lang (id TINYINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name CHAR(20) NOT NULL);
CREATE TABLE genre (id TINYINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(25) NOT NULL);
CREATE TABLE book (
  id SMALLINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, title VARCHAR(128) NOT NULL, lang_id TINYINT UNSIGNED NOT NULL, year SMALLINT,
  price DECIMAL(5, 2) NOT NULL, pages SMALLINT UNSIGNED, about TEXT, KEY title (title), KEY lang (lang_id), KEY year_price (year, price)
);
CREATE TABLE author (id SMALLINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, first VARCHAR(45) NOT NULL, last VARCHAR(45) NOT NULL, KEY last (last));
CREATE TABLE book_author (author_id SMALLINT UNSIGNED NOT NULL, book_id SMALLINT UNSIGNED NOT NULL, PRIMARY KEY (author_id, book_id), KEY book (book_id));
CREATE TABLE book_genre (book_id SMALLINT UNSIGNED NOT NULL, genre_id TINYINT UNSIGNED NOT NULL, PRIMARY KEY (book_id, genre_id));
CREATE TABLE copy (id MEDIUMINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, book_id SMALLINT UNSIGNED NOT NULL, shop_id TINYINT UNSIGNED NOT NULL, KEY book (book_id), KEY shop_book (shop_id, book_id));
CREATE TABLE loan (
  id INT AUTO_INCREMENT PRIMARY KEY, lent DATETIME NOT NULL, copy_id MEDIUMINT UNSIGNED NOT NULL, person_id INT UNSIGNED NOT NULL,
  returned DATETIME, clerk_id TINYINT UNSIGNED NOT NULL, UNIQUE KEY lent (lent, copy_id, person_id), KEY copy (copy_id), KEY person (person_id), KEY clerk (clerk_id)
);
CREATE TABLE fee (
  id INT AUTO_INCREMENT PRIMARY KEY, person_id INT UNSIGNED NOT NULL, clerk_id TINYINT UNSIGNED NOT NULL, loan_id INT, amount DECIMAL(5, 2) NOT NULL,
  paid DATETIME NOT NULL, KEY person (person_id), KEY clerk (clerk_id), KEY loan (loan_id), KEY paid (paid, amount)
);
INSERT INTO country (name) SELECT CONCAT('country ', CHAR(65 + seq * 7 % 26), seq) FROM seq_1_to_100;
INSERT INTO city (name, country_id) SELECT CONCAT('city ', CHAR(65 + seq * 11 % 26), seq), 1 + seq * seq % 97 FROM seq_1_to_600;
INSERT INTO person (city_id, first, last, email, active, joined)
  SELECT 1 + seq * 13 % 600, CONCAT('first', seq % 90), CONCAT('last', seq * 7 % 480), IF(seq % 10, CONCAT(seq, '@mail'), NULL), seq % 40 <> 0, '2024-01-01' + INTERVAL seq % 500 DAY
  FROM seq_1_to_1200;
INSERT INTO shop (city_id, manager_id) SELECT seq * 50, seq FROM seq_1_to_5;
INSERT INTO clerk (shop_id, name) SELECT 1 + seq % 5, CONCAT('clerk', seq) FROM seq_1_to_12;
INSERT INTO lang (name) SELECT CONCAT('lang', seq) FROM seq_1_to_6;
INSERT INTO genre (name) SELECT CONCAT('genre', seq) FROM seq_1_to_16;
INSERT INTO book (title, lang_id, year, price, pages, about)
  SELECT CONCAT(CHAR(65 + seq * 17 % 26), ' title ', seq), IF(seq % 20, 1, 1 + seq DIV 20 % 6), IF(seq % 15, 1990 + seq % 35, NULL), 1 + seq % 40 / 2, 100 + seq % 400, REPEAT('about ', seq % 30)
  FROM seq_1_to_1000;
INSERT INTO author (first, last) SELECT CONCAT('first', seq), CONCAT('last', seq * 3 % 150) FROM seq_1_to_200;
INSERT INTO book_author SELECT DISTINCT 1 + seq * 31 % 200, 1 + seq * seq % 1000 FROM seq_1_to_3000;
INSERT INTO book_genre SELECT seq, 1 + seq % 16 FROM seq_1_to_1000;
INSERT INTO copy (book_id, shop_id) SELECT 1 + seq * 3 % 1000, 1 + seq % 5 FROM seq_1_to_4500;
INSERT INTO loan (lent, copy_id, person_id, returned, clerk_id)
  SELECT '2025-01-01' + INTERVAL seq * 30 MINUTE, 1 + seq * 17 % 4500, 1 + seq * 29 % 1200, IF(seq % 50, '2025-01-08' + INTERVAL seq * 31 MINUTE, NULL), 1 + seq % 12 FROM seq_1_to_9000;
INSERT INTO fee (person_id, clerk_id, loan_id, amount, paid)
  SELECT 1 + seq * 29 % 1200, 1 + seq % 12, IF(seq % 100, seq, NULL), 1 + seq % 13 / 2, '2025-01-01' + INTERVAL seq * 30 MINUTE FROM seq_1_to_9000;
ANALYZE TABLE country, city, person, shop, clerk, lang, genre, book, author, book_author, book_genre, copy, loan, fee;
-- Different values of each prefix of each key, where they are not nearly the same.
CREATE DATABASE of_innodb;
CREATE TABLE of_innodb.country LIKE country; ALTER TABLE of_innodb.country ENGINE = InnoDB; INSERT INTO of_innodb.country SELECT * FROM country;
CREATE TABLE of_innodb.city LIKE city; ALTER TABLE of_innodb.city ENGINE = InnoDB; INSERT INTO of_innodb.city SELECT * FROM city;
CREATE TABLE of_innodb.person LIKE person; ALTER TABLE of_innodb.person ENGINE = InnoDB; INSERT INTO of_innodb.person SELECT * FROM person;
CREATE TABLE of_innodb.shop LIKE shop; ALTER TABLE of_innodb.shop ENGINE = InnoDB; INSERT INTO of_innodb.shop SELECT * FROM shop;
CREATE TABLE of_innodb.clerk LIKE clerk; ALTER TABLE of_innodb.clerk ENGINE = InnoDB; INSERT INTO of_innodb.clerk SELECT * FROM clerk;
CREATE TABLE of_innodb.lang LIKE lang; ALTER TABLE of_innodb.lang ENGINE = InnoDB; INSERT INTO of_innodb.lang SELECT * FROM lang;
CREATE TABLE of_innodb.genre LIKE genre; ALTER TABLE of_innodb.genre ENGINE = InnoDB; INSERT INTO of_innodb.genre SELECT * FROM genre;
CREATE TABLE of_innodb.book LIKE book; ALTER TABLE of_innodb.book ENGINE = InnoDB; INSERT INTO of_innodb.book SELECT * FROM book;
CREATE TABLE of_innodb.author LIKE author; ALTER TABLE of_innodb.author ENGINE = InnoDB; INSERT INTO of_innodb.author SELECT * FROM author;
CREATE TABLE of_innodb.book_author LIKE book_author; ALTER TABLE of_innodb.book_author ENGINE = InnoDB; INSERT INTO of_innodb.book_author SELECT * FROM book_author;
CREATE TABLE of_innodb.book_genre LIKE book_genre; ALTER TABLE of_innodb.book_genre ENGINE = InnoDB; INSERT INTO of_innodb.book_genre SELECT * FROM book_genre;
CREATE TABLE of_innodb.copy LIKE copy; ALTER TABLE of_innodb.copy ENGINE = InnoDB; INSERT INTO of_innodb.copy SELECT * FROM copy;
CREATE TABLE of_innodb.loan LIKE loan; ALTER TABLE of_innodb.loan ENGINE = InnoDB; INSERT INTO of_innodb.loan SELECT * FROM loan;
CREATE TABLE of_innodb.fee LIKE fee; ALTER TABLE of_innodb.fee ENGINE = InnoDB; INSERT INTO of_innodb.fee SELECT * FROM fee;
ANALYZE TABLE of_innodb.country, of_innodb.city, of_innodb.person, of_innodb.shop, of_innodb.clerk, of_innodb.lang, of_innodb.genre, of_innodb.book, of_innodb.author, of_innodb.book_author, of_innodb.book_genre, of_innodb.copy, of_innodb.loan, of_innodb.fee;
SELECT s.table_name, s.index_name, s.seq_in_index, s.cardinality, t.cardinality AS innodb FROM information_schema.statistics s
  JOIN information_schema.statistics t USING (table_name, index_name, seq_in_index)
  WHERE s.table_schema = 'test' AND t.table_schema = 'of_innodb' AND NOT s.cardinality BETWEEN t.cardinality * 0.9 AND t.cardinality * 1.1
  ORDER BY 1, 2, 3;
DROP DATABASE of_innodb;
EXPLAIN SELECT t.id, COUNT(*) FROM country c JOIN city t ON t.country_id = c.id JOIN person p ON p.city_id = t.id WHERE c.id < 5 GROUP BY t.id;
EXPLAIN SELECT * FROM person WHERE email IS NULL AND joined < '2024-02-01';
EXPLAIN SELECT p.joined, l.lent FROM person p JOIN loan l ON l.person_id = p.id WHERE p.joined = '2024-05-05' ORDER BY l.lent DESC LIMIT 5;
EXPLAIN SELECT b.title FROM book b JOIN book_author ba ON ba.book_id = b.id JOIN author a ON a.id = ba.author_id WHERE a.id BETWEEN 7 AND 9;
EXPLAIN SELECT g.name, COUNT(*) FROM genre g JOIN book_genre bg ON bg.genre_id = g.id JOIN book b ON b.id = bg.book_id WHERE b.year = 2001 GROUP BY g.id;
EXPLAIN SELECT * FROM book WHERE year BETWEEN 2000 AND 2002 AND price < 3;
EXPLAIN SELECT * FROM book WHERE year IS NULL AND price = 5;
EXPLAIN SELECT COUNT(*) FROM copy WHERE shop_id = 2 AND book_id BETWEEN 100 AND 200;
EXPLAIN SELECT s.id, COUNT(*) FROM shop s JOIN copy c ON c.shop_id = s.id JOIN loan l ON l.copy_id = c.id WHERE l.lent BETWEEN '2025-02-01' AND '2025-02-02' GROUP BY s.id;
EXPLAIN SELECT * FROM loan WHERE lent >= '2025-03-01' AND lent < '2025-03-03' AND person_id = 30;
EXPLAIN SELECT * FROM loan WHERE copy_id = 18 OR person_id = 59;
EXPLAIN SELECT * FROM loan WHERE copy_id BETWEEN 18 AND 100 AND clerk_id = 3;
EXPLAIN SELECT SUM(amount) FROM fee WHERE paid BETWEEN '2025-02-01' AND '2025-05-01';
EXPLAIN SELECT COUNT(loan_id) FROM fee WHERE paid BETWEEN '2025-02-01' AND '2025-02-10' AND amount > 6;
EXPLAIN SELECT person_id, SUM(amount) FROM fee GROUP BY person_id ORDER BY SUM(amount) DESC LIMIT 10;
EXPLAIN SELECT p.last, SUM(f.amount) FROM person p JOIN fee f ON f.person_id = p.id WHERE p.joined = '2024-03-03' GROUP BY p.id;
EXPLAIN SELECT * FROM book WHERE id IN (SELECT book_id FROM copy WHERE id < 20);
EXPLAIN SELECT * FROM person p WHERE NOT EXISTS (SELECT * FROM loan l WHERE l.person_id = p.id AND l.returned IS NULL) AND p.active = 0;
EXPLAIN SELECT l.id FROM loan l LEFT JOIN fee f ON f.loan_id = l.id WHERE f.id IS NULL AND l.clerk_id = 3;
EXPLAIN SELECT lang.name, COUNT(*) FROM lang JOIN book ON book.lang_id = lang.id GROUP BY lang.id;
EXPLAIN SELECT * FROM book ORDER BY year, price LIMIT 10;
EXPLAIN SELECT MAX(lent) FROM loan WHERE clerk_id = 5;
EXPLAIN SELECT person_id, MIN(id) FROM loan GROUP BY person_id;
EXPLAIN SELECT DISTINCT country_id FROM city WHERE country_id > 50;
EXPLAIN SELECT c.id FROM copy c JOIN loan l ON l.copy_id = c.id JOIN fee f ON f.loan_id = l.id JOIN person p ON p.id = f.person_id JOIN city t ON t.id = p.city_id WHERE t.country_id = 5 AND c.shop_id = 1;
EXPLAIN SELECT * FROM fee WHERE loan_id IS NULL;
EXPLAIN UPDATE loan SET returned = NOW() WHERE returned IS NULL AND person_id BETWEEN 10 AND 12;
EXPLAIN DELETE FROM fee WHERE paid < '2025-01-03' AND amount > 3;
-- A range of the primary key costs a share of the rows that the table can have at most: its bytes by the
-- fewest bytes of a row.
CREATE TABLE fixed (id INT PRIMARY KEY, a INT, b INT, at DATETIME(6), c CHAR(60) CHARACTER SET latin1, n DECIMAL(30, 2), d CHAR(60) CHARACTER SET latin1, KEY a (a), KEY ba (b, a));
INSERT INTO fixed (id, a, b) SELECT seq, seq % 20, seq % 7 FROM seq_1_to_300;
CREATE TABLE texts (id INT PRIMARY KEY, c CHAR(40) NOT NULL, s VARCHAR(30) NOT NULL, l VARCHAR(200) NOT NULL, t TEXT NOT NULL, b BLOB);
INSERT INTO texts SELECT seq, 'c', 's', 'l', 't', NULL FROM seq_1_to_30;
CREATE TABLE cut (id CHAR(250) CHARACTER SET latin1, PRIMARY KEY (id(8)));
INSERT INTO cut SELECT RPAD(LPAD(seq, 5, 0), 250, 'x') FROM seq_1_to_30;
ANALYZE TABLE fixed, texts, cut;
EXPLAIN SELECT id, a FROM fixed WHERE id < 20 AND a > 3 AND b = 2;
EXPLAIN SELECT id, a FROM fixed WHERE id < 20 AND a > 3 AND b = 2 ORDER BY a;
-- So one or two rows of it cost less than as many of another index.
EXPLAIN SELECT * FROM loan WHERE id BETWEEN 17 AND 18 AND copy_id = 18;
EXPLAIN SELECT * FROM loan WHERE id < 2 AND lent >= '2025-01-01' AND lent < '2025-01-01 00:45:00';
SET optimizer_trace = 'enabled=on';
SELECT COUNT(at) FROM fixed WHERE id < 2;
SELECT JSON_EXTRACT(trace, '$**.range_scan_alternatives[0].cost') AS cost FROM information_schema.optimizer_trace;
SELECT COUNT(at) FROM fixed WHERE id < 3;
SELECT JSON_EXTRACT(trace, '$**.range_scan_alternatives[0].cost') AS cost FROM information_schema.optimizer_trace;
SELECT COUNT(at) FROM fixed WHERE id < 20;
SELECT JSON_EXTRACT(trace, '$**.range_scan_alternatives[0].cost') AS cost FROM information_schema.optimizer_trace;
SELECT COUNT(s) FROM texts WHERE id < 20;
SELECT JSON_EXTRACT(trace, '$**.range_scan_alternatives[0].cost') AS cost FROM information_schema.optimizer_trace;
SELECT COUNT(*) FROM cut WHERE id < '00020';
SELECT JSON_EXTRACT(trace, '$**.range_scan_alternatives[0].cost') AS cost FROM information_schema.optimizer_trace;
SET optimizer_trace = DEFAULT;
SET GLOBAL innodb_stats_persistent_sample_pages = DEFAULT;
