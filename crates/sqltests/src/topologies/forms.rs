//! The forms that a change has in the binary log: whole rows or parts of them, compressed or
//! encrypted; and temporary tables, which have none.

use super::super::packages::unpack;
use super::super::steps::expect;
use super::super::{make_dir, write};
use super::group::{Group, Setting};

/// Tables of many shapes.
const TABLES: &str = "CREATE DATABASE test; USE test; \
    CREATE TABLE keyed (id INT PRIMARY KEY, v INT UNSIGNED, t VARCHAR(300), b LONGBLOB, j JSON, KEY (v)); \
    CREATE TABLE by_unique (a INT NOT NULL, b VARCHAR(20) NOT NULL, c MEDIUMTEXT, UNIQUE (a, b)); \
    CREATE TABLE maybe_unique (a INT UNIQUE, t TEXT, b BLOB); \
    CREATE TABLE bare (a INT, b VARCHAR(30), c BLOB, d DOUBLE); \
    CREATE TABLE bare_indexed (a INT, b VARCHAR(30), c TEXT, KEY (a)); \
    CREATE TABLE long_unique (b BLOB, v INT, UNIQUE (b)); \
    CREATE TABLE typed (id BIGINT UNSIGNED PRIMARY KEY, d DECIMAL(30,10), e ENUM('a','b','ß'), \
      s SET('x','y','z'), y YEAR, ts TIMESTAMP(6) NULL, dt DATETIME(3), tm TIME(2), bt BIT(33), f FLOAT, \
      u UUID, i6 INET6, g GEOMETRY, c CHAR(10) COLLATE utf8mb4_bin, vb VARBINARY(40)); \
    CREATE TABLE computed (id INT PRIMARY KEY, v INT, w INT AS (v * 2) VIRTUAL, x INT AS (v * 3) STORED, \
      t BLOB, KEY (w)); \
    CREATE TABLE parts (id INT, v INT, b BLOB, PRIMARY KEY (id)) PARTITION BY RANGE (id) \
      (PARTITION p0 VALUES LESS THAN (40), PARTITION p1 VALUES LESS THAN MAXVALUE); \
    CREATE TABLE kept_versions (id INT PRIMARY KEY, v INT, b VARCHAR(3000)) WITH SYSTEM VERSIONING; \
    CREATE TABLE log (n INT AUTO_INCREMENT PRIMARY KEY, what TEXT); \
    CREATE TRIGGER tr AFTER UPDATE ON keyed FOR EACH ROW \
      INSERT INTO log (what) VALUES (CONCAT(OLD.v, '-', NEW.v));";

