SET default_storage_engine = Millpond;
-- What is not supported is refused when the table is created.
CREATE TABLE t (a TEXT, FULLTEXT (a));
CREATE TABLE t (a POINT NOT NULL, SPATIAL KEY a (a));
CREATE TABLE t (a INT) DATA DIRECTORY = '/tmp';
SHOW TABLES;
-- A foreign key is accepted with a warning.
CREATE TABLE parent (id INT PRIMARY KEY);
CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id));
INSERT INTO child VALUES (1, 99);
SELECT * FROM child;
DROP TABLE parent, child;
