//! Transactions that XA has prepared: they outlive their connection, the server's stop and its
//! kill, and keep their locks.

use super::server::{self, Server};
use super::steps::refused;
use super::steps::{expect, try_until};
use super::{output, sql, write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A server of a test ends by itself, even if the test is killed.
const LIFE: Duration = Duration::from_secs(1800);
/// Prepared transactions at once, besides the first ones.
const MANY: u32 = 2_000;
/// The redo log while others go on.
const REDO_BYTES: u64 = 32 << 20;

/// The test.
pub(super) fn prepared(dir: &Path) -> Result<(), String> {
    let server = start(dir, &[])?;
    sql(
        &server,
        "CREATE DATABASE test; USE test; \
         CREATE TABLE m (id INT PRIMARY KEY, v INT, KEY (v)) ENGINE=Millpond; \
         CREATE TABLE i (id INT PRIMARY KEY, v INT) ENGINE=InnoDB; \
         CREATE TABLE many (id INT PRIMARY KEY) ENGINE=Millpond; \
         CREATE TABLE bare (v INT) ENGINE=Millpond; INSERT INTO bare VALUES (1); \
         CREATE TABLE other (id INT PRIMARY KEY) ENGINE=Millpond; \
         INSERT INTO m VALUES (1, 1), (2, 2); INSERT INTO i VALUES (1, 1)",
    )?;
    // Each connection ends behind what it has prepared.
    for (xid, work) in [
        (
            "'both', 'of', 7",
            "UPDATE m SET v = 10 WHERE id = 1; UPDATE i SET v = 10 WHERE id = 1; INSERT INTO bare VALUES (2)",
        ),
        ("'gone'", "DELETE FROM m WHERE id = 2; INSERT INTO bare VALUES (2)"),
    ] {
        sql(&server, &format!("USE test; XA START {xid}; {work}; XA END {xid}; XA PREPARE {xid}"))?;
    }
    many(&server, dir)?;
    let looks =
        |server: &Server, when: &str| keep_their_locks(server).map_err(|why| format!("{when}: {why}"));
    looks(&server, "after the connections have ended")?;
    server::stop(dir)?;
    let server = start(dir, &[])?;
    looks(&server, "after a stop")?;
    // Rows without a primary key get hidden keys that the prepared rows do not have.
    sql(&server, "INSERT INTO test.bare VALUES (3), (4)")?;
    output(Command::new("kill").args(["-9", &server.process()?]))?;
    let server = start(dir, &["--log-bin=binlog", "--server-id=1"])?;
    looks(&server, "after a kill, with the binary log")?;
    others_go_on(&server)?;
    output(Command::new("kill").args(["-9", &server.process()?]))?;
    let server = start(dir, &["--log-bin=binlog", "--server-id=1"])?;
    looks(&server, "after a kill, when their part of the log was used again")?;
    sql(&server, "XA ROLLBACK 'gone'")?;
    // Another format is the same name to the server.
    sql(&server, "XA COMMIT 'both', 'of', 8")?;
    let rows = "SELECT * FROM test.m ORDER BY id; SELECT * FROM test.i";
    expect("the rows", &sql(&server, rows)?.replace('\n', " "), "1\t10 2\t2 1\t10")?;
    expect("the rows without a key", &sql(&server, "SELECT COUNT(*), SUM(v) FROM test.bare")?, "4\t10")?;
    sql(&server, "DROP TABLE test.m")?;
    decide_many(&server)?;
    output(Command::new("kill").args(["-9", &server.process()?]))?;
    let server = start(dir, &["--log-bin=binlog", "--server-id=1"])?;
    expect("XA RECOVER", &format!("<{}>", sql(&server, "XA RECOVER")?), "<>")?;
    let count = sql(&server, "SELECT COUNT(*), SUM(id % 2) FROM test.many")?;
    expect("the rows of many", &count, &format!("{}\t0", MANY / 2))?;
    temporary(server, dir)
}

/// Prepares what uses a temporary table. The end of its connection does not wait for it, or the
/// server would not stop.
fn temporary(server: Server, dir: &Path) -> Result<(), String> {
    let work = "CREATE TEMPORARY TABLE test.own (id INT PRIMARY KEY) ENGINE=Millpond; SET \
                millpond_lock_wait_timeout = 100000; XA START 'own'; INSERT INTO test.own VALUES (1); INSERT \
                INTO test.other VALUES (9); DROP TEMPORARY TABLE test.own; XA END 'own'; XA PREPARE 'own'";
    sql(&server, work)?;
    server::stop(dir)?;
    let server = start(dir, &["--log-bin=binlog", "--server-id=1"])?;
    sql(&server, "XA COMMIT 'own'")?;
    expect("the row", &sql(&server, "SELECT * FROM test.other")?, "9")?;
    server::stop(dir)
}

fn start(dir: &Path, more: &[&str]) -> Result<Server, String> {
    let mut options = vec!["--innodb-lock-wait-timeout=1", "--lock-wait-timeout=2"];
    options.extend(more);
    server::start(dir, LIFE, &options)
}

/// Checks that the first two are prepared and keep others from their rows and tables.
fn keep_their_locks(server: &Server) -> Result<(), String> {
    let all = sql(server, "XA RECOVER")?;
    expect("XA RECOVER", &all, "7\t4\t2\tbothof")?;
    expect("XA RECOVER", &all, "1\t4\t0\tgone")?;
    if all.lines().count() != MANY as usize + 2 {
        return Err(format!("{} are prepared", all.lines().count()));
    }
    expect("a reader", &sql(server, "SELECT * FROM test.m ORDER BY id")?.replace('\n', " "), "1\t1 2\t2")?;
    for statement in [
        "UPDATE test.m SET v = 3 WHERE id = 2",
        "SELECT * FROM test.m WHERE id = 1 FOR UPDATE",
        "UPDATE test.i SET v = 3 WHERE id = 1",
        "DROP TABLE test.m",
        "RENAME TABLE test.m TO test.n",
        "ALTER TABLE test.m ADD COLUMN w INT, ALGORITHM=COPY",
        "TRUNCATE TABLE test.m",
    ] {
        let why = refused(server, statement)?;
        // The server says it in two ways.
        if !why.contains("Lock timed out") {
            expect(statement, &why, "Lock wait timeout exceeded")?;
        }
    }
    // Others go on.
    sql(server, "INSERT INTO test.m VALUES (3, 3); DELETE FROM test.m WHERE id = 3")?;
    sql(server, "ALTER TABLE test.other FORCE")
        .and_then(|_| expect("CHECK TABLE", &sql(server, "CHECK TABLE test.m")?, "status\tOK"))
}

/// Changes rows of others until the redo log has gone round more than once. What is prepared holds
/// back neither the checkpoint nor purge: the log is reused, and no history stays.
fn others_go_on(server: &Server) -> Result<(), String> {
    let figure = |name: &str| -> Result<u64, String> {
        let metric = format!("SELECT value FROM information_schema.MILLPOND_METRICS WHERE name = '{name}'");
        let value = sql(server, &metric)?;
        value.trim().parse().map_err(|_| format!("{name} is {value:?}"))
    };
    sql(server, &format!("SET GLOBAL millpond_redo_capacity = {REDO_BYTES}"))?;
    let (start, purged) = (figure("current_lsn")?, figure("purge_rows")?);
    sql(
        server,
        "USE test; CREATE TABLE busy (id INT PRIMARY KEY, v VARCHAR(1000), KEY (v(8))) ENGINE=Millpond; \
         INSERT INTO busy SELECT seq, REPEAT('a', 1000) FROM seq_1_to_2000",
    )?;
    let mut round = 0;
    while figure("current_lsn")? < start + 3 * REDO_BYTES {
        round += 1;
        sql(
            server,
            &format!("UPDATE test.busy SET v = REPEAT(CHAR({} USING latin1), 1000)", 97 + round % 26),
        )?;
    }
    sql(server, "DELETE FROM test.busy")?;
    try_until("purge of what others have changed", || Ok(figure("history_transactions")? == 0))?;
    let (checkpoint, purged) = (figure("checkpoint_lsn")?, figure("purge_rows")? - purged);
    if checkpoint < start + REDO_BYTES || purged < 2_000 {
        return Err(format!(
            "from {start} the checkpoint came to {checkpoint}, and purge removed {purged} rows"
        ));
    }
    sql(server, "DROP TABLE test.busy; SET GLOBAL millpond_redo_capacity = DEFAULT").map(drop)
}

/// Prepares many transactions, each in a connection of its own.
fn many(server: &Server, dir: &Path) -> Result<(), String> {
    let lines = (1..=MANY).map(|n| {
        format!(
            "XA START '{n}'; INSERT INTO many VALUES ({n}); XA END '{n}'; XA PREPARE '{n}';\nconnect test;\n"
        )
    });
    run_file(server, dir, &lines.collect::<String>())
}

/// Commits every second one, and rolls the others back.
fn decide_many(server: &Server) -> Result<(), String> {
    let mut all = String::new();
    for n in 1..=MANY {
        let verb = if n % 2 == 0 { "COMMIT" } else { "ROLLBACK" };
        all += &format!("XA {verb} '{n}';");
    }
    sql(server, &all).map(drop)
}

/// Runs statements of a file.
fn run_file(server: &Server, dir: &Path, statements: &str) -> Result<(), String> {
    let script = dir.join("statements.sql");
    write(&script, statements)?;
    let input = std::fs::File::open(&script).map_err(|e| format!("{}: {e}", script.display()))?;
    let mut client = server.client();
    let done = client.arg("test").stdin(input).stdout(Stdio::null()).output();
    let done = done.map_err(|e| format!("cannot start a client: {e}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}