/// Changes that leave long columns as they are, change them alone, change keys, find rows that
/// have no key, and find one of several equal rows.
const CHANGES: &str = "USE test; \
    INSERT INTO keyed SELECT seq, seq * 7, REPEAT('t', seq), REPEAT(CHAR(seq), seq * 900), \
      CONCAT('{\"n\": ', seq, '}') FROM seq_1_to_60; \
    INSERT INTO keyed (id) VALUES (100), (101); \
    INSERT INTO by_unique SELECT seq % 9, CONCAT('k', seq), REPEAT('c', seq * 500) FROM seq_1_to_40; \
    INSERT INTO maybe_unique SELECT IF(seq % 3, seq, NULL), REPEAT('t', seq), REPEAT('b', 5000) \
      FROM seq_1_to_30; \
    INSERT INTO bare SELECT seq % 5, 'same', REPEAT('c', 3000 * (seq % 2)), 0.1 FROM seq_1_to_40; \
    INSERT INTO bare_indexed SELECT seq % 5, IF(seq % 2, 'same', NULL), REPEAT('c', 100) FROM seq_1_to_40; \
    INSERT INTO long_unique SELECT REPEAT(seq, 3000), seq FROM seq_1_to_20; \
    SET time_zone = '+05:30'; \
    INSERT INTO typed SELECT seq, seq / 7, 1 + seq % 3, seq % 8, 2000 + seq, \
      '2024-02-29 12:34:56.654321' + INTERVAL seq * 100001 MICROSECOND, '2024-02-29 12:34:56.789', \
      '-12:34:56.78', seq * 99999999, seq / 3, UUID(), CONCAT('::', seq), POINT(seq, -seq), \
      CONCAT('ß', seq), UNHEX(MD5(seq)) FROM seq_1_to_30; \
    INSERT INTO typed (id) VALUES (18446744073709551615); \
    INSERT INTO computed (id, v, t) SELECT seq, seq, REPEAT('t', 2000) FROM seq_1_to_30; \
    INSERT INTO parts SELECT seq, seq, REPEAT('p', 2000) FROM seq_1_to_80; \
    INSERT INTO kept_versions SELECT seq, seq, REPEAT('p', 2000) FROM seq_1_to_20; \
    UPDATE keyed SET v = v + 1 WHERE id % 2; \
    UPDATE keyed SET b = CONCAT(LEFT(b, 100), 'new', SUBSTR(b, 104)) WHERE id % 5 = 0; \
    UPDATE keyed SET id = id + 1000, t = NULL WHERE id % 7 = 0; \
    UPDATE keyed SET j = JSON_SET(j, '$.n', 'x'), b = NULL WHERE id % 11 = 0; \
    UPDATE keyed SET b = REPEAT('1', 2000000) WHERE id = 1; \
    INSERT INTO keyed (id, v) VALUES (1, 5), (2000, 6) ON DUPLICATE KEY UPDATE v = 77; \
    REPLACE INTO keyed (id, v, b) VALUES (2, 5, 'b'), (2001, 6, 'c'); \
    UPDATE by_unique SET c = 'c' WHERE a = 3; UPDATE by_unique SET b = CONCAT(b, 'x') WHERE a = 4; \
    DELETE FROM by_unique WHERE a = 5; \
    UPDATE maybe_unique SET t = 'same' WHERE a IS NULL; UPDATE maybe_unique SET t = 'x' WHERE a < 9; \
    UPDATE maybe_unique SET a = NULL WHERE a = 10; DELETE FROM maybe_unique WHERE a IS NULL LIMIT 3; \
    UPDATE bare SET b = 'one' WHERE a = 2 LIMIT 1; UPDATE bare SET d = d + 0.2 WHERE a = 3; \
    DELETE FROM bare WHERE a = 4 LIMIT 3; UPDATE bare SET c = 'c' WHERE a = 1 AND c <> '' LIMIT 2; \
    UPDATE bare_indexed SET c = 'new' WHERE a = 1 AND b IS NULL LIMIT 1; \
    UPDATE bare_indexed SET a = NULL WHERE a = 2 LIMIT 2; DELETE FROM bare_indexed WHERE a = 3 LIMIT 3; \
    UPDATE long_unique SET v = -v WHERE v % 2; UPDATE long_unique SET b = CONCAT(b, 'x') WHERE v > 10; \
    DELETE FROM long_unique WHERE v = 4; \
    UPDATE typed SET ts = ts + INTERVAL 1 MICROSECOND, d = -d WHERE id < 10; \
    UPDATE typed SET e = NULL, s = '', bt = b'1' WHERE id > 20; DELETE FROM typed WHERE id % 10 = 5; \
    UPDATE computed SET v = v + 1 WHERE id % 2; UPDATE computed SET t = 'x' WHERE w > 20; \
    DELETE FROM computed WHERE x = 9; \
    UPDATE parts SET id = id + 30 WHERE id BETWEEN 20 AND 39 ORDER BY id DESC LIMIT 0; \
    UPDATE parts SET id = 500 - id WHERE id BETWEEN 20 AND 30; UPDATE parts SET v = 0 WHERE id % 3 = 0; \
    DELETE FROM parts WHERE id = 50; \
    UPDATE kept_versions SET v = v + 1 WHERE id % 2; DELETE FROM kept_versions WHERE id = 4; \
    BEGIN; UPDATE keyed SET v = 1 WHERE id = 3; SAVEPOINT p; DELETE FROM keyed; DELETE FROM bare; \
      ROLLBACK TO p; UPDATE bare SET d = 9 WHERE a = 0 LIMIT 1; COMMIT; \
    BEGIN; DELETE FROM keyed; ROLLBACK; \
    UPDATE keyed JOIN computed USING (id) SET keyed.v = computed.w, computed.v = 1; \
    DELETE keyed, parts FROM keyed JOIN parts USING (id) WHERE id < 6";

