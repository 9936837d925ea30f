-- What the optimizer is told of a table is near what InnoDB tells it of the same data.
CREATE TABLE m (
  id INT PRIMARY KEY, two INT, group_of_10 INT NOT NULL, name VARCHAR(40), day DATE, note TEXT,
  KEY two (two), KEY g (group_of_10, name), KEY name (name DESC, two), UNIQUE KEY u (two, id), KEY day (day)
) ENGINE=Millpond;
INSERT INTO m SELECT seq, seq % 2, seq DIV 10, CONCAT('a name ', seq % 500), '2026-01-01' + INTERVAL seq % 365 DAY,
  IF(seq % 100, 'short', REPEAT('long', 5000)) FROM seq_1_to_20000;
CREATE TABLE i LIKE m;
ALTER TABLE i ENGINE=InnoDB;
INSERT INTO i SELECT * FROM m;
ANALYZE TABLE m, i;
-- The number of different values, within a factor of two.
SELECT s.index_name, s.seq_in_index, s.column_name,
  IF(s.cardinality BETWEEN t.cardinality / 2 AND t.cardinality * 2, 'near', CONCAT(s.cardinality, ' and ', t.cardinality)) AS near
FROM information_schema.statistics s JOIN information_schema.statistics t
  ON t.table_schema = 'test' AND t.table_name = 'i' AND t.index_name = s.index_name AND t.seq_in_index = s.seq_in_index
WHERE s.table_schema = 'test' AND s.table_name = 'm' ORDER BY 1, 2;
SELECT table_name, table_rows BETWEEN 18000 AND 22000 AS table_rows, avg_row_length BETWEEN 200 AND 450 AS avg_row_length,
  data_length BETWEEN 4000000 AND 9000000 AS data_length, index_length BETWEEN 1000000 AND 6000000 AS index_length,
  create_time > NOW() - INTERVAL 1 HOUR AS create_time
FROM information_schema.tables WHERE table_schema = 'test' AND table_name IN ('m', 'i') ORDER BY 1 DESC;
-- So the plans are the same.
EXPLAIN SELECT * FROM m WHERE two = 1 AND group_of_10 = 77;
EXPLAIN SELECT * FROM m WHERE name = 'a name 7' AND two = 1 AND day = '2026-02-02';
EXPLAIN SELECT * FROM m a JOIN m b ON b.group_of_10 = a.id WHERE a.day = '2026-03-03' ORDER BY a.id;
-- They follow the table without ANALYZE.
CREATE TABLE s (id INT AUTO_INCREMENT PRIMARY KEY, k INT, KEY k (k)) ENGINE=Millpond;
EXPLAIN SELECT * FROM s WHERE k = 5;
INSERT INTO s (k) SELECT seq % 10 FROM seq_1_to_5000;
SELECT cardinality BETWEEN 10 AND 20 AS ten FROM information_schema.statistics
  WHERE table_schema = 'test' AND table_name = 's' AND index_name = 'k';
UPDATE s SET k = id;
SELECT cardinality BETWEEN 4500 AND 5500 AS all_differ FROM information_schema.statistics
  WHERE table_schema = 'test' AND table_name = 's' AND index_name = 'k';
TRUNCATE s;
SELECT table_rows, cardinality FROM information_schema.tables JOIN information_schema.statistics USING (table_schema, table_name)
  WHERE table_schema = 'test' AND table_name = 's';
DROP TABLE m, i, s;

-- How many rows a small table has does not depend on when the optimizer asked last.
CREATE TABLE grown (a INT, b INT) ENGINE=Millpond;
INSERT INTO grown VALUES (1, 1);
EXPLAIN SELECT * FROM grown WHERE a > 0;
INSERT INTO grown SELECT seq, seq FROM seq_2_to_12;
EXPLAIN SELECT * FROM grown WHERE a > 0;
DROP TABLE grown;
