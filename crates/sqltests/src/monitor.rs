//! What `SHOW ENGINE MILLPOND STATUS` says: InnoDB's sections in InnoDB's order, the lines that
//! programs read, the latest deadlock; and deadlocks in the server's log.

use super::server::{self, Server};
use super::steps::expect;
use super::variants::Head;
use super::{sessions, sql};
use std::path::Path;
use std::time::Duration;

/// A server of a test ends by itself, even if the test is killed.
const LIFE: Duration = Duration::from_secs(1800);

/// Two transactions, each of which has changed the row that the other one wants. The first one
/// closes the cycle, and gives way.
const DEADLOCK: &str = "
a: CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, v INT)
a: INSERT INTO t VALUES (1, 0), (2, 0)
a: BEGIN
a: UPDATE t SET v = 1 WHERE id = 1
b: BEGIN
b: UPDATE t SET v = 2 WHERE id = 2
b& UPDATE t SET v = 3 WHERE id = 1
a: UPDATE t SET v = 4 WHERE id = 2
b.
b: ROLLBACK
";

/// Titles, in order.
const SECTIONS: [&str; 8] = [
    "MILLPOND MONITOR OUTPUT",
    "BACKGROUND THREAD",
    "TRANSACTIONS",
    "FILE I/O",
    "LOG",
    "BUFFER POOL AND MEMORY",
    "ROW OPERATIONS",
    "END OF MILLPOND MONITOR OUTPUT",
];

fn monitor(server: &Server) -> Result<String, String> {
    Ok(sql(server, "SHOW ENGINE MILLPOND STATUS")?.replace("\\n", "\n"))
}

fn deadlock(server: &Server) -> Result<(), String> {
    let script = Path::new("deadlock.sessions");
    let said: Vec<String> = Head::of(script, DEADLOCK)
        .variants()
        .iter()
        .map(|variant| sessions::run(server, DEADLOCK, variant))
        .collect::<Result<_, _>>()?;
    expect("the deadlock", &said.join("\n"), "ERROR 1213")
}

/// Returns the number behind the first words of a line, as programs find it.
fn number(text: &str, words: &str) -> Result<u64, String> {
    let line = text.lines().find_map(|line| line.strip_prefix(words));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|n| n.parse().ok()).ok_or_else(|| format!("no number behind {words:?}: {text}"))
}

/// Checks the sections and the lines that programs read.
fn sections(text: &str) -> Result<(), String> {
    let mut rest = text;
    for title in SECTIONS {
        let at =
            rest.find(title).ok_or_else(|| format!("{title:?} is missing, or not in its place: {text}"))?;
        rest = &rest[at + title.len()..];
    }
    let names = ["Log sequence number", "Log flushed up to", "Pages flushed up to", "Last checkpoint at"];
    let mut lsns = Vec::new();
    for name in names {
        lsns.push(number(text, name)?);
    }
    if !lsns.is_sorted_by(|later, earlier| later >= earlier) || lsns[0] == 0 {
        return Err(format!("{names:?} are {lsns:?}"));
    }
    number(text, "Buffer pool size")?;
    number(text, "Modified db pages")?;
    number(text, "History list length").map(drop)
}

pub(super) fn shown(dir: &Path) -> Result<(), String> {
    const DETECTED: &str = "Transactions deadlock detected";
    let server = server::start(dir, LIFE, &[])?;
    sql(&server, "CREATE DATABASE test")?;
    let text = monitor(&server)?;
    sections(&text)?;
    if text.contains("LATEST DETECTED DEADLOCK") {
        return Err("there was no deadlock yet".into());
    }
    deadlock(&server)?;
    let text = monitor(&server)?;
    sections(&text)?;
    for wanted in [
        "LATEST DETECTED DEADLOCK",
        "localhost root Updating\nUPDATE t SET v = 4 WHERE id = 2\n",
        "localhost root Updating\nUPDATE t SET v = 3 WHERE id = 1\n",
        "(1) HOLDS THE LOCK:\nROW LOCK index PRIMARY of table `test`.`t` trx id",
        "(1) WAITING FOR THIS LOCK TO BE GRANTED:\nROW LOCK index PRIMARY of table `test`.`t` trx id",
        "lock mode X key 0x80000002 waiting",
        "*** WE ROLL BACK TRANSACTION (1)",
        "Number of rows inserted 2, updated 3, deleted 0",
    ] {
        expect("the status", &text, wanted)?;
    }
    let log = || std::fs::read(server.log()).map_err(|e| format!("{}: {e}", server.log().display()));
    if String::from_utf8_lossy(&log()?).contains(DETECTED) {
        return Err("nobody wanted deadlocks in the log".into());
    }
    sql(&server, "SET GLOBAL millpond_print_all_deadlocks = ON")?;
    (0..2).try_for_each(|_| deadlock(&server))?;
    let log = String::from_utf8_lossy(&log()?).into_owned();
    if log.matches(DETECTED).count() != 2 || log.matches("UPDATE t SET v = 3 WHERE id = 1").count() != 2 {
        return Err(format!("the log should have two deadlocks: {log}"));
    }
    server::stop(dir)
}
