//! Schedules as text scripts: `T step` on each line, run at each level.

use expect_test::Expect;
use millpond::{Db, Durability, Error, Isolation, LockWait, Options, Result, Table, Transaction, TxnOptions};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

/// A database in its own directory, which is removed at the end.
pub(crate) struct TestDb {
    db: Db,
    dir: PathBuf,
}

impl TestDb {
    pub(crate) fn new(name: &str) -> TestDb {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("hermitage-{name}"));
        let _ = std::fs::remove_dir_all(&dir);
        let options = Options::new().buffer_pool_bytes(8 << 20).redo_capacity_bytes(64 << 20);
        TestDb { db: options.open(&dir).unwrap(), dir }
    }

    /// Makes a table with the rows 1 = 10 and 2 = 20.
    pub(crate) fn table(&self, name: &str) -> Table {
        let table = self.db.create_table(name).unwrap();
        let mut tx = self.db.begin().unwrap();
        tx.insert(&table, b"1", b"10").unwrap();
        tx.insert(&table, b"2", b"20").unwrap();
        tx.commit().unwrap();
        table
    }

    pub(crate) fn begin(&self, isolation: Isolation, wait: Duration) -> Transaction {
        let options = TxnOptions::new().isolation(isolation).durability(Durability::None).lock_wait(wait);
        self.db.begin_with(options).unwrap()
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        let _ = self.db.close();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn number(bytes: &[u8]) -> i64 {
    std::str::from_utf8(bytes).unwrap().parse().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Returns whether a value matches a predicate: `=30`, `%3` (divisible), or `all`.
fn matches(predicate: &str, value: &[u8]) -> bool {
    match predicate.split_at(1) {
        ("=", n) => number(value) == n.parse::<i64>().unwrap(),
        ("%", n) => number(value) % n.parse::<i64>().unwrap() == 0,
        _ => true,
    }
}

fn list(rows: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>, predicate: &str) -> Result<String> {
    let mut out = Vec::new();
    for row in rows {
        let (key, value) = row?;
        if matches(predicate, &value) {
            out.push(format!("{}={}", text(&key), text(&value)));
        }
    }
    Ok(if out.is_empty() { "none".to_owned() } else { out.join(" ") })
}

type Row = (Vec<u8>, Vec<u8>);

/// Returns the rows of a scan in the type of a range's items.
fn scanned(tx: &Transaction, table: &Table) -> Result<Vec<Result<Row>>> {
    let mut rows = Vec::new();
    tx.scan(table, .., |key, value| {
        rows.push(Ok((key.to_vec(), value.to_vec())));
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

/// Runs one step: `get K`, `put K V`, `where P`, `delete-where P`, `add-where P N`.
pub(crate) fn step(tx: &mut Transaction, table: &Table, scans: bool, words: &[&str]) -> Result<String> {
    let key = words[1].as_bytes();
    match words[0] {
        "get" => {
            let value = tx.get(table, key)?;
            return Ok(value.map_or("none".to_owned(), |v| text(&v).to_owned()));
        }
        "put" => tx.put(table, key, words[2].as_bytes())?,
        "where" if scans => return list(scanned(tx, table)?.into_iter(), words[1]),
        "where" => return list(tx.range(table, ..)?, words[1]),
        "delete-where" | "add-where" => {
            let rows: Result<Vec<_>> = tx.range_for_update(table, .., LockWait::Wait)?.collect();
            for (key, value) in rows?.into_iter().filter(|(_, value)| matches(words[1], value)) {
                if words[0] == "delete-where" {
                    tx.delete(table, &key)?;
                } else {
                    let sum = number(&value) + number(words[2].as_bytes());
                    tx.put(table, &key, sum.to_string().as_bytes())?;
                }
            }
        }
        other => panic!("unknown step {other:?}"),
    }
    Ok("done".to_owned())
}

/// Runs a script, with ranges or scans. Returns the result of each step and the rows at the end.
fn run_script(test: &TestDb, table: &Table, level: Isolation, scans: bool, script: &[&str]) -> Vec<String> {
    let mut txns: BTreeMap<&str, Transaction> = BTreeMap::new();
    let mut out = Vec::new();
    for line in script {
        let words: Vec<&str> = line.split(' ').collect();
        let name = words[0];
        let mut tx = txns.remove(name).unwrap_or_else(|| test.begin(level, Duration::ZERO));
        let outcome = match words[1] {
            "commit" => tx.commit().map(|_| "done".to_owned()),
            "abort" => {
                tx.rollback();
                Ok("done".to_owned())
            }
            _ => {
                let outcome = step(&mut tx, table, scans, &words[1..]);
                txns.insert(name, tx);
                outcome
            }
        };
        out.push(match outcome {
            Ok(text) => text,
            Err(Error::LockTimeout) => "waits".to_owned(),
            Err(Error::WriteConflict) => "conflict".to_owned(),
            Err(Error::Aborted) => "rolled back".to_owned(),
            Err(other) => panic!("{line}: {other}"),
        });
    }
    drop(txns);
    let last = test.begin(level, Duration::ZERO);
    out.push(list(last.range(table, ..).unwrap(), "all").unwrap());
    out
}

/// Runs a script at every level and compares: a line for each step, a column for each level.
pub(crate) fn check(name: &str, script: &str, expected: &Expect) {
    let test = TestDb::new(name);
    let script: Vec<&str> = script.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let run = |scans: bool| {
        let table = |level: Isolation| test.table(&format!("{level:?} {scans}"));
        let outcomes = |&level: &Isolation| run_script(&test, &table(level), level, scans, &script);
        Isolation::ALL.iter().map(outcomes).collect::<Vec<_>>()
    };
    let (by_ranges, by_scans) = (run(false), run(true));
    assert_eq!(by_scans, by_ranges, "scans and ranges give different results");
    let mut out = String::new();
    for (at, line) in script.iter().chain(&["in the end"]).enumerate() {
        let columns: Vec<_> = by_ranges.iter().map(|outcomes| format!("{:<19}", outcomes[at])).collect();
        writeln!(out, "{line:<22} | {}", columns.join(" | ").trim_end()).unwrap();
    }
    expected.assert_eq(&out);
}
