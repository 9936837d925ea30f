-- The server knows that the primary key stands behind the columns of a secondary index.
CREATE TABLE t (
  a INT NOT NULL, b VARCHAR(10) NOT NULL, c INT, d INT, PRIMARY KEY (a, b DESC), KEY c (c), KEY ac (a, c), KEY bd (b, d)
) ENGINE=Millpond;
INSERT INTO t SELECT seq DIV 5, CONCAT('b', seq % 5), seq % 3, seq % 4 FROM seq_1_to_200;
CREATE TABLE i LIKE t;
ALTER TABLE i ENGINE=InnoDB;
INSERT INTO i SELECT * FROM t;
-- The order of the rows needs no sort, and the read goes to the one row.
EXPLAIN SELECT a, b, c FROM t FORCE INDEX (c) WHERE c = 1 ORDER BY a, b DESC;
SELECT a, b, c FROM t FORCE INDEX (c) WHERE c = 1 ORDER BY a, b DESC LIMIT 5;
SELECT a, b, c FROM t FORCE INDEX (c) WHERE c = 1 AND a = 7 AND b = 'b1';
SELECT a, b, c FROM t FORCE INDEX (c) WHERE c = 1 AND a = 7 AND b > 'b1' ORDER BY b;
SELECT a, b, c FROM t FORCE INDEX (c) WHERE c IS NOT NULL AND a BETWEEN 3 AND 4 AND b IN ('b0', 'b3') ORDER BY c, a;
SELECT COUNT(*), MIN(a), MAX(a) FROM t FORCE INDEX (c) WHERE c = 2 AND a BETWEEN 10 AND 20;
SELECT MIN(a) FROM t FORCE INDEX (c) WHERE c = 2 AND a > 10;
SELECT MAX(a) FROM t FORCE INDEX (c) WHERE c = 2 AND a < 10;
-- A column of the primary key that the index has too.
SELECT a, b, c FROM t FORCE INDEX (ac) WHERE a = 7 AND c = 1 AND b >= 'b1';
SELECT a, b, d FROM t FORCE INDEX (bd) WHERE b = 'b2' AND d = 1 AND a BETWEEN 5 AND 15 ORDER BY a DESC;
SELECT a, b, d FROM t FORCE INDEX (bd) WHERE b = 'b2' AND d = 1 AND a = 7;
SELECT t.a, t.b, t.c FROM i STRAIGHT_JOIN t FORCE INDEX (c) ON t.c = i.c AND t.a = i.a AND t.b = i.b WHERE i.d = 3 AND i.a < 4;
SELECT COUNT(*) FROM i STRAIGHT_JOIN t FORCE INDEX (bd) ON t.b = i.b AND t.d = i.d AND t.a = i.a;
-- Everything is as in InnoDB.
SELECT (SELECT GROUP_CONCAT(a, b, c ORDER BY a, b) FROM t FORCE INDEX (c) WHERE c = 1 AND a > 3 AND b < 'b3')
  = (SELECT GROUP_CONCAT(a, b, c ORDER BY a, b) FROM i FORCE INDEX (c) WHERE c = 1 AND a > 3 AND b < 'b3') AS the_same;
DROP TABLE t, i;
