//! A program that is no MariaDB server reads the changes: `mysql-replication`, from the Python
//! package index. What it reads is compared with the rows, and what an event says was there before
//! with what the events before have left.

use super::super::packages::install;
use super::super::steps::expect;
use super::super::{make_dir, output, target, write};
use super::group::{Group, Setting};
use checkout::root;
use std::path::PathBuf;
use std::process::Command;

/// Debian's Python, whatever other versions come before it in the path.
const PYTHON: &str = "/usr/bin/python3";
/// The reader needs the names of columns and of members of an ENUM.
const METADATA: &str = "--binlog-row-metadata=FULL";
const CHANGES: &str = "CREATE DATABASE test; USE test; SET NAMES utf8mb4; SET time_zone = '+05:30'; \
    CREATE TABLE typed (id BIGINT UNSIGNED PRIMARY KEY, b LONGBLOB, d DECIMAL(40,15), j JSON, \
      e ENUM('red','grün','blue'), ts TIMESTAMP(6) NULL, dt DATETIME(3), t TEXT, v VARBINARY(300), \
      f DOUBLE, i MEDIUMINT, c CHAR(5), dd DATE, KEY (d), KEY (e)) CHARACTER SET utf8mb4; \
    CREATE TABLE counted (id INT AUTO_INCREMENT PRIMARY KEY, n INT UNSIGNED) PARTITION BY HASH (id) \
      PARTITIONS 3; \
    INSERT INTO typed SELECT seq, REPEAT(CHAR(seq), seq * 400), (CAST(seq AS SIGNED) - 50) / 7, \
      CONCAT('{\"n\": [', seq, ', \"ü\"]}'), 1 + seq % 3, \
      '2024-02-29 12:34:56.654321' + INTERVAL seq * 100001 MICROSECOND, \
      '2024-02-29 12:34:56.789' - INTERVAL seq DAY, CONCAT('ß', seq, '😀'), UNHEX(MD5(seq)), seq / 3, \
      CAST(seq AS SIGNED) * -1000, CHAR(64 + seq % 26), '1999-12-31' + INTERVAL seq DAY FROM seq_1_to_100; \
    INSERT INTO typed (id) VALUES (18446744073709551615); \
    INSERT INTO typed (id, b) VALUES (1000, REPEAT('long', 700000)); \
    INSERT INTO counted (n) SELECT seq FROM seq_1_to_200; \
    BEGIN; UPDATE typed SET ts = ts + INTERVAL 1 MICROSECOND, d = -d WHERE id % 2; SAVEPOINT p; \
      DELETE FROM typed; ROLLBACK TO p; UPDATE counted SET n = n + 1 WHERE id % 3 = 0; COMMIT; \
    BEGIN; DELETE FROM counted; ROLLBACK; \
    UPDATE typed SET e = NULL, j = JSON_SET(j, '$.m', id) WHERE id BETWEEN 20 AND 40; \
    UPDATE typed SET b = CONCAT(b, 'x') WHERE id = 1000; UPDATE typed SET id = id + 500 WHERE id = 50; \
    DELETE FROM typed WHERE id % 10 = 7; DELETE FROM counted WHERE id > 150; \
    REPLACE INTO typed (id, t) VALUES (3, 'replaced'); \
    INSERT INTO counted VALUES (5, 1) ON DUPLICATE KEY UPDATE n = 4000000000";

/// The check.
pub(super) fn read(setting: &Setting) -> Result<(), String> {
    let python = fetch()?;
    let group = Group::start(setting, &[&[METADATA]])?;
    group.sql(0, CHANGES)?;
    let mut program = Command::new(python);
    program.env("TZ", "UTC").arg(root().join("mariadb/changes/read.py")).arg(group.port(0).to_string());
    expect("the reader", &output(&mut program)?, " events, 2 tables, 242 rows")
}

/// Returns the interpreter that has the packages, and fetches them if need be.
fn fetch() -> Result<PathBuf, String> {
    let dir = target().join("changes");
    let list = root().join("mariadb/changes/packages.txt");
    let wanted =
        std::fs::read_to_string(&list).map_err(|e| format!("cannot read {}: {e}", list.display()))?;
    let (done, python) = (dir.join("fetched"), dir.join("venv/bin/python"));
    if std::fs::read_to_string(&done).is_ok_and(|text| text == wanted) {
        return Ok(python);
    }
    install(&["python3-venv"])?;
    make_dir(&dir)?;
    output(Command::new(PYTHON).args(["-m", "venv", "--clear"]).arg(dir.join("venv")))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]);
    pip.args(["--only-binary", ":all:", "--requirement"]).arg(&list);
    output(pip.env("PIP_DISABLE_PIP_VERSION_CHECK", "1"))?;
    write(&done, &wanted)?;
    Ok(python)
}
