//! A disk of its own that fills up: a memory file system of a hundred megabytes. Rows are inserted until nothing fits any more, with
//! a checkpoint now and then; the database closes, opens again on the same full disk, deletes, drops, and has room again.
//!
//! Mounting needs the right to do so. Without it the tests say so and pass, unless `MILLPOND_FULL_DISK_DIR` names a directory on a small
//! file system that may be filled. `MILLPOND_FULL_DISK_MB` says how large a disk is made (64):
//!
//! ```text
//! MILLPOND_FULL_DISK_MB=110 cargo test --release -p millpond --test full_disk -- --nocapture --test-threads=1
//! ```

use millpond::{Db, Error, Options, Table};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory on a small file system; both go with the test, or the directory alone where it was given.
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

    /// Leaves no room for anybody: another program's file takes what there is.
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

/// One transaction of rows.
fn insert(db: &Db, table: &Table, rows: std::ops::Range<u64>) -> Result<(), Error> {
    let mut tx = db.begin()?;
    for n in rows {
        tx.insert(table, &key(n), &[n as u8; ROW])?;
    }
    tx.commit().map(drop)
}

/// Inserts until nothing fits; how many rows there are then.
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

fn names(path: &Path) -> u64 {
    std::fs::read_dir(path).unwrap().count() as u64
}

#[test]
fn a_database_on_a_full_disk_closes_opens_deletes_and_has_room_again() {
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
        // Whatever has been given back is somebody else's now.
        let another = (round % 2 == 1).then(|| disk.take_the_rest());
        db.close().unwrap_or_else(|e| panic!("round {round}: closing: {e}"));
        drop((table, aside, db));

        let db = open(&disk);
        let table = db.open_table("t").unwrap();
        assert_eq!(count(&db, &table), rows, "round {round}");
        let mut deleted = 0;
        while deleted < rows / 2 {
            let mut tx = db.begin().unwrap();
            for n in deleted..deleted + 100 {
                assert!(
                    tx.delete(&table, &key(n)).unwrap_or_else(|e| panic!("round {round}: delete {n}: {e}"))
                );
            }
            tx.commit().unwrap();
            deleted += 100;
        }
        db.drop_table("aside").unwrap();
        db.checkpoint().unwrap();
        let again = fill(&db, &table, rows, 10, u64::MAX) - rows;
        println!(
            "round {round}: {rows} rows fit, {deleted} deleted, {again} more fit, {} segments",
            names(&disk.0.join("db/redo"))
        );
        assert!(again >= 2000, "round {round}: {again} rows fit after half of {rows} were deleted");
        db.drop_table("t").unwrap();
        drop(another.map(std::fs::remove_file));
        db.close().unwrap();
        let db = open(&disk);
        assert!(db.check().unwrap().is_clean());
    }
}
