//! A real full disk: a memory file system of about a hundred megabytes. Rows are inserted until
//! nothing fits, with a checkpoint now and then. The database closes, opens again on the full disk,
//! deletes rows, drops tables, and has room again.
//!
//! Mounting needs the right to do so. Without it the tests print a note and pass, unless
//! `MILLPOND_FULL_DISK_DIR` names a directory on a small file system that may be filled.
//! `MILLPOND_FULL_DISK_MB` is the size of the mounted disk in MiB (64):
//!
//! ```text
//! MILLPOND_FULL_DISK_MB=110 cargo test --release -p millpond --test full_disk -- \
//!     --nocapture --test-threads=1
//! ```

use millpond::{Db, Error, Options, Table};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory on a small file system. Both are removed with the test, or only the directory if it
/// was given.
struct Disk(PathBuf);

impl Disk {
    fn of(name: &str) -> Option<Disk> {
        if let Some(given) = std::env::var_os("MILLPOND_FULL_DISK_DIR") {
            let dir = PathBuf::from(given).join(format!("millpond-full-{name}-{}", std::process::id()));
            std::fs::create_dir(&dir).unwrap();
            return Some(Disk(dir));
        }
        let mebibytes: u32 =
            std::env::var("MILLPOND_FULL_DISK_MB").map_or(64, |n| n.parse().expect("a number"));
        let dir = std::env::temp_dir().join(format!("millpond-full-{name}-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let size = format!("size={mebibytes}m,mode=700");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&dir).output();
        match done {
            Ok(done) if done.status.success() => Some(Disk(dir)),
            other => {
                std::fs::remove_dir(&dir).unwrap();
                let why = other.map(|done| String::from_utf8_lossy(&done.stderr).trim().to_owned());
                println!("skipped: a file system of its own cannot be mounted here: {why:?}");
                None
            }
        }
    }

    /// Fills the rest of the disk with another program's file.
    fn take_the_rest(&self) -> PathBuf {
        let path = self.0.join("another");
        let mut file = std::fs::File::create(&path).unwrap();
        for piece in [1 << 20, 4096] {
            while std::io::Write::write_all(&mut file, &vec![1; piece]).is_ok() {}
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if std::env::var_os("MILLPOND_FULL_DISK_DIR").is_none() {
            let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const ROW: usize = 1000;

fn options() -> Options {
    Options::new().buffer_pool_bytes(8 << 20).redo_capacity_bytes(16 << 20)
}

fn open(disk: &Disk) -> Db {
    options().open(disk.0.join("db")).unwrap()
}

fn key(n: u64) -> [u8; 8] {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes()
}

/// Inserts rows in one transaction.
fn insert(db: &Db, table: &Table, rows: std::ops::Range<u64>) -> Result<(), Error> {
    let mut tx = db.begin()?;
    for n in rows {
        tx.insert(table, &key(n), &[n as u8; ROW])?;
    }
    tx.commit().map(drop)
}

/// Inserts rows until nothing fits. Returns the number of the next row.
fn fill(db: &Db, table: &Table, from: u64, each: u64, checkpoint_every: u64) -> u64 {
    let mut next = from;
    loop {
        match insert(db, table, next..next + each) {
            Ok(()) => next += each,
            Err(Error::DiskFull { .. }) => return next,
            Err(other) => panic!("after {next} rows: {other}"),
        }
        if (next / each).is_multiple_of(checkpoint_every) {
            match db.checkpoint() {
                Ok(()) | Err(Error::DiskFull { .. }) => {}
                Err(other) => panic!("a checkpoint after {next} rows: {other}"),
            }
        }
    }
}

fn count(db: &Db, table: &Table) -> u64 {
    let tx = db.begin().unwrap();
    tx.range(table, ..)
        .unwrap()
        .map(|row| row.map(|(_, value)| assert_eq!(value.len(), ROW)).unwrap())
        .count() as u64
}

/// Deletes rows in one transaction, and tries again if it is refused in the middle. Returns for
/// each refused try how many deletes it had done: its own undo kept the disk full, and was freed
/// with the try.
fn delete(db: &Db, table: &Table, rows: std::ops::Range<u64>) -> Vec<u64> {
    let mut refused = Vec::new();
    while refused.len() < 1_000 {
        let (mut tx, mut done) = (db.begin().unwrap(), 0);
        match rows.clone().try_for_each(|n| tx.delete(table, &key(n)).map(|_| done += 1)) {
            Ok(()) => {
                tx.commit().unwrap();
                return refused;
            }
            Err(Error::DiskFull { .. }) => refused.push(done),
            Err(other) => panic!("deleting {rows:?}: {other}"),
        }
        tx.rollback();
    }
    panic!("nothing can be deleted");
}

/// Waits until these figures are 0: background work has ended.
fn wait_for_zero(db: &Db, figures: &[&str]) {
    while figures.iter().any(|figure| db.metrics().get(figure) != Some(0.0)) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn names(path: &Path) -> u64 {
    std::fs::read_dir(path).unwrap().count() as u64
}

#[test]
fn a_full_disk_allows_close_open_and_delete() {
    for (round, each, checkpoint_every) in [(0, 10, 100), (1, 100, 7)] {
        let Some(disk) = Disk::of(&format!("story-{round}")) else { return };
        let db = open(&disk);
        let table = db.create_table("t").unwrap();
        let aside = db.create_table("aside").unwrap();
        insert(&db, &aside, 0..5000).unwrap();
        let mut rows = 0;
        for _ in 0..4 {
            rows = fill(&db, &table, rows, each, checkpoint_every);
            db.checkpoint().unwrap();
        }
        assert!(rows > 8_000, "{rows} rows fit");
        // Another program takes the space that was freed.
        let another = (round % 2 == 1).then(|| disk.take_the_rest());
        db.close().unwrap_or_else(|e| panic!("round {round}: closing: {e}"));
        drop((table, aside, db));

        let db = open(&disk);
        let table = db.open_table("t").unwrap();
        assert_eq!(count(&db, &table), rows, "round {round}");
        // Deletes of one row at a time are never refused. Of a hundred at a time few are refused,
        // and none before it has written.
        let (mut deleted, mut refused) = (0, 0);
        while deleted < rows / 2 {
            let each = if deleted < rows / 8 { 1 } else { 100 };
            let done = delete(&db, &table, deleted..deleted + each);
            assert!(done.iter().all(|done| *done > 0), "round {round}: {each} rows from {deleted}: {done:?}");
            refused += done.len() as u64;
            deleted += each;
        }
        assert!(refused * 1_000 <= deleted, "round {round}: {refused} refused, {deleted} deleted");
        db.drop_table("aside").unwrap();
        // The space of deleted rows is free when they are purged, however long that takes.
        wait_for_zero(&db, &["history_transactions", "trees_without_table"]);
        db.checkpoint().unwrap();
        // The first leaf that finds no page to split does not say that the disk is full: which one
        // that is depends on what purge has merged.
        let (mut again, mut next) = (0, rows);
        for _ in 0..10 {
            let refused = fill(&db, &table, next, 10, u64::MAX);
            again += refused - next;
            next = refused + 10;
        }
        println!(
            "round {round}: {rows} rows fit, {deleted} deleted, {refused} refused, {again} more fit, {} segments",
            names(&disk.0.join("db/redo"))
        );
        assert!(again >= 10_000, "round {round}: {again} rows fit after half of {rows} were deleted");
        db.drop_table("t").unwrap();
        drop(another.map(std::fs::remove_file));
        db.close().unwrap();
        let db = open(&disk);
        assert!(db.check().unwrap().is_clean());
    }
}

/// Rows that a transaction shortens, and long values that it replaces.
const SHRUNK: u64 = 3000;
const LONG: u64 = 20;

fn long(n: u64) -> Vec<u8> {
    vec![n as u8; 40_000]
}

/// A transaction shortens rows and replaces long values, and others take the space. Its rollback
/// may find no space. Then no half of it stays, and nothing committed before is lost.
#[test]
fn a_rollback_without_space_on_a_full_disk_loses_nothing() {
    let Some(disk) = Disk::of("rewind") else { return };
    let db = open(&disk);
    let (table, values) = (db.create_table("t").unwrap(), db.create_table("long").unwrap());
    for first in (0..SHRUNK).step_by(100) {
        insert(&db, &table, first..first + 100).unwrap();
    }
    for n in 0..LONG {
        let mut tx = db.begin().unwrap();
        tx.put(&values, &key(n), &long(n)).unwrap();
        tx.commit().unwrap();
    }
    db.checkpoint().unwrap();
    let mut shrinks = db.begin().unwrap();
    shrinks.put(&values, b"its own", b"row").unwrap();
    let before = shrinks.savepoint();
    (0..SHRUNK).for_each(|n| shrinks.put(&table, &key(n), b"short").unwrap());
    (0..LONG).for_each(|n| shrinks.put(&values, &key(n), b"short").unwrap());
    // Until the leaves are full too: other rows may fit where one does not.
    let (mut next, mut refused) = (SHRUNK, 0);
    while refused < 40 {
        match insert(&db, &table, next..next + 1) {
            Ok(()) => refused = 0,
            Err(Error::DiskFull { .. }) => refused += 1,
            Err(other) => panic!("after {next} rows: {other}"),
        }
        next += 1;
    }
    let back = shrinks.rollback_to(&before);
    let (went, ended) = (back.is_ok(), shrinks.commit());
    println!("{next} rows tried; going back: {back:?}; committing: {ended:?}");
    match back {
        Ok(()) => drop(ended.unwrap()),
        Err(error) => {
            assert!(matches!(error, Error::DiskFull { .. }), "{error}");
            assert!(matches!(ended, Err(Error::Aborted)), "a part of it was committed: {ended:?}");
        }
    }
    let right = |db: &Db| {
        let (table, values) = (db.open_table("t").unwrap(), db.open_table("long").unwrap());
        let tx = db.begin().unwrap();
        for n in 0..SHRUNK {
            assert_eq!(tx.get(&table, &key(n)).unwrap().as_deref(), Some(&[n as u8; ROW][..]), "row {n}");
        }
        for n in 0..LONG {
            assert!(tx.get(&values, &key(n)).unwrap() == Some(long(n)), "long value {n}");
        }
        assert_eq!(tx.get(&values, b"its own").unwrap().is_some(), went);
    };
    right(&db);
    // Deleting the other rows gives the rest of the rollback its space.
    for first in (SHRUNK..next).step_by(10) {
        delete(&db, &table, first..next.min(first + 10));
    }
    wait_for_zero(&db, &["aborted_transactions", "history_transactions"]);
    right(&db);
    db.close().unwrap();
    drop((table, values, db));
    let db = open(&disk);
    right(&db);
    let report = db.check().unwrap();
    assert!(report.is_clean(), "{report}");
}
