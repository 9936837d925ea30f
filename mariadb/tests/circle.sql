-- engines: InnoDB Millpond
-- apart innodb InnoDB: DO 0
-- apart millpond Millpond: DO 0
-- A defect of InnoDB: its order of CHAR strings in NO PAD collations is a circle. It compares two strings as if
-- spaces followed them up to as many characters as the longer one has bytes, not as the column has. So where
-- `p`, which has six weights, ends before the tab of `t`, it goes on with spaces beside `w`, which takes ten bytes.
CREATE TABLE strings (name CHAR(1), h CHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_lithuanian_nopad_ai_cs);
INSERT INTO strings VALUES ('p', 'CHCHAeaa'), ('t', 'ccaeaa\t'), ('w', _utf8mb4 x'4343C3814541C38109');
-- Each pair has an index of its own: with all three in one, InnoDB says that it is corrupted.
CREATE TABLE pt (name CHAR(1), h CHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_lithuanian_nopad_ai_cs, KEY h (h));
INSERT INTO pt SELECT * FROM strings WHERE name <> 'w';
SELECT name FROM pt FORCE INDEX (h) ORDER BY h;
CREATE TABLE tw (name CHAR(1), h CHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_lithuanian_nopad_ai_cs, KEY h (h));
INSERT INTO tw SELECT * FROM strings WHERE name <> 'p';
SELECT name FROM tw FORCE INDEX (h) ORDER BY h;
CREATE TABLE pw (name CHAR(1), h CHAR(8) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_lithuanian_nopad_ai_cs, KEY h (h));
INSERT INTO pw SELECT * FROM strings WHERE name <> 't';
SELECT name FROM pw FORCE INDEX (h) ORDER BY h;
-- The server's own comparison has no circle.
SELECT l.name, r.name FROM strings l JOIN strings r ON l.h < r.h ORDER BY 1, 2;
DROP TABLE strings, pt, tw, pw;
