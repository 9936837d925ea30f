//! What the binary log alone has after a crash is repeated when the server starts.
//!
//! The engine's files are copied before the changes, and put back after the kill: so its own log
//! has none of them, whatever was synced meanwhile. Each change is one that the binary log makes
//! durable.

use super::server::{self, Server};
use super::steps::{expect, try_until, until};
use super::{make_dir, output, sql};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A server of a test ends by itself, even if the test is killed.
const LIFE: Duration = Duration::from_secs(1800);
const TABLES: &str = include_str!("repeated_tables.sql");
const CHANGES: &str = include_str!("repeated_changes.sql");
/// What the server's log says of a repetition.
const REPEATED: &str = "transactions from the binary log";
/// How many milliseconds a start may go on before it is killed.
const KILLED_AFTER_MS: [u32; 5] = [100, 160, 220, 280, 400];

/// Settings that new connections get, and which must not reach the one that repeats.
const IN_THE_WAY: [&str; 11] = [
    "--completion-type=RELEASE",
    "--autocommit=OFF",
    "--read-only",
    "--gtid-strict-mode=1",
    "--transaction-isolation=SERIALIZABLE",
    "--lock-wait-timeout=0",
    "--init-connect=SELECT no_such_function()",
    "--sql-mode=ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH",
    "--slave-run-triggers-for-rbr=ENFORCE",
    "--max-statement-time=0.001",
    "--transaction-read-only",
];

/// A server and the copy of its engine's files.
pub(super) struct Engine<'d> {
    pub(super) dir: &'d Path,
}

impl Engine<'_> {
    pub(super) fn start(&self, more: &[&str]) -> Result<Server, String> {
        let log = ["--log-bin=binlog", "--server-id=1", "--binlog-format=MIXED", "--sync-binlog=1"];
        server::start(self.dir, LIFE, &[&log, more].concat())
    }

    fn copy(&self, from: &str, to: &str) -> Result<(), String> {
        let [from, to] = [from, to].map(|name| self.dir.join(name));
        if to.exists() {
            std::fs::remove_dir_all(&to).map_err(|e| format!("{}: {e}", to.display()))?;
        }
        output(Command::new("cp").arg("-a").args([from, to])).map(drop)
    }

    /// Keeps the files as they are. Nothing runs that would change them.
    pub(super) fn keep(&self) -> Result<(), String> {
        self.copy("data/#millpond", "kept")
    }

    /// Ends the server at once, and takes from the engine what has happened since then.
    pub(super) fn kill_and_go_back(&self, server: &Server) -> Result<(), String> {
        kill(server)?;
        self.copy("kept", "data/#millpond")
    }

    fn log(&self) -> Result<String, String> {
        std::fs::read_to_string(self.dir.join("log")).map_err(|e| e.to_string())
    }
}

/// Ends a server at once, and waits for its end.
pub(super) fn kill(server: &Server) -> Result<(), String> {
    output(Command::new("kill").args(["-9", &server.process()?]))?;
    ended(server)
}

/// Waits for the end of a server's process, which somebody kills.
fn ended(server: &Server) -> Result<(), String> {
    let process = Path::new("/proc").join(server.process()?);
    until("the end of a killed server", || !process.exists())
}

/// Returns the expression of a figure of Millpond's.
fn figure(name: &str) -> String {
    format!("(SELECT value FROM information_schema.MILLPOND_METRICS WHERE name = '{name}')")
}

/// Returns all rows of all tables, and what CHECK TABLE says of them.
fn picture(server: &Server) -> Result<String, String> {
    // From here on backslashes mean what they mean here, transactions end by themselves and no
    // statement has a time limit. This one has: it is tried again.
    let settings = "SET GLOBAL max_statement_time = 0, GLOBAL lock_wait_timeout = DEFAULT, GLOBAL sql_mode = '', \
                    GLOBAL autocommit = ON";
    try_until("settings of new connections", || Ok(sql(server, settings).is_ok()))?;
    let names = "SELECT CONCAT('`', table_schema, '`.`', table_name, '`') FROM information_schema.tables \
                 WHERE table_schema IN ('test', 'o''ther \\\\x') AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') \
                 ORDER BY 1";
    let mut seen = String::new();
    for name in sql(server, names)?.lines() {
        let name = name.replace("\\\\", "\\");
        let all = if name.contains("versioned") { " FOR SYSTEM_TIME ALL" } else { "" };
        let mut rows: Vec<String> =
            sql(server, &format!("SELECT * FROM {name}{all}"))?.lines().map(str::to_owned).collect();
        rows.sort_unstable();
        let checked = sql(server, &format!("CHECK TABLE {name}"))?;
        seen += &format!("{name}\n{}\n{checked}\n", rows.join("\n"));
    }
    Ok(seen)
}

