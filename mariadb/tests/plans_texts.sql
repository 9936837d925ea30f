-- engines: InnoDB Millpond
-- apart innodb InnoDB: DO 0
-- apart millpond Millpond: DO 0
-- Entries of an index do not have their texts as they are. So the index and the rows are those of InnoDB, but the
-- row is read.
SET GLOBAL innodb_stats_persistent_sample_pages = 1000;  -- All: a sample is another one each time.
CREATE TABLE country (id SMALLINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50) NOT NULL, KEY name (name));
CREATE TABLE city (id SMALLINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(50) NOT NULL, country_id SMALLINT UNSIGNED NOT NULL, KEY country (country_id));
CREATE TABLE person (
  id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, city_id SMALLINT UNSIGNED NOT NULL, first VARCHAR(45) NOT NULL, last VARCHAR(45) NOT NULL,
  email VARCHAR(50), active TINYINT NOT NULL, joined DATE NOT NULL, KEY city (city_id), KEY last (last), KEY joined (joined), UNIQUE KEY email (email)
);
CREATE TABLE book (
  id SMALLINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, title VARCHAR(128) NOT NULL, lang_id TINYINT UNSIGNED NOT NULL, year SMALLINT,
  price DECIMAL(5, 2) NOT NULL, pages SMALLINT UNSIGNED, about TEXT, KEY title (title), KEY lang (lang_id), KEY year_price (year, price)
);
CREATE TABLE author (id SMALLINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, first VARCHAR(45) NOT NULL, last VARCHAR(45) NOT NULL, KEY last (last));
CREATE TABLE book_author (author_id SMALLINT UNSIGNED NOT NULL, book_id SMALLINT UNSIGNED NOT NULL, PRIMARY KEY (author_id, book_id), KEY book (book_id));
INSERT INTO country (name) SELECT CONCAT('country ', CHAR(65 + seq * 7 % 26), seq) FROM seq_1_to_100;
INSERT INTO city (name, country_id) SELECT CONCAT('city ', CHAR(65 + seq * 11 % 26), seq), 1 + seq * seq % 97 FROM seq_1_to_600;
INSERT INTO person (city_id, first, last, email, active, joined)
  SELECT 1 + seq * 13 % 600, CONCAT('first', seq % 90), CONCAT('last', seq * 7 % 480), IF(seq % 10, CONCAT(seq, '@mail'), NULL), seq % 40 <> 0, '2024-01-01' + INTERVAL seq % 500 DAY
  FROM seq_1_to_1200;
INSERT INTO book (title, lang_id, year, price, pages, about)
  SELECT CONCAT(CHAR(65 + seq * 17 % 26), ' title ', seq), IF(seq % 20, 1, 1 + seq DIV 20 % 6), IF(seq % 15, 1990 + seq % 35, NULL), 1 + seq % 40 / 2, 100 + seq % 400, REPEAT('about ', seq % 30)
  FROM seq_1_to_1000;
INSERT INTO author (first, last) SELECT CONCAT('first', seq), CONCAT('last', seq * 3 % 150) FROM seq_1_to_200;
INSERT INTO book_author SELECT DISTINCT 1 + seq * 31 % 200, 1 + seq * seq % 1000 FROM seq_1_to_3000;
ANALYZE TABLE country, city, person, book, author, book_author;
EXPLAIN SELECT c.name, COUNT(*) FROM country c JOIN city t ON t.country_id = c.id JOIN person p ON p.city_id = t.id WHERE c.name LIKE 'country B%' GROUP BY c.name;
EXPLAIN SELECT * FROM person WHERE last = 'last77';
EXPLAIN SELECT b.title FROM book b JOIN book_author ba ON ba.book_id = b.id JOIN author a ON a.id = ba.author_id WHERE a.last = 'last30';
EXPLAIN SELECT * FROM book WHERE title LIKE 'Q title%' ORDER BY title LIMIT 10;
SET GLOBAL innodb_stats_persistent_sample_pages = DEFAULT;
