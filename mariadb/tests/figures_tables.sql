-- The tables of figures: every figure of the engine, the syncs by file and reason, and what is done to
-- each table.
CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY k (v));
INSERT INTO t SELECT seq, seq FROM seq_1_to_1000;
SELECT NAME, KIND, HELP FROM information_schema.MILLPOND_METRICS
  WHERE NAME IN ('commits', 'dirty_pages', 'fsyncs_by_reason.commit', 'commit_us.p99') ORDER BY NAME;
SELECT COUNT(*) > 150, COUNT(DISTINCT NAME) = COUNT(*), SUM(KIND NOT IN ('counter', 'gauge'))
  FROM information_schema.MILLPOND_METRICS;
SELECT m.VALUE >= 1 AND m.VALUE <= s.VARIABLE_VALUE FROM information_schema.MILLPOND_METRICS m
  JOIN information_schema.GLOBAL_STATUS s ON s.VARIABLE_NAME = 'MILLPOND_COMMITS' WHERE m.NAME = 'commits';
SELECT FILE, REASON, COUNT >= 1, WAITERS >= 1, US_P50 <= US_P95 AND US_P95 <= US_P99 AND US_P99 <= US_MAX AS ordered,
  US_TOTAL >= US_MAX AS whole, HELP FROM information_schema.MILLPOND_FSYNCS WHERE FILE = 'log' AND REASON = 'commit';
SELECT SUM(COUNT) <= (SELECT VALUE FROM information_schema.MILLPOND_METRICS WHERE NAME = 'fsyncs')
  FROM information_schema.MILLPOND_FSYNCS;

-- Rows, not index entries.
UPDATE t SET v = v + 10000 WHERE id <= 10;
UPDATE t SET id = id + 5000 WHERE id = 20;
DELETE FROM t WHERE id = 30;
SELECT COUNT(*) FROM t WHERE id BETWEEN 101 AND 200;
SELECT TABLE_SCHEMA, TABLE_NAME, PARTITION_NAME, TABLE_ROWS > 500 AND TABLE_ROWS < 2000 AS estimate, ROW_PAGES > 0,
  INDEX_PAGES > 0, LONG_VALUE_PAGES, BYTES = (ROW_PAGES + INDEX_PAGES + LONG_VALUE_PAGES) * 16384 AS bytes,
  ROWS_INSERTED, ROWS_UPDATED, ROWS_DELETED, ROWS_READ, WRITE_CONFLICTS, LOCK_TIMEOUTS, DEADLOCKS
  FROM information_schema.MILLPOND_TABLES WHERE TABLE_SCHEMA = 'test';
-- Free pages of the table's own, after many rows are gone; a change of more bytes takes more redo.
CREATE TABLE wide (id INT PRIMARY KEY, v VARCHAR(2000), t LONGTEXT);
INSERT INTO wide SELECT seq, REPEAT('v', 2000), NULL FROM seq_1_to_2000;
SELECT REDO_BYTES BETWEEN 4000000 AND 6000000 AS redo, FREE_BYTES DIV BYTES AS free
  FROM information_schema.MILLPOND_TABLES WHERE TABLE_NAME = 'wide';
SELECT REDO_BYTES INTO @before FROM information_schema.MILLPOND_TABLES WHERE TABLE_NAME = 'wide';
UPDATE wide SET t = REPEAT('t', 1000000) WHERE id = 1;
SELECT REDO_BYTES - @before BETWEEN 1000000 AND 1200000 AS redo
  FROM information_schema.MILLPOND_TABLES WHERE TABLE_NAME = 'wide';
SELECT REDO_BYTES INTO @before FROM information_schema.MILLPOND_TABLES WHERE TABLE_NAME = 't';
UPDATE wide SET v = '' WHERE id = 2;
SELECT REDO_BYTES - @before AS of_another FROM information_schema.MILLPOND_TABLES WHERE TABLE_NAME = 't';
DROP TABLE wide;
RENAME TABLE t TO `a-b`;
CREATE TABLE parts (id INT PRIMARY KEY, long_value LONGTEXT) PARTITION BY HASH (id) PARTITIONS 2;
INSERT INTO parts VALUES (1, REPEAT('x', 100000)), (2, ''), (3, '');
SELECT TABLE_NAME, PARTITION_NAME, TABLE_ROWS BETWEEN 1 AND 2000, INDEX_PAGES > 0, LONG_VALUE_PAGES > 0, ROWS_INSERTED, ROWS_READ
  FROM information_schema.MILLPOND_TABLES WHERE TABLE_SCHEMA = 'test' ORDER BY 1, 2;

-- They need the privilege PROCESS.
CREATE USER limited@localhost;
CREATE DEFINER = limited@localhost SQL SECURITY DEFINER VIEW shown AS SELECT * FROM information_schema.MILLPOND_METRICS;
SELECT * FROM shown;
CREATE OR REPLACE DEFINER = limited@localhost SQL SECURITY DEFINER VIEW shown AS
  SELECT * FROM information_schema.MILLPOND_FSYNCS;
SELECT * FROM shown;
CREATE OR REPLACE DEFINER = limited@localhost SQL SECURITY DEFINER VIEW shown AS
  SELECT * FROM information_schema.MILLPOND_TABLES;
SELECT * FROM shown;
DROP VIEW shown;
DROP USER limited@localhost;