fn same(what: &str, before: &str, after: &str) -> Result<(), String> {
    let lines = before.lines().zip(after.lines().chain(std::iter::repeat("nothing")));
    match lines.into_iter().find(|(before, after)| before != after) {
        Some((before, after)) => Err(format!("{what}: {after:?} instead of {before:?}")),
        None if before.lines().count() != after.lines().count() => {
            Err(format!("{what}: there are more rows"))
        }
        None => Ok(()),
    }
}

/// The test.
pub(super) fn repeated(dir: &Path) -> Result<(), String> {
    make_dir(dir)?;
    let engine = Engine { dir };
    let server = engine.start(&[])?;
    sql(&server, TABLES)?;
    server::stop(dir)?;
    let server = engine.start(&[])?;
    engine.keep()?;
    sql(&server, CHANGES)?;
    let changed = picture(&server)?;
    engine.kill_and_go_back(&server)?;
    let server = engine.start(&IN_THE_WAY)?;
    expect("the server's log", &engine.log()?, REPEATED)?;
    same("repeated", &changed, &picture(&server)?)?;
    // What is repeated is durable, and is not repeated again.
    kill(&server)?;
    let server = engine.start(&[])?;
    if engine.log()?.contains(REPEATED) {
        return Err("it is repeated a second time".into());
    }
    same("started once more", &changed, &picture(&server)?)?;
    altered(&server)?;
    engine.kill_and_go_back(&server)?;
    removed_at_the_start(&engine, &changed)?;
    killed_meanwhile(&engine, &changed)?;
    refused(&engine)?;
    removed_by_the_server(&engine)?;
    at_rest(&engine)
}

/// Rows are logged with the definition that their table has then. A change of the definition that
/// touches no row makes them durable first: with the new one they could not be repeated.
fn altered(server: &Server) -> Result<(), String> {
    let name = "test.altered";
    let table = "(id INT PRIMARY KEY, v VARCHAR(10), e ENUM('a')) ENGINE=Millpond";
    sql(server, &format!("CREATE TABLE {name} {table}"))?;
    let (end, durable) = (figure("current_lsn"), figure("durable_lsn"));
    for (n, change) in
        ["MODIFY v VARCHAR(200)", "MODIFY e ENUM('a', 'b')", "RENAME COLUMN v TO w", "COMMENT 'x'"]
            .iter()
            .enumerate()
    {
        let said = sql(
            server,
            &format!(
                "INSERT INTO {name} VALUES ({n}, 'row', 'a'); SET @end = {end}; \
                 ALTER TABLE {name} {change}, ALGORITHM=INSTANT; SELECT 'durable', {durable} >= @end"
            ),
        )?;
        expect(change, &said, "durable\t1")?;
    }
    sql(server, &format!("DROP TABLE {name}")).map(drop)
}

/// A server that was down for long removes its old files when it starts.
fn removed_at_the_start(engine: &Engine<'_>, changed: &str) -> Result<(), String> {
    engine.copy("data", "all")?;
    let files = "touch -d '3 days ago' data/binlog.0* && ls data/binlog.0* | wc -l";
    let in_dir = |command: &str| output(Command::new("sh").args(["-c", command]).current_dir(engine.dir));
    let before = in_dir(files)?;
    let server = engine.start(&["--expire-logs-days=1"])?;
    if in_dir("ls data/binlog.0* | wc -l")?.trim() >= before.trim() {
        return Err("the server has not removed its old files".into());
    }
    same("repeated from files that are gone", changed, &picture(&server)?)?;
    kill(&server)?;
    engine.copy("all", "data")
}

/// Starts are killed while they repeat. The next one goes on.
fn killed_meanwhile(engine: &Engine<'_>, changed: &str) -> Result<(), String> {
    for ms in KILLED_AFTER_MS {
        let watcher =
            ["timeout", "--signal=KILL", &format!("{}.{:03}", ms / 1000, ms % 1000)].map(str::to_owned);
        let log = ["--log-bin=binlog", "--server-id=1", "--sync-binlog=1"];
        // A server that was quicker is killed a moment later.
        if let Ok(server) = server::start_under(&watcher, engine.dir, LIFE, &log) {
            ended(&server)?;
        }
    }
    let server = engine.start(&[])?;
    same("repeated after kills", changed, &picture(&server)?)?;
    engine.kill_and_go_back(&server)
}

