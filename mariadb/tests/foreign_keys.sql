-- The steps by which docs/mariadb.md converts tables with foreign keys.
SET default_storage_engine = InnoDB;
CREATE TABLE customers (id INT PRIMARY KEY);
CREATE TABLE orders (id INT PRIMARY KEY, c INT, KEY (c), CONSTRAINT of_customer FOREIGN KEY (c) REFERENCES customers (id));
INSERT INTO customers VALUES (1);
INSERT INTO orders VALUES (1, 1);
ALTER TABLE customers ENGINE=Millpond;
ALTER TABLE orders ENGINE=Millpond;
SET foreign_key_checks = OFF;
ALTER TABLE customers ENGINE=Millpond;
ALTER TABLE orders DROP FOREIGN KEY of_customer, ENGINE=Millpond;
SET foreign_key_checks = ON;
SELECT CONCAT('ALTER TABLE `', constraint_schema, '`.`', table_name, '` DROP FOREIGN KEY `', constraint_name, '`;')
  FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE constraint_schema = 'test';
ALTER TABLE `test`.`orders` DROP FOREIGN KEY `of_customer`;
ALTER TABLE test.orders ENGINE=Millpond;
ALTER TABLE test.customers ENGINE=Millpond;
SELECT table_name, engine FROM information_schema.TABLES WHERE table_schema = 'test' ORDER BY table_name;
SELECT * FROM orders, customers;
DROP TABLE orders, customers;
