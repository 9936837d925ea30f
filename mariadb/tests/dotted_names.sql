-- engines: InnoDB Millpond
-- A copy under another name leaves a table whose name has a dot. RENAME TABLE does not.
CREATE TABLE `a.b` (id INT PRIMARY KEY);
INSERT INTO `a.b` VALUES (1);
ALTER TABLE `a.b` RENAME `a.c`, ALGORITHM=COPY;
SHOW TABLES;
DROP TABLE `a.b`, `a.c`;
CREATE TABLE `a.b` (id INT PRIMARY KEY);
INSERT INTO `a.b` VALUES (1);
RENAME TABLE `a.b` TO `a.c`;
ALTER TABLE `a.c` ADD v INT, ALGORITHM=COPY;
SHOW TABLES;
SELECT * FROM `a.c`;
DROP TABLE `a.c`;