/// A server without its binary log does not use the database, unless it is told to.
fn refused(engine: &Engine<'_>) -> Result<(), String> {
    let index = engine.dir.join("data/binlog.index");
    let aside = engine.dir.join("aside.index");
    let moves = |from: &Path, to: &Path| std::fs::rename(from, to).map_err(|e| e.to_string());
    let none = server::start(engine.dir, LIFE, &[]).err().unwrap_or_default();
    expect("without log-bin", &none, "The server has no binary log now")?;
    let other = server::start(engine.dir, LIFE, &["--log-bin=other"]).err().unwrap_or_default();
    expect("with another log-bin", &other, "The binary log has ")?;
    moves(&index, &aside)?;
    let empty = engine.start(&[]).err().unwrap_or_default();
    expect("without the index", &empty, "The binary log has no files")?;
    moves(&aside, &index)?;
    let server = engine.start(&["--millpond-recover-from-binlog=OFF"])?;
    expect("its log", &engine.log()?, "is left out: millpond_recover_from_binlog is OFF")?;
    expect("the rows", &sql(&server, "SELECT COUNT(*) FROM test.numbered")?, "0")?;
    server::stop(engine.dir)
}

/// The server may remove the file that the database's bookmark names, and begin another one of the
/// same number: RESET MASTER. Then nothing is missing, and the first transactions are synced as
/// without all this.
fn removed_by_the_server(engine: &Engine<'_>) -> Result<(), String> {
    let server = engine.start(&[])?;
    sql(
        &server,
        "RESET MASTER; INSERT INTO test.numbered (v) SELECT seq FROM test.seq_1_to_500; RESET MASTER",
    )?;
    let changed = picture(&server)?;
    kill(&server)?;
    let server = engine.start(&[])?;
    same("after RESET MASTER", &changed, &picture(&server)?)?;
    sql(&server, "RESET MASTER; INSERT INTO test.numbered (v) VALUES (1)")?;
    let changed = picture(&server)?;
    kill(&server)?;
    let server = engine.start(&[])?;
    same("after RESET MASTER and a row", &changed, &picture(&server)?)?;
    sql(&server, "RESET MASTER; INSERT INTO test.numbered (v) VALUES (2)")?;
    engine.keep()?;
    sql(
        &server,
        "INSERT INTO test.numbered (v) VALUES (3), (4); UPDATE test.numbered SET v = 5 WHERE v = 2",
    )?;
    let changed = picture(&server)?;
    engine.kill_and_go_back(&server)?;
    let server = engine.start(&[])?;
    expect("the server's log", &engine.log()?, REPEATED)?;
    same("repeated after RESET MASTER", &changed, &picture(&server)?)?;
    server::stop(engine.dir)
}

/// Where the settings do not let commits rest on the binary log, a start does not need it. Settings
/// may change while the server runs.
fn at_rest(engine: &Engine<'_>) -> Result<(), String> {
    let value = |n: u8| format!("SET GLOBAL millpond_flush_log_at_trx_commit = {n}");
    let end = format!("SELECT {}", figure("current_lsn"));
    for option in ["--millpond-flush-log-at-trx-commit=2", "--rpl-semi-sync-master-enabled=ON"] {
        let server = engine.start(&[option])?;
        sql(&server, "INSERT INTO test.numbered (v) VALUES (10)")?;
        let changed = picture(&server)?;
        kill(&server)?;
        let server = engine.start(&[])?;
        same(option, &changed, &picture(&server)?)?;
        if engine.log()?.contains(REPEATED) {
            return Err(format!("with {option} something is repeated"));
        }
        sql(&server, &format!("{}; INSERT INTO test.numbered (v) VALUES (11)", value(2)))?;
        let durable = format!("SELECT {} >= {}", figure("durable_lsn"), sql(&server, &end)?.trim());
        try_until("the log's own sync", || Ok(sql(&server, &durable)?.trim() == "1"))?;
        kill(&server)?;
        server::start(engine.dir, LIFE, &[])?;
        server::stop(engine.dir)?;
    }
    let server = engine.start(&[])?;
    sql(&server, &format!("{}; INSERT INTO test.numbered (v) VALUES (12); {}", value(2), value(1)))?;
    sql(&server, "INSERT INTO test.numbered (v) VALUES (13)")?;
    engine.keep()?;
    sql(&server, "INSERT INTO test.numbered (v) VALUES (14)")?;
    let changed = picture(&server)?;
    engine.kill_and_go_back(&server)?;
    let server = engine.start(&[])?;
    expect("the server's log", &engine.log()?, "repeated 1 transactions")?;
    same("repeated after the settings have changed", &changed, &picture(&server)?)?;
    server::stop(engine.dir)
}
