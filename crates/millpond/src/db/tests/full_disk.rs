//! Full disks of many sizes. On each, a database fills the disk, rolls back, takes checkpoints,
//! closes, opens again on the full disk, deletes rows, drops tables, and has room again.

use super::rollback::{until, vfs_of};
use super::*;
use metrics::M;
use std::path::PathBuf;

/// Returns the value of a call, or the file that found no space. Any other error fails the test.
fn unless_full<T>(result: crate::Result<T>, context: &dyn Fn() -> String) -> Result<T, PathBuf> {
    match result {
        Ok(value) => Ok(value),
        Err(Error::DiskFull { file }) => Err(file),
        Err(other) => panic!("{}: {other}", context()),
    }
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// A database, the rows that it should have, and the disk.
struct FullDiskRun {
    disk: MemDisk,
    db: Db,
    table: Table,
    rows: Rows,
    seed: u64,
    rng: Prng,
    next: u64,
    refused_calls: u32,
}

impl FullDiskRun {
    fn context(&self) -> String {
        let segments = self.db.core.engine.store.log.segments().numbers();
        let metrics = self.db.metrics();
        let age = metrics.get("checkpoint_age_bytes");
        let (limit, waiting) = (metrics.get("checkpoint_age_limit"), self.db.core.engine.txns.history_len());
        format!(
            "seed {}: {} of the disk in use, {} rows, segments {segments:?}, age {age:?} of {limit:?}, {waiting} to purge, {} streams",
            self.seed,
            self.disk.used(),
            self.rows.len(),
            self.db.core.engine.txns.versions.streams().len(),
        )
    }

    /// Writes some rows in one transaction, and sometimes rolls it back. Returns false if the disk
    /// was full.
    fn transaction(&mut self, most: u64) -> bool {
        let mut tx = self.db.begin().unwrap();
        let (mut rows, whole) = (self.rows.clone(), self.rng.one_in(4));
        for _ in 0..self.rng.between(1, most) {
            let (key, len) = (key(self.next), self.rng.between(10, 1500) as usize);
            let long = self.rng.one_in(30);
            let value = vec![self.next as u8; if long { 30 * len } else { len }];
            self.next += 1;
            if unless_full(tx.put(&self.table, &key, &value), &|| self.context()).is_err() {
                self.refused_calls += 1;
                tx.rollback();
                return false;
            }
            rows.insert(key.to_vec(), value);
        }
        if whole {
            tx.rollback();
        } else {
            tx.commit().unwrap_or_else(|e| panic!("{}: commit: {e}", self.context()));
            self.rows = rows;
        }
        true
    }

    fn checkpoint(&self) {
        drop(unless_full(self.db.checkpoint(), &|| self.context()));
    }

    /// Closes and opens on the same disk. If closing finds no space to harden undo, the next
    /// opening recovers.
    fn reopen(&mut self) {
        drop(unless_full(self.db.close(), &|| self.context()));
        self.db = try_open(&self.disk).unwrap_or_else(|e| panic!("{}: opening: {e}", self.context()));
        self.table = self.db.open_table("t").unwrap();
        self.check();
    }

    fn check(&self) {
        assert!(all(&self.db, "t") == self.rows, "{}: other rows", self.context());
        let report = self.db.check().unwrap();
        assert!(report.is_clean(), "{}: {report}", self.context());
    }

    /// Deletes rows, which must work on a full disk. A transaction that has already written may be
    /// refused, because its own undo has taken the space; it is tried again.
    fn delete(&mut self, share: u64) {
        let keys: Vec<_> = self.rows.keys().cloned().collect();
        let mut refused = 0;
        for keys in keys.chunks(8) {
            if !self.rng.one_in(share) {
                continue;
            }
            loop {
                let mut tx = self.db.begin().unwrap();
                let mut first = true;
                let done = keys.iter().try_for_each(|key| {
                    tx.delete(&self.table, key)?;
                    first = false;
                    Ok(())
                });
                let Err(file) = unless_full(done, &|| self.context()) else {
                    tx.commit().unwrap_or_else(|e| panic!("{}: commit: {e}", self.context()));
                    break;
                };
                refused += 1;
                let hardening = file.parent().is_some_and(|dir| dir.ends_with("undo"));
                assert!(
                    !(first && hardening),
                    "{}: no other transaction uses the space of {file:?}",
                    self.context()
                );
                assert!(refused < 10_000, "{}: nothing can be deleted for {file:?}", self.context());
                tx.rollback();
                std::thread::sleep(Duration::from_millis(1));
            }
            keys.iter().for_each(|key| drop(self.rows.remove(key)));
        }
    }
}

fn run_on_disk_of(bytes: u64, seed: u64) -> Option<u32> {
    let disk = MemDisk::default();
    disk.limit(Some(bytes));
    let db = match try_open(&disk) {
        Ok(db) => db,
        Err(Error::DiskFull { .. }) => {
            // Too small for any database. With room there is one.
            disk.limit(None);
            try_open(&disk).unwrap();
            return None;
        }
        Err(other) => panic!("{bytes} bytes: {other}"),
    };
    let table = unless_full(db.create_table("t"), &|| format!("{bytes} bytes")).ok()?;
    let mut scenario = FullDiskRun {
        disk,
        db,
        table,
        rows: Rows::new(),
        seed,
        rng: Prng::new(seed),
        next: 0,
        refused_calls: 0,
    };
    for round in 0..3 {
        let mut failed = 0;
        for _ in 0..400 {
            failed += u32::from(!scenario.transaction(12));
            if scenario.rng.one_in(20) {
                scenario.checkpoint();
            }
            if failed > 5 {
                break;
            }
        }
        scenario.checkpoint();
        // Another program takes the space that was freed.
        let others = scenario.rng.one_in(2).then(|| scenario.disk.used());
        if let Some(used) = others {
            scenario.disk.limit(Some(used));
        }
        scenario.reopen();
        scenario.delete(if round == 1 { 1 } else { 2 });
        scenario.checkpoint();
        scenario.reopen();
        scenario.disk.limit(Some(bytes));
    }
    scenario.delete(1);
    purge_and_check(&scenario.db);
    // The pages of the deleted rows are free again.
    let free = scenario.db.metrics().get("free_pages").unwrap();
    let pages = scenario.db.core.engine.store.metrics.get(M::FilePages) as f64;
    assert!(free > pages * 0.9 - 64.0, "{}: {free} of {pages} pages are free", scenario.context());
    scenario.db.close().unwrap_or_else(|e| panic!("{}: closing: {e}", scenario.context()));
    Some(scenario.refused_calls)
}

#[test]
fn a_database_works_on_a_disk_of_any_size() {
    let (mut lived, mut refused_calls) = (0, 0);
    let (from, to, step) = (600u64 << 10, 5u64 << 20, 173 << 10);
    let rounds = std::env::var("MILLPOND_FULL_DISKS").map_or(1, |n| n.parse().expect("a number"));
    let first = std::env::var("MILLPOND_FULL_DISK").map_or(0, |n| n.parse().expect("a number"));
    for seed in first..first + rounds {
        for bytes in (from..to).step_by(step) {
            if let Some(refused) = run_on_disk_of(bytes + seed * 4096, seed ^ bytes) {
                (lived, refused_calls) = (lived + 1, refused_calls + refused);
            }
        }
    }
    assert!(lived > 10 && refused_calls > 20, "{lived} lived, {refused_calls} calls found the disk full");
}

/// A snapshot keeps deleted rows from being purged, and hardening their undo uses up the ballast of
/// a full disk. So writers are refused before that, and continue when the snapshot has ended.
fn a_snapshot_on_a_full_disk() {
    let disk = MemDisk::default();
    let db = Db::open_on(&vfs_of(disk.clone()), Path::new(DIR), &options()).unwrap();
    let t = db.create_table("t").unwrap();
    let count = 12_000;
    for first in (0..count).step_by(100) {
        let mut tx = db.begin().unwrap();
        for n in first..first + 100 {
            tx.put(&t, &key(n), &[n as u8; 100]).unwrap();
        }
        tx.commit().unwrap();
    }
    let txns = &db.core.engine.txns;
    until("the end of purge", || txns.history_len() == 0);
    db.checkpoint().unwrap();
    let context = || format!("{} of the disk in use", disk.used());
    let delete = |n| {
        let mut tx = db.begin().unwrap();
        let done = unless_full(tx.delete(&t, &key(n)), &context);
        tx.commit().unwrap();
        done
    };
    disk.limit(Some(disk.used()));
    let reader = db.begin().unwrap();
    assert!(reader.get(&t, &key(0)).unwrap().is_some());
    let mut gone = 0;
    let file = loop {
        match delete(gone) {
            Ok(found) => assert!(found),
            Err(file) => break file,
        }
        gone += 1;
        if gone % 64 == 0 {
            drop(unless_full(db.checkpoint(), &context));
        }
        assert!(gone < count, "the disk is not full");
    };
    assert!(gone > 0 && file.starts_with(Path::new(DIR).join("undo")), "{gone} deletes, then {file:?}");
    assert!(reader.get(&t, &key(0)).unwrap().is_some(), "readers are not delayed");
    drop(reader);
    // Each try waits for room too.
    let tries = if base::sync::simulated_us().is_some() { 30 } else { 1_000 };
    for n in gone..count {
        assert!((0..tries).any(|_| delete(n).is_ok()), "{}: nothing can be deleted", context());
    }
    until("the end of purge", || txns.history_len() == 0);
    db.close().unwrap();
    drop((t, db));
    let db = Db::open_on(&vfs_of(disk.clone()), Path::new(DIR), &options()).unwrap();
    assert!(all(&db, "t").is_empty());
    purge_and_check(&db);
}

#[test]
fn on_a_full_disk_a_snapshot_stops_writers_before_it_stops_the_checkpoint() {
    a_snapshot_on_a_full_disk();
}

/// Rows of which each is replaced by a short one, and then rolled back.
const LONG_ROWS: u64 = 300;

fn long_row(n: u64) -> Vec<u8> {
    if n < LONG_ROWS { vec![n as u8; 700] } else { vec![n as u8; 100] }
}

/// Makes a rollback that needs pages on a full disk. Returns the database, the table and the number
/// of rows; `None` if the disk was not full enough: a root that came while purge had work has spent
/// the ballast, and then others were refused before the leaves were full.
fn rollback_that_finds_no_page(disk: &MemDisk) -> Option<(Db, Table, u64)> {
    let db = Db::open_on(&vfs_of(disk.clone()), Path::new(DIR), &options()).unwrap();
    let t = db.create_table("t").unwrap();
    let count = 12_000;
    for first in (0..count).step_by(100) {
        let mut tx = db.begin().unwrap();
        (first..first + 100).for_each(|n| tx.put(&t, &key(n), &long_row(n)).unwrap());
        tx.commit().unwrap();
    }
    until("the end of purge", || db.core.engine.txns.history_len() == 0);
    let mut shrinks = db.begin().unwrap();
    (0..LONG_ROWS).for_each(|n| shrinks.put(&t, &key(n), b"short").unwrap());
    // Its undo has its file, and others take the space of the long rows, up to the last byte of
    // each leaf.
    db.checkpoint().unwrap();
    disk.limit(Some(disk.used()));
    let (mut next, mut refused) = (count, 0);
    while refused < 8 {
        let mut tx = db.begin().unwrap();
        let len = if refused < 4 { 100 } else { 10 };
        match unless_full(tx.put(&t, &key(next), &vec![1; len]), &|| "filling".into()) {
            Ok(()) => refused = 0,
            Err(_) => refused += 1,
        }
        tx.commit().unwrap();
        next += 1;
    }
    shrinks.rollback();
    let waits = || crate::checkpoint::Unfinished::undo_files(&*db.core.engine.txns).waits;
    until("a rollback that ends or finds no page", || waits() || figure(&db, "aborted_transactions") == 0);
    waits().then_some((db, t, next))
}

/// A rollback waits for pages that others may free, so these are admitted although the ballast is
/// spent. A snapshot keeps purge from making their undo unnecessary. They filled the log up to the
/// hard limit. Then purge had no room in the log either, and nothing could be written any more, not
/// even after the end of the snapshot.
#[test]
fn on_a_full_disk_those_that_free_pages_for_a_rollback_leave_purge_its_room() {
    let made = (0..10).find_map(|_| {
        let disk = MemDisk::default();
        rollback_that_finds_no_page(&disk).map(|made| (disk, made))
    });
    let (disk, (db, t, next)) = made.expect("ten rollbacks found pages");
    let txns = &db.core.engine.txns;
    let context =
        || format!("{} of the disk in use, age {}", disk.used(), figure(&db, "checkpoint_age_bytes"));
    let (long, row) = (LONG_ROWS, long_row);
    let reader = db.begin().unwrap();
    assert!(reader.get(&t, &key(long)).unwrap().is_some());
    let delete = |n| {
        let mut tx = db.begin().unwrap();
        let done = unless_full(tx.delete(&t, &key(n)), &context);
        tx.commit().unwrap();
        done
    };
    let mut gone = long;
    while gone < next && delete(gone).is_ok() {
        gone += 1;
        if gone % 64 == 0 {
            drop(unless_full(db.checkpoint(), &context));
        }
    }
    assert!(gone < next, "{}: the disk is not full", context());
    drop(reader);
    let tries = if base::sync::simulated_us().is_some() { 30 } else { 1_000 };
    for n in gone..next {
        assert!((0..tries).any(|_| delete(n).is_ok()), "{}: nothing can be deleted", context());
    }
    until("the end of the rollback and of purge", || {
        figure(&db, "aborted_transactions") == 0 && txns.history_len() == 0
    });
    assert_eq!(all(&db, "t"), (0..long).map(|n| (key(n).to_vec(), row(n))).collect());
    purge_and_check(&db);
}

/// Makes a prepared transaction whose undo has spent the ballast on a full disk, so that no writer
/// is admitted. `None` if the checkpoint has freed segments of the log, and the ballast was there
/// again: how many segments there are follows from how fast the machine was.
fn prepared_without_ballast() -> Option<(MemDisk, Db, Table)> {
    let (disk, db, t) = fresh();
    for n in 0..100 {
        put(&db, &t, &key(n), &[1; 300]);
    }
    purge_and_check(&db);
    db.checkpoint().unwrap();
    let mut tx = db.begin().unwrap();
    (0..100).for_each(|n| tx.put(&t, &key(n), &[2; 300]).unwrap());
    tx.prepare(b"x").unwrap();
    until("the ballast", || has_ballast(&disk));
    disk.limit(Some(disk.used()));
    db.checkpoint().unwrap();
    let mut refused = None;
    until("admission closes, or the ballast", || {
        let mut other = db.begin().unwrap();
        let done = unless_full(other.put(&t, b"other", b"row"), &|| "a writer beside it".into());
        assert_eq!(other.get(&t, &key(1)).unwrap(), Some(vec![1; 300]));
        refused = done.err();
        refused.is_some() || has_ballast(&disk)
    });
    let file = refused?;
    assert!(file.starts_with(Path::new(DIR).join("undo")), "{file:?}");
    Some((disk, db, t))
}

fn has_ballast(disk: &MemDisk) -> bool {
    disk.vfs(1).disk.list(&Path::new(DIR).join("undo")).unwrap().contains(&"reserve".to_owned())
}

/// A prepared transaction ends only by a decision. On a full disk no new writer is admitted
/// meanwhile; readers are, and the decision needs no admission.
#[test]
fn a_prepared_transaction_on_a_full_disk_can_be_decided() {
    for commits in [true, false] {
        let made = (0..10).find_map(|_| prepared_without_ballast());
        let (disk, db, t) = made.expect("ten checkpoints left the ballast");
        match commits {
            true => db.commit_prepared(b"x").unwrap(),
            false => db.rollback_prepared(b"x").unwrap(),
        }
        until("the ballast again", || has_ballast(&disk));
        until("a writer", || {
            let mut tx = db.begin().unwrap();
            let done = unless_full(tx.put(&t, &key(1), b"row"), &|| "a writer afterwards".into()).is_ok();
            tx.commit().unwrap();
            done
        });
        purge_and_check(&db);
        assert_eq!(all(&db, "t")[&key(2)[..]], [if commits { 2 } else { 1 }; 300]);
    }
}

/// A checkpoint that finds no space closes admission, because the ballast is spent. Purge was
/// refused as well once the database was closing, and waited for the snapshot before. So the undo
/// of rows deleted a moment ago found no space in the last checkpoint.
#[test]
fn purge_continues_while_a_database_closes_on_a_full_disk() {
    const HEADER_BYTES: u64 = 4096;
    let (disk, db, t) = fresh();
    let (rows, gone) = (300, 100);
    for n in 0..rows {
        put(&db, &t, &key(n), &[1; 100]);
    }
    purge_and_check(&db);
    db.checkpoint().unwrap();
    let dir = Path::new(DIR).join("undo");
    until("the ballast", || has_ballast(&disk));
    // Others have taken all but the space for the header of an undo file, and the ballast.
    disk.vfs(1).disk.remove(&dir.join("reserve")).unwrap();
    disk.limit(Some(disk.used() + HEADER_BYTES));
    let reader = db.begin().unwrap();
    assert!(reader.get(&t, &key(0)).unwrap().is_some());
    let mut tx = db.begin().unwrap();
    (0..gone).for_each(|n| assert!(tx.delete(&t, &key(n)).unwrap()));
    tx.commit().unwrap();
    let full = unless_full(db.checkpoint(), &|| "a checkpoint".into()).unwrap_err();
    assert!(full.starts_with(&dir), "{full:?}");
    until("admission closes", || {
        let mut other = db.begin().unwrap();
        unless_full(other.put(&t, b"other", b"row"), &|| "a writer".into()).is_err()
    });
    // Closing ends the snapshot. Only from then on there is something to purge.
    db.close().unwrap();
    drop(reader);
    drop((t, db));
    let db = Db::open_on(&vfs_of(disk), Path::new(DIR), &options()).unwrap();
    assert_eq!(all(&db, "t").len() as u64, rows - gone);
}

#[cfg(feature = "planted")]
#[test]
fn the_planted_use_of_the_whole_ballast_is_found() {
    let failure = failure_of(crate::planted::Bug::BallastRunDown, a_snapshot_on_a_full_disk);
    assert!(!failure.contains("the disk is not full"), "{failure}");
}