/// Old rows too.
const VERSIONS: &str =
    "SELECT id, v, MD5(b), ROW_START, ROW_END FROM test.kept_versions FOR SYSTEM_TIME ALL ORDER BY 1, 4";

/// Runs the changes in a new database, and compares. It stays.
fn round(group: &Group) -> Result<(), String> {
    group.sql(0, "DROP DATABASE IF EXISTS test")?;
    group.sql(0, TABLES)?;
    group.sql(0, CHANGES)?;
    group.catch_up(1, 0)?;
    group.equal(0, 1)?;
    let [primary, replica] = [0, 1].map(|n| group.sql(n, VERSIONS));
    expect("old versions of rows", &replica?, &primary?)
}

/// Each `binlog_row_image` that the server has, in the formats that log rows.
pub(super) fn row_images(group: &Group) -> Result<(), String> {
    let images = "SELECT enum_value_list FROM information_schema.system_variables \
                  WHERE variable_name = 'BINLOG_ROW_IMAGE'";
    let images = group.sql(0, images)?;
    let rows = images.split(',').map(|image| ("ROW", image));
    for (format, image) in rows.chain([("MIXED", "MINIMAL")]) {
        let set = format!("SET GLOBAL binlog_format = {format}; SET GLOBAL binlog_row_image = {image}");
        group.sql(0, &set)?;
        round(group).map_err(|why| format!("{format}, {image}: {why}"))?;
    }
    group.sql(0, "SET GLOBAL binlog_row_image = DEFAULT; DROP DATABASE test").map(drop)
}

/// `log_bin_compress`.
pub(super) fn compressed(group: &Group) -> Result<(), String> {
    group.sql(0, "SET GLOBAL log_bin_compress = ON; SET GLOBAL log_bin_compress_min_len = 10")?;
    group.sql(0, "FLUSH BINARY LOGS")?;
    round(group)?;
    let last = group.sql(0, "SHOW MASTER STATUS")?;
    let file = last.split('\t').next().unwrap_or_default();
    let events = group.sql(0, &format!("SHOW BINLOG EVENTS IN '{file}'"))?;
    for kind in ["Write", "Update", "Delete"] {
        expect("the binary log", &events, &format!("{kind}_rows_compressed_v1"))?;
    }
    group.sql(0, "SET GLOBAL log_bin_compress = OFF; DROP DATABASE test").map(drop)
}

