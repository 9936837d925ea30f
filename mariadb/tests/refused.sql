SET default_storage_engine = Millpond;
-- What is not supported is refused when the table is created.
CREATE TABLE t (a TEXT, FULLTEXT (a));
CREATE TABLE t (a POINT NOT NULL, SPATIAL KEY a (a));
CREATE TABLE t (a INT) DATA DIRECTORY = '/tmp';
SHOW TABLES;
-- A foreign key is accepted with a warning.
CREATE TABLE parent (id INT PRIMARY KEY);
CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent (id));
-- The warning of one without a name says which table it is of.
CREATE TABLE unnamed (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id));
ALTER TABLE unnamed ADD FOREIGN KEY (id) REFERENCES parent (id);
CREATE TABLE inlined (id INT PRIMARY KEY, p INT REFERENCES parent (id));
DROP TABLE unnamed, inlined;
INSERT INTO child VALUES (1, 99);
SELECT * FROM child;
DROP TABLE parent, child;
