//! The ten cases of Hermitage (Martin Kleppmann, <https://github.com/ept/hermitage>), each at every isolation level: which
//! anomalies of Adya's a level lets happen, and how it keeps others out. Each case is told by one thread: a lock that is not
//! free is refused at once, and the step reads `waits`. What waits in truth is tried in threads at the end of the file.
//!
//! | | READ COMMITTED | REPEATABLE READ (snapshot isolation) | SERIALIZABLE |
//! | --- | --- | --- | --- |
//! | G0 dirty write | kept out | kept out | kept out |
//! | G1a aborted read | kept out | kept out | kept out |
//! | G1b intermediate read | kept out | kept out | kept out |
//! | G1c circular information flow | kept out | kept out | kept out |
//! | OTV observed transaction vanishes | kept out | kept out | kept out |
//! | PMP predicate-many-preceders | happens | kept out | kept out |
//! | P4 lost update | happens | kept out | kept out |
//! | G-single read skew | happens | kept out | kept out |
//! | G2-item write skew | happens | happens | kept out |
//! | G2 anti-dependency cycle | happens | happens | kept out |

use expect_test::{Expect, expect};
use millpond::{Db, Durability, Error, Isolation, LockWait, Options, Result, Table, Transaction, TxnOptions};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

const LEVELS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

/// A database in a directory of its own, which goes with it.
struct Place {
    db: Db,
    dir: PathBuf,
}

impl Place {
    fn new(name: &str) -> Place {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("hermitage-{name}"));
        let _ = std::fs::remove_dir_all(&dir);
        let options = Options::new().buffer_pool_bytes(8 << 20).redo_capacity_bytes(64 << 20);
        Place { db: options.open(&dir).unwrap(), dir }
    }

    /// A table with the rows 1 = 10 and 2 = 20.
    fn table(&self, name: &str) -> Table {
        let table = self.db.create_table(name).unwrap();
        let mut tx = self.db.begin().unwrap();
        tx.insert(&table, b"1", b"10").unwrap();
        tx.insert(&table, b"2", b"20").unwrap();
        tx.commit().unwrap();
        table
    }

    fn begin(&self, isolation: Isolation, wait: Duration) -> Transaction {
        let options = TxnOptions::new().isolation(isolation).durability(Durability::None).lock_wait(wait);
        self.db.begin_with(options).unwrap()
    }
}

impl Drop for Place {
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

/// The rows whose value `predicate` names: `=30`, `%3`, or `all`.
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

/// What a scan shows, as a range would yield it.
fn scanned(tx: &Transaction, table: &Table) -> Result<Vec<Result<Row>>> {
    let mut rows = Vec::new();
    tx.scan(table, .., |key, value| {
        rows.push(Ok((key.to_vec(), value.to_vec())));
        ControlFlow::Continue(())
    })?;
    Ok(rows)
}

/// One step of a transaction: `get K`, `put K V`, `where P`, `delete-where P`, `add-where P N`.
fn step(tx: &mut Transaction, table: &Table, scans: bool, words: &[&str]) -> Result<String> {
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
        other => panic!("what is {other:?}"),
    }
    Ok("done".to_owned())
}