/// Temporary tables, of which a replica sees nothing but what went from them into other tables.
/// RENAME TABLE is left out: the server logs it for them too, and a replica has none. So is ALTER
/// TABLE ... RENAME: in the format MIXED the server logs that they are made and dropped, but not
/// this, where it logs rows (with InnoDB at READ COMMITTED).
pub(super) fn temporary_tables(group: &Group) -> Result<(), String> {
    let work = "CREATE TEMPORARY TABLE gone LIKE plain; \
                INSERT INTO gone SELECT seq, REPEAT('g', seq * 100) FROM seq_1_to_50; \
                UPDATE gone SET v = CONCAT(v, 'u') WHERE id % 2; DELETE FROM gone WHERE id = 3; \
                INSERT INTO plain SELECT id + 100, v FROM gone; \
                CREATE TEMPORARY TABLE hides AS SELECT * FROM gone; UPDATE hides SET v = 'hidden'; \
                INSERT INTO plain SELECT id + 200, v FROM hides; \
                ALTER TABLE gone ADD COLUMN w INT DEFAULT 3, ADD KEY (w); TRUNCATE TABLE hides; \
                INSERT INTO hides SELECT id, w FROM gone; \
                UPDATE plain JOIN gone USING (id) SET plain.v = gone.w; \
                DROP TEMPORARY TABLE hides; UPDATE hides SET v = 'seen'; \
                BEGIN; CREATE TEMPORARY TABLE inside (a INT); INSERT INTO inside VALUES (1); \
                  INSERT INTO plain SELECT a + 300, 'inside' FROM inside; ROLLBACK; \
                BEGIN; INSERT INTO inside VALUES (2); INSERT INTO plain SELECT a + 400, 'in' FROM inside; \
                  DROP TEMPORARY TABLE inside; COMMIT; \
                CREATE TABLE taken AS SELECT * FROM gone; CREATE TABLE shaped LIKE gone; \
                ALTER TABLE gone DROP KEY w";
    for format in ["ROW", "MIXED"] {
        group.sql(0, &format!("SET GLOBAL binlog_format = {format}"))?;
        group.sql(
            0,
            "CREATE DATABASE test; USE test; CREATE TABLE plain (id INT PRIMARY KEY, v TEXT); \
             CREATE TABLE hides (id INT PRIMARY KEY, v TEXT); INSERT INTO hides VALUES (1, 'not yet'); \
             INSERT INTO plain SELECT seq, seq FROM seq_1_to_20",
        )?;
        // The connection ends with a temporary table.
        group.sql(0, &format!("USE test; {work}"))?;
        group.catch_up(1, 0)?;
        group.equal(0, 1).map_err(|why| format!("{format}: {why}"))?;
        let rows = "SELECT v FROM test.hides; SELECT COUNT(*) FROM test.plain";
        expect("the rows", &group.sql(1, rows)?, "seen\n119")?;
        let open = group.sql(1, "SHOW STATUS LIKE 'Slave_open_temp_tables'")?;
        expect("temporary tables of the replica", &format!("{open}."), "\t0.")?;
        group.sql(0, "DROP DATABASE test")?;
    }
    Ok(())
}

/// A binary log and a relay log that are encrypted, on servers that are killed.
pub(super) fn encrypted(setting: &Setting) -> Result<(), String> {
    const PLUGIN: &str = "file_key_management.so";
    const MARK: &str = "a text that can be found";
    let dir = &setting.dir;
    let from = unpack("mariadb-server", "usr/lib/mysql/plugin")?.join(PLUGIN);
    for n in [0, 1] {
        let plugins = dir.join(n.to_string()).join("plugin");
        make_dir(&plugins)?;
        std::fs::copy(&from, plugins.join(PLUGIN)).map_err(|e| format!("{}: {e}", from.display()))?;
    }
    let keys = dir.join("keys");
    write(&keys, "1;770a8a65da156d24ee2a093277530142770a8a65da156d24ee2a093277530142\n")?;
    let keys = format!("--file-key-management-filename={}", keys.display());
    let options = ["--plugin-load-add=file_key_management.so", &keys, "--encrypt-binlog=ON"];
    let mut group = Group::start(setting, &[&options, &options])?;
    group.follow(1, 0, "")?;
    group.sql(0, "SET GLOBAL binlog_row_image = MINIMAL")?;
    round(&group)?;
    group.sql(1, "STOP SLAVE SQL_THREAD")?;
    group.sql(0, &format!("INSERT INTO test.bare (b) VALUES ('{MARK}')"))?;
    let position = group.sql(0, "SELECT @@gtid_binlog_pos")?;
    super::super::steps::try_until("the relay log", || Ok(group.status(1, "Gtid_IO_Pos")? == position))?;
    for n in [0, 1] {
        let data = group.server(n)?.data();
        let files = std::fs::read_dir(&data).map_err(|e| format!("{}: {e}", data.display()))?.flatten();
        let logs = files.map(|file| file.path()).filter(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.contains("bin.0") || name.contains("binlog.0")
        });
        for log in logs {
            let bytes = std::fs::read(&log).map_err(|e| format!("{}: {e}", log.display()))?;
            if bytes.windows(MARK.len()).any(|part| part == MARK.as_bytes()) {
                return Err(format!("{} is not encrypted", log.display()));
            }
        }
    }
    for n in [0, 1] {
        group.kill(n)?;
        group.start_one(n)?;
    }
    group.sql(0, "USE test; UPDATE keyed SET v = 8; INSERT INTO log (what) VALUES ('after the kill')")?;
    group.catch_up(1, 0)?;
    group.equal(0, 1)
}
