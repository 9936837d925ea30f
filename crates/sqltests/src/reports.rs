//! What the plugin says of itself: why a database has stopped, that a definition does not fit, what
//! lies in its directory.

use super::server::{self, Server};
use super::steps::expect;
use super::steps::refused;
use super::{make_dir, output, sql, write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A server of a test ends by itself, even if the test is killed.
const LIFE: Duration = Duration::from_secs(1800);

fn log_of(server: &Server) -> Result<String, String> {
    let log = server.log();
    std::fs::read(&log)
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .map_err(|e| format!("{}: {e}", log.display()))
}

fn refuse(what: &str, found: &str, unwanted: &str) -> Result<(), String> {
    if found.contains(unwanted) { Err(format!("{what}: {unwanted:?} is in {found:?}")) } else { Ok(()) }
}

/// Statements of all kinds. Each of them needs the database.
const STATEMENTS: [&str; 9] = [
    "INSERT INTO test.t VALUES (0, '')",
    "BEGIN; INSERT INTO test.t VALUES (0, ''); COMMIT",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "UPDATE test.t SET v = 'x' WHERE id = 1",
    "SELECT * FROM test.t WHERE id = 1 FOR UPDATE",
    "SELECT COUNT(*) FROM test.unopened",
    "CREATE TABLE test.another (id INT PRIMARY KEY) ENGINE=Millpond",
    "ALTER TABLE test.t ENGINE=Millpond",
    "DROP TABLE test.unopened",
];

/// The log cannot get a further file. (Statements failed with "Unknown error 1016", and the log of
/// the server was silent until its end.)
pub(super) fn stopped(dir: &Path) -> Result<(), String> {
    let server = server::start(dir, LIFE, &["--millpond-redo-capacity=16M"])?;
    sql(
        &server,
        "CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY, v VARCHAR(1000)) ENGINE=Millpond; \
         CREATE TABLE test.unopened (id INT PRIMARY KEY) ENGINE=Millpond; INSERT INTO test.t VALUES (1, 'kept')",
    )?;
    let healthy = sql(&server, "SHOW GLOBAL STATUS LIKE 'Millpond_failure'")?;
    if healthy != "Millpond_failure" {
        return Err(format!("of a healthy database the failure is {healthy:?}"));
    }
    let redo = dir.join("data/#millpond/redo");
    let allow = |mode: u32| {
        std::fs::set_permissions(&redo, std::fs::Permissions::from_mode(mode))
            .map_err(|e| format!("{}: {e}", redo.display()))
    };
    allow(0o555)?;
    // A longer log needs another file at once. That stops the database within the transaction.
    let error = refused(
        &server,
        "BEGIN; INSERT INTO test.t VALUES (2, ''); SET GLOBAL millpond_redo_capacity = 1 << 29; COMMIT",
    )?;
    let cause = [redo.display().to_string(), "(os error 13)".to_owned(), "start it again".to_owned()];
    let says_why = |what: &str, text: &str| cause.iter().try_for_each(|part| expect(what, text, part));
    says_why("COMMIT", &error)?;
    let warning = sql(&server, "SET GLOBAL millpond_redo_capacity = 1 << 28; SHOW WARNINGS")?;
    says_why("the warning", &warning)?;
    for statement in STATEMENTS {
        let error = refused(&server, statement)?;
        says_why(statement, &error)?;
        refuse(statement, &error, "Unknown error")?;
    }
    says_why("SHOW ENGINE MILLPOND STATUS", &sql(&server, "SHOW ENGINE MILLPOND STATUS")?)?;
    says_why("the status", &sql(&server, "SHOW GLOBAL STATUS LIKE 'Millpond_failure'")?)?;
    expect("the status", &sql(&server, "SHOW GLOBAL STATUS LIKE 'Millpond_poisoned'")?, "\t1")?;
    let log = log_of(&server)?;
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("the database has stopped")).collect();
    let [line] = lines[..] else { return Err(format!("not one line in the log says it: {lines:?}")) };
    expect("the log", line, "[ERROR]")?;
    says_why("the log", line)?;
    allow(0o755)?;
    output(Command::new("kill").args(["-9", &server.process()?]))?;
    let server = server::start(dir, LIFE, &[])?;
    expect("the row", &sql(&server, "SELECT v FROM test.t WHERE id = 1")?, "kept")?;
    server::stop(dir)
}

/// Pairs of definitions, and how the second one differs from the first.
const MISFITS: [(&str, &str, &str); 8] = [
    ("id INT PRIMARY KEY, v INT", "id INT PRIMARY KEY, v INT UNSIGNED", "column `v`"),
    ("id INT PRIMARY KEY, v INT", "id INT PRIMARY KEY, v FLOAT", "column `v`"),
    (
        "id INT PRIMARY KEY, v INT",
        "id INT PRIMARY KEY, v INT, w INT",
        "the rows have 2 stored columns, not 3",
    ),
    (
        "id INT PRIMARY KEY, v VARCHAR(9) COLLATE utf8mb4_bin, KEY k (v)",
        "id INT PRIMARY KEY, v VARCHAR(9) COLLATE utf8mb4_general_ci, KEY k (v)",
        "column `v`",
    ),
    ("id INT PRIMARY KEY, v DECIMAL(5,2)", "id INT PRIMARY KEY, v DECIMAL(4,1)", "column `v`"),
    ("id INT PRIMARY KEY, v ENUM('a', 'b')", "id INT PRIMARY KEY, v ENUM('b', 'a')", "column `v`"),
    ("id INT, v INT, PRIMARY KEY (id, v)", "id INT, v INT, PRIMARY KEY (v, id)", "another primary key"),
    (
        "id INT PRIMARY KEY, v INT, w INT, KEY k (v)",
        "id INT PRIMARY KEY, v INT, w INT, KEY k (w)",
        "the index `k`",
    ),
];