/// Tells a story, its conditions read by ranges or by scans; what each step came to, and the rows that are there at the end.
fn tell(place: &Place, table: &Table, isolation: Isolation, scans: bool, script: &[&str]) -> Vec<String> {
    let mut txns: BTreeMap<&str, Transaction> = BTreeMap::new();
    let mut out = Vec::new();
    for line in script {
        let words: Vec<&str> = line.split(' ').collect();
        let name = words[0];
        let mut tx = txns.remove(name).unwrap_or_else(|| place.begin(isolation, Duration::ZERO));
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
    let last = place.begin(isolation, Duration::ZERO);
    out.push(list(last.range(table, ..).unwrap(), "all").unwrap());
    out
}

/// Tells a story at every level and compares, a line a step, a column a level.
fn check(name: &str, script: &str, expected: &Expect) {
    let place = Place::new(name);
    let script: Vec<&str> = script.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let told = |scans: bool| {
        LEVELS.map(|level| tell(&place, &place.table(&format!("{level:?} {scans}")), level, scans, &script))
    };
    let (told, by_scans) = (told(false), told(true));
    assert_eq!(by_scans, told, "a scan tells another story than a range");
    let mut out = String::new();
    for (at, line) in script.iter().chain(&["in the end"]).enumerate() {
        let [rc, rr, serializable] = [0, 1, 2].map(|level| &told[level][at]);
        writeln!(out, "{line:<22} | {rc:<19} | {rr:<19} | {serializable}").unwrap();
    }
    expected.assert_eq(&out);
}

/// Of two writers of the same rows the second waits for the first: their changes do not mix.
#[test]
fn g0_dirty_writes() {
    check(
        "g0",
        "
        T1 put 1 11
        T2 put 1 12
        T1 put 2 21
        T1 commit
        T2 put 1 12
        T2 put 2 22
        T2 commit
        ",
        &expect![[r#"
            T1 put 1 11            | done                | done                | done
            T2 put 1 12            | waits               | waits               | waits
            T1 put 2 21            | done                | done                | done
            T1 commit              | done                | done                | done
            T2 put 1 12            | done                | done                | done
            T2 put 2 22            | done                | done                | done
            T2 commit              | done                | done                | done
            in the end             | 1=12 2=22           | 1=12 2=22           | 1=12 2=22
        "#]],
    );
}

/// Nobody sees what is rolled back later.
#[test]
fn g1a_aborted_reads() {
    check(
        "g1a",
        "
        T1 put 1 101
        T2 where all
        T1 abort
        T2 where all
        T2 commit
        ",
        &expect![[r#"
            T1 put 1 101           | done                | done                | done
            T2 where all           | 1=10 2=20           | 1=10 2=20           | waits
            T1 abort               | done                | done                | done
            T2 where all           | 1=10 2=20           | 1=10 2=20           | 1=10 2=20
            T2 commit              | done                | done                | done
            in the end             | 1=10 2=20           | 1=10 2=20           | 1=10 2=20
        "#]],
    );
}

/// Nobody sees a value that its writer replaces before it commits.
#[test]
fn g1b_intermediate_reads() {
    check(
        "g1b",
        "
        T1 put 1 101
        T2 where all
        T1 put 1 11
        T1 commit
        T2 where all
        T2 commit
        ",
        &expect![[r#"
            T1 put 1 101           | done                | done                | done
            T2 where all           | 1=10 2=20           | 1=10 2=20           | waits
            T1 put 1 11            | done                | done                | done
            T1 commit              | done                | done                | done
            T2 where all           | 1=11 2=20           | 1=10 2=20           | 1=11 2=20
            T2 commit              | done                | done                | done
            in the end             | 1=11 2=20           | 1=11 2=20           | 1=11 2=20
        "#]],
    );
}

/// Of two transactions not each sees the other's change.
#[test]
fn g1c_circular_information_flow() {
    check(
        "g1c",
        "
        T1 put 1 11
        T2 put 2 22
        T1 get 2
        T2 get 1
        T1 commit
        T2 commit
        ",
        &expect![[r#"
            T1 put 1 11            | done                | done                | done
            T2 put 2 22            | done                | done                | done
            T1 get 2               | 20                  | 20                  | waits
            T2 get 1               | 10                  | 10                  | waits
            T1 commit              | done                | done                | done
            T2 commit              | done                | done                | done
            in the end             | 1=11 2=22           | 1=11 2=22           | 1=11 2=22
        "#]],
    );
}

/// Who has seen one change of a transaction sees the others too, until somebody replaces them.
#[test]
fn otv_an_observed_transaction_does_not_vanish() {
    check(
        "otv",
        "
        T1 put 1 11
        T1 put 2 19
        T2 put 1 12
        T1 commit
        T3 get 1
        T2 put 1 12
        T2 put 2 18
        T3 get 2
        T2 commit
        T3 get 2
        T3 get 1
        T3 commit
        ",
        &expect![[r#"
            T1 put 1 11            | done                | done                | done
            T1 put 2 19            | done                | done                | done
            T2 put 1 12            | waits               | waits               | waits
            T1 commit              | done                | done                | done
            T3 get 1               | 11                  | 11                  | 11
            T2 put 1 12            | done                | done                | waits
            T2 put 2 18            | done                | done                | done
            T3 get 2               | 19                  | 19                  | waits
            T2 commit              | done                | done                | done
            T3 get 2               | 18                  | 19                  | 18
            T3 get 1               | 12                  | 11                  | 11
            T3 commit              | done                | done                | done
            in the end             | 1=12 2=18           | 1=12 2=18           | 1=11 2=18
        "#]],
    );
}

/// A condition that was asked twice has one answer, except at READ COMMITTED.
#[test]
fn pmp_predicate_many_preceders() {
    check(
        "pmp",
        "
        T1 where =30
        T2 put 3 30
        T2 commit
        T1 where %3
        T1 commit
        ",
        &expect![[r#"
            T1 where =30           | none                | none                | none
            T2 put 3 30            | done                | done                | waits
            T2 commit              | done                | done                | done
            T1 where %3            | 3=30                | none                | none
            T1 commit              | done                | done                | done
            in the end             | 1=10 2=20 3=30      | 1=10 2=20 3=30      | 1=10 2=20
        "#]],
    );
}

/// The same for a condition that decides what is written.
#[test]
fn pmp_for_a_condition_of_a_write() {
    check(
        "pmp-write",
        "
        T1 add-where all 10
        T2 where =20
        T2 delete-where =20
        T1 commit
        T2 delete-where =20
        T2 where =20
        T2 commit
        ",
        &expect![[r#"
            T1 add-where all 10    | done                | done                | done
            T2 where =20           | 2=20                | 2=20                | waits
            T2 delete-where =20    | waits               | waits               | waits
            T1 commit              | done                | done                | done
            T2 delete-where =20    | done                | conflict            | done
            T2 where =20           | none                | rolled back         | none
            T2 commit              | done                | rolled back         | done
            in the end             | 2=30                | 1=20 2=30           | 2=30
        "#]],
    );
}

/// A change that was worked out from what was read does not overwrite a newer one, except at READ COMMITTED.
#[test]
fn p4_lost_updates() {
    check(
        "p4",
        "
        T1 get 1
        T2 get 1
        T1 put 1 11
        T2 put 1 11
        T1 commit
        T2 put 1 11
        T2 commit
        ",
        &expect![[r#"
            T1 get 1               | 10                  | 10                  | 10
            T2 get 1               | 10                  | 10                  | 10
            T1 put 1 11            | done                | done                | waits
            T2 put 1 11            | waits               | waits               | waits
            T1 commit              | done                | done                | done
            T2 put 1 11            | done                | conflict            | done
            T2 commit              | done                | rolled back         | done
            in the end             | 1=11 2=20           | 1=11 2=20           | 1=11 2=20
        "#]],
    );
}

/// All reads see one state, except at READ COMMITTED.
#[test]
fn g_single_read_skew() {
    check(
        "g-single",
        "
        T1 get 1
        T2 get 1
        T2 get 2
        T2 put 1 12
        T2 put 2 18
        T2 commit
        T1 get 2
        T1 commit
        ",
        &expect![[r#"
            T1 get 1               | 10                  | 10                  | 10
            T2 get 1               | 10                  | 10                  | 10
            T2 get 2               | 20                  | 20                  | 20
            T2 put 1 12            | done                | done                | waits
            T2 put 2 18            | done                | done                | done
            T2 commit              | done                | done                | done
            T1 get 2               | 18                  | 20                  | 18
            T1 commit              | done                | done                | done
            in the end             | 1=12 2=18           | 1=12 2=18           | 1=10 2=18
        "#]],
    );
}

/// The same with conditions.
#[test]
fn g_single_with_conditions() {
    check(
        "g-single-predicate",
        "
        T1 where %5
        T2 add-where =10 2
        T2 commit
        T1 where %3
        T1 commit
        ",
        &expect![[r#"
            T1 where %5            | 1=10 2=20           | 1=10 2=20           | 1=10 2=20
            T2 add-where =10 2     | done                | done                | waits
            T2 commit              | done                | done                | done
            T1 where %3            | 1=12                | none                | none
            T1 commit              | done                | done                | done
            in the end             | 1=12 2=20           | 1=12 2=20           | 1=10 2=20
        "#]],
    );
}

/// The same where the second look is that of a write.
#[test]
fn g_single_with_a_write() {
    check(
        "g-single-write",
        "
        T1 get 1
        T2 where all
        T2 put 1 12
        T2 put 2 18
        T2 commit
        T1 delete-where =20
        T1 where all
        T1 commit
        ",
        &expect![[r#"
            T1 get 1               | 10                  | 10                  | 10
            T2 where all           | 1=10 2=20           | 1=10 2=20           | 1=10 2=20
            T2 put 1 12            | done                | done                | waits
            T2 put 2 18            | done                | done                | done
            T2 commit              | done                | done                | done
            T1 delete-where =20    | done                | conflict            | done
            T1 where all           | 1=12 2=18           | rolled back         | 1=10 2=18
            T1 commit              | done                | rolled back         | done
            in the end             | 1=12 2=18           | 1=12 2=18           | 1=10 2=18
        "#]],
    );
}

/// Two that read the same rows and change different ones: both commit below SERIALIZABLE.
#[test]
fn g2_item_write_skew() {
    check(
        "g2-item",
        "
        T1 get 1
        T1 get 2
        T2 get 1
        T2 get 2
        T1 put 1 11
        T2 put 2 21
        T1 commit
        T2 commit
        ",
        &expect![[r#"
            T1 get 1               | 10                  | 10                  | 10
            T1 get 2               | 20                  | 20                  | 20
            T2 get 1               | 10                  | 10                  | 10
            T2 get 2               | 20                  | 20                  | 20
            T1 put 1 11            | done                | done                | waits
            T2 put 2 21            | done                | done                | waits
            T1 commit              | done                | done                | done
            T2 commit              | done                | done                | done
            in the end             | 1=11 2=21           | 1=11 2=21           | 1=10 2=20
        "#]],
    );
}

/// Two that find no row and add one each: both commit below SERIALIZABLE.
#[test]
fn g2_anti_dependency_cycles() {
    check(
        "g2",
        "
        T1 where %3
        T2 where %3
        T1 put 3 30
        T2 put 4 42
        T1 commit
        T2 commit
        ",
        &expect![[r#"
            T1 where %3            | none                | none                | none
            T2 where %3            | none                | none                | none
            T1 put 3 30            | done                | done                | waits
            T2 put 4 42            | done                | done                | waits
            T1 commit              | done                | done                | done
            T2 commit              | done                | done                | done
            in the end             | 1=10 2=20 3=30 4=42 | 1=10 2=20 3=30 4=42 | 1=10 2=20
        "#]],
    );
}

/// A reader that sees the second of two writers and not the first, who read what the second changed (Fekete, O'Neil and O'Neil, "A Read-Only Transaction Anomaly under Snapshot Isolation", SIGMOD Record 2004).
#[test]
fn g2_of_a_reader_and_two_writers() {
    check(
        "g2-two-edges",
        "
        T1 where all
        T2 add-where =20 5
        T2 commit
        T3 where all
        T3 commit
        T1 put 1 0
        T1 commit
        ",
        &expect![[r#"
            T1 where all           | 1=10 2=20           | 1=10 2=20           | 1=10 2=20
            T2 add-where =20 5     | done                | done                | waits
            T2 commit              | done                | done                | done
            T3 where all           | 1=10 2=25           | 1=10 2=25           | 1=10 2=20
            T3 commit              | done                | done                | done
            T1 put 1 0             | done                | done                | done
            T1 commit              | done                | done                | done
            in the end             | 1=0 2=25            | 1=0 2=25            | 1=0 2=20
        "#]],
    );
}

/// In threads, with locks that are waited for: of two serializable transactions that read what the other changes, one gives way
/// to a deadlock and the other commits. What both see first: one row, two rows, or a condition that no row meets.
#[test]
fn serializable_circles_are_broken_for_one_of_two() {
    let place = Place::new("circles");
    let circles = [
        ("p4", &["get 1"][..], ["put 1 11", "put 1 12"]),
        ("g2-item", &["get 1", "get 2"], ["put 1 11", "put 2 21"]),
        ("g2", &["where %3"], ["put 3 30", "put 4 42"]),
    ];
    for (name, reads, writes) in circles {
        let table = place.table(name);
        for _ in 0..20 {
            let both_have_read = std::sync::Barrier::new(2);
            let run = |write: &str| {
                let mut tx = place.begin(Isolation::Serializable, Duration::from_secs(3600));
                let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
                let go = |tx: &mut Transaction, line: &str| {
                    let words = words(line);
                    step(tx, &table, false, &words.iter().map(String::as_str).collect::<Vec<_>>())
                };
                for line in reads {
                    go(&mut tx, line).unwrap();
                }
                both_have_read.wait();
                match go(&mut tx, write) {
                    Ok(_) => tx.commit().map(|_| true).unwrap(),
                    Err(Error::Deadlock) => false,
                    Err(other) => panic!("{name}: {other}"),
                }
            };
            let done = std::thread::scope(|scope| {
                let other = scope.spawn(|| run(writes[0]));
                [run(writes[1]), other.join().unwrap()]
            });
            assert!(done[0] != done[1], "{name}: {done:?}");
        }
    }
}