/// Puts definitions of other tables in place of those that fit, as a wrong backup does.
pub(super) fn misfits(dir: &Path) -> Result<(), String> {
    let server = server::start(dir, LIFE, &[])?;
    sql(&server, "CREATE DATABASE test")?;
    for (n, (is, other, _)) in MISFITS.iter().enumerate() {
        sql(&server, &format!("CREATE TABLE test.t{n} ({is}) ENGINE=Millpond CHARSET=utf8mb4"))?;
        sql(&server, &format!("CREATE TABLE test.other{n} ({other}) ENGINE=Millpond CHARSET=utf8mb4"))?;
    }
    server::stop(dir)?;
    let definition = |name: &str| dir.join("data/test").join(format!("{name}.frm"));
    let copy = |from: &str, to: &str| {
        let (from, to) = (definition(from), definition(to));
        std::fs::copy(&from, &to).map(drop).map_err(|e| format!("{}: {e}", to.display()))
    };
    for n in 0..MISFITS.len() {
        copy(&format!("t{n}"), &format!("kept{n}"))?;
        copy(&format!("other{n}"), &format!("t{n}"))?;
    }
    let server = server::start(dir, LIFE, &[])?;
    for (n, (.., wanted)) in MISFITS.iter().enumerate() {
        let said = sql(&server, &format!("CHECK TABLE test.t{n}"))?;
        expect("CHECK TABLE", &said, wanted)?;
        refuse("CHECK TABLE", &said, "status\tOK")?;
        let log = log_of(&server)?;
        let line =
            log.lines().find(|line| line.contains(&format!("test.t{n} ")) && line.contains("does not fit"));
        expect("the log", line.unwrap_or_default(), wanted)?;
        expect("the log", line.unwrap_or_default(), "[ERROR]")?;
        expect(
            "CHECK TABLE of another",
            &sql(&server, &format!("CHECK TABLE test.other{n}"))?,
            "status\tOK",
        )?;
    }
    server::stop(dir)?;
    for n in 0..MISFITS.len() {
        copy(&format!("kept{n}"), &format!("t{n}"))?;
    }
    let server = server::start(dir, LIFE, &[])?;
    for n in 0..MISFITS.len() {
        expect("CHECK TABLE", &sql(&server, &format!("CHECK TABLE test.t{n}"))?, "status\tOK")?;
    }
    refuse("the log", &log_of(&server)?, "does not fit")?;
    server::stop(dir)
}

/// Files that are no part of a database.
const ODD: [&str; 4] = ["notes.txt", "t.frm", "redo.bak", "\u{e4} b"];

/// Odd files in the engine's directory, before the first start and later.
pub(super) fn directory(dir: &Path) -> Result<(), String> {
    // The first start makes the server's own data too.
    server::start(dir, LIFE, &[])?;
    server::stop(dir)?;
    let place = dir.join("data/#millpond");
    std::fs::remove_dir_all(&place).map_err(|e| format!("{}: {e}", place.display()))?;
    // Without the plugin the server takes the directory for a schema, and writes its options there.
    make_dir(&place)?;
    output(Command::new("chown").arg("--reference").arg(dir.join("data")).arg(&place))?;
    let server = server::start_without_plugin(dir, LIFE)?;
    expect("the schemas", &sql(&server, "SHOW DATABASES")?, "#mysql50##millpond")?;
    sql(&server, "ALTER DATABASE `#mysql50##millpond` CHARSET latin1")?;
    server::stop(dir)?;
    if !place.join("db.opt").exists() {
        return Err("the server has not written db.opt".into());
    }
    let server = server::start(dir, LIFE, &[])?;
    expect("the log", &log_of(&server)?, "#millpond/db.opt, which the server had made")?;
    sql(&server, "CREATE DATABASE test; CREATE TABLE test.t (id INT PRIMARY KEY) ENGINE=Millpond")?;
    let is_no_schema = |server: &Server| {
        refuse("the schemas", &sql(server, "SHOW DATABASES")?, "millpond")?;
        refuse(
            "the tables",
            &sql(server, "SELECT table_schema FROM information_schema.tables")?,
            "millpond",
        )?;
        expect("the variable", &sql(server, "SELECT @@ignore_db_dirs")?, "#millpond")
    };
    is_no_schema(&server)?;
    sql(&server, "UNINSTALL SONAME 'ha_millpond'; FLUSH TABLES; INSTALL SONAME 'ha_millpond'")?;
    is_no_schema(&server)?;
    server::stop(dir)?;
    // Beside a database odd files do no harm.
    for name in ODD {
        write(&place.join(name), "odd")?;
    }
    make_dir(&place.join("a directory"))?;
    let server = server::start(dir, LIFE, &["--ignore-db-dirs=other"])?;
    is_no_schema(&server)?;
    expect("the variable", &sql(&server, "SELECT @@ignore_db_dirs")?, "other")?;
    sql(&server, "INSERT INTO test.t VALUES (1)")?;
    server::stop(dir)?;
    // A new database does not begin beside them. The error names them.
    for entry in std::fs::read_dir(&place).map_err(|e| format!("{}: {e}", place.display()))?.flatten() {
        let path = entry.path();
        let is_odd = ODD.iter().any(|odd| path.ends_with(odd));
        if !is_odd {
            let gone =
                if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            gone.map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    let refused = server::start(dir, LIFE, &[]).err().ok_or("a database was made beside odd files")?;
    expect("the log", &refused, "notes.txt")?;
    expect("the log", &refused, "does not open")
}
