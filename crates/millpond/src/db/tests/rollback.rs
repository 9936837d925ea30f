//! Rollback and purge with obstacles: a full disk, a log without room, an unreadable page.

use super::{DIR, all, figure, open, options, purge_and_check, put, rows};
use crate::error::Error;
use crate::{Db, Savepoint, Table, Transaction};
use base::sync::Parker;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vfs::fault::FaultDisk;
use vfs::mem::MemDisk;
use vfs::{Create, Disk, OpenMode, Vfs};

/// How often a condition is tested, every 10 ms: far more than it ever takes.
const PATIENCE: u32 = 6_000;

pub(super) fn pause() {
    Parker::new().park_for(Duration::from_millis(10));
}

pub(super) fn until(what: &str, mut there: impl FnMut() -> bool) {
    for _ in 0..PATIENCE {
        if there() {
            return;
        }
        pause();
    }
    panic!("timed out waiting for: {what}");
}

pub(super) fn key(n: u64, sub: u64) -> Vec<u8> {
    format!("{n:06}-{sub:02}").into_bytes()
}

/// Uses the machine's clock, or the simulated clock in a simulated world.
pub(super) fn vfs_of(disk: impl Disk + 'static) -> Vfs {
    let clock = match base::sync::simulated_us() {
        None => Vfs::os().clock,
        Some(_) => MemDisk::default().vfs(1).clock,
    };
    Vfs { disk: Arc::new(disk), clock }
}

fn with_faults(options: &crate::Options) -> (FaultDisk, Db, Table) {
    let faults = FaultDisk::new(Arc::new(MemDisk::default()));
    let db = Db::open_on(&vfs_of(faults.clone()), Path::new(DIR), options).unwrap();
    let table = db.create_table("t").unwrap();
    (faults, db, table)
}

/// Puts rows between those of `table` until neither the leaves nor the file have space.
fn fill_up(db: &Db, table: &Table) {
    let mut tx = db.begin().unwrap();
    let mut refused = 0;
    for sub in 1..100 {
        for n in 0..200 {
            match tx.put(table, &key(n, sub), &[9; 150]) {
                Ok(()) => refused = 0,
                // One refusal may mean that the cleaner had no time, or that one leaf is full.
                Err(Error::DiskFull { .. }) if refused < 20 => refused += 1,
                Err(Error::DiskFull { .. }) => {
                    tx.commit().unwrap();
                    return;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    panic!("the disk is not full");
}

/// A transaction shortens rows and replaces long values, and others take the space. Then it cannot
/// roll back.
fn blocked_rollback(db: &Db, table: &Table, faults: &FaultDisk) -> (Transaction, Savepoint) {
    for n in 0..200 {
        put(db, table, &key(n, 0), &if n % 10 == 3 { vec![n as u8; 20_000] } else { vec![n as u8; 700] });
    }
    let mut tx = db.begin().unwrap();
    tx.put(table, b"own", b"1").unwrap();
    let savepoint = tx.savepoint();
    for n in 0..200 {
        tx.put(table, &key(n, 0), b"short").unwrap();
    }
    faults.limit_space(DIR, 0);
    fill_up(db, table);
    (tx, savepoint)
}

/// Whether a rollback finds space depends on what made the disk full: the pages of others, or the
/// undo that a checkpoint had to write, and then the pages have room left. So it is tried again.
fn a_rollback_that_fails_in_the_middle() {
    assert!((0..8).any(|_| rollback_fails_in_the_middle()), "each rollback has found space");
}

/// Returns false if the rollback has found space. Then the rows are restored at once.
fn rollback_fails_in_the_middle() -> bool {
    let (faults, db, t) = with_faults(&options());
    let (mut tx, savepoint) = blocked_rollback(&db, &t, &faults);
    // Others see no change of it, now and after the background has finished.
    let right = |db: &Db| {
        let found = all(db, "t");
        for n in 0..200_u64 {
            let value = if n % 10 == 3 { vec![n as u8; 20_000] } else { vec![n as u8; 700] };
            assert!(found[&key(n, 0)] == value, "row {n}");
        }
        assert!(!found.contains_key(&b"own"[..]));
    };
    let failed = tx.rollback_to(&savepoint);
    if failed.is_ok() {
        assert_eq!(tx.get(&t, b"own").unwrap().as_deref(), Some(&b"1"[..]));
        assert!(tx.get(&t, &key(3, 0)).unwrap().is_some_and(|value| value.len() == 20_000));
        tx.rollback();
        right(&db);
        faults.heal();
        purge_and_check(&db);
        db.close().unwrap();
        return false;
    }
    assert!(matches!(failed, Err(Error::DiskFull { .. })), "{failed:?}");
    assert!(matches!(tx.get(&t, b"own"), Err(Error::Aborted)));
    assert!(matches!(tx.put(&t, b"own", b"2"), Err(Error::Aborted)));
    assert!(matches!(tx.rollback_to(&savepoint), Err(Error::Aborted)));
    assert!(matches!(tx.commit(), Err(Error::Aborted)));
    right(&db);
    assert!(figure(&db, "aborted_transactions") == 1 && figure(&db, "transactions_set_aside") == 0);
    faults.heal();
    until("the rollback's end", || figure(&db, "aborted_transactions") == 0);
    right(&db);
    purge_and_check(&db);
    db.close().unwrap();
    true
}

#[test]
fn a_failed_partial_rollback_rolls_back_the_whole_transaction() {
    a_rollback_that_fails_in_the_middle();
}

/// A log of one megabyte. Pages are cleaned only by an explicit checkpoint.
pub(super) fn small_log() -> crate::Options {
    let mut options = options().redo_capacity_bytes(1 << 20).hold_cleaning_until_redo_bytes(1 << 40);
    options.tuning.frames = 2048;
    options.tuning.segment_blocks = 32;
    options
}

/// Inserts rows and takes checkpoints, so the log holds none of them any more.
fn long_rows(db: &Db, t: &Table, count: u64) {
    for first in (0..count).step_by(100) {
        let mut tx = db.begin().unwrap();
        for n in first..first + 100 {
            tx.put(t, &key(n, 0), &[n as u8; 700]).unwrap();
        }
        tx.commit().unwrap();
        db.checkpoint().unwrap();
    }
}

fn has_long_rows(db: &Db, count: u64) -> bool {
    let found = all(db, "t");
    (0..count).all(|n| found[&key(n, 0)] == [n as u8; 700])
}

fn log_fits(db: &Db) {
    let log = &db.core.engine.store.log;
    let files = log.segments().count() * log.segments().block_bytes();
    assert!(files <= 1 << 20, "the log has {files} bytes of files");
    assert!(figure(db, "checkpoint_age_bytes") <= 1 << 20);
}

/// Changing so many rows fills more than half of the log; rolling back fills as much again.
pub(super) const HALF_A_LOG: u64 = 700;

fn a_log_without_room(full_disk: bool) {
    let (faults, db, t) = with_faults(&small_log());
    long_rows(&db, &t, HALF_A_LOG);
    let mut tx = db.begin().unwrap();
    for n in 0..HALF_A_LOG {
        tx.put(&t, &key(n, 0), b"short").unwrap();
    }
    if full_disk {
        faults.limit_space(DIR, 0);
    }
    drop(tx);
    until("the rollback to wait for room, or to end", || {
        log_fits(&db);
        figure(&db, "undo_waits") > 0 || figure(&db, "aborted_transactions") == 0
    });
    assert_eq!(figure(&db, "aborted_transactions"), 1, "it ended without room in the log");
    if full_disk {
        // The checkpoint's list and the undo that is not reverted yet find no space.
        assert!(matches!(db.checkpoint(), Err(Error::DiskFull { .. })));
        pause();
        assert_eq!((figure(&db, "aborted_transactions"), figure(&db, "poisoned")), (1, 0));
        faults.heal();
    }
    until("the rollback's end", || {
        db.checkpoint().unwrap();
        log_fits(&db);
        figure(&db, "aborted_transactions") == 0
    });
    assert_eq!(figure(&db, "poisoned"), 0);
    assert!(has_long_rows(&db, HALF_A_LOG));
    db.close().unwrap();
}

#[test]
fn a_large_rollback_waits_for_room_in_the_log() {
    a_log_without_room(false);
}

#[test]
fn a_large_rollback_on_a_full_disk_waits_for_space() {
    a_log_without_room(true);
}

/// Closing rolls back an open transaction that is larger than the log.
#[test]
fn closing_rolls_back_a_large_transaction_within_the_log_size() {
    let (faults, db, t) = with_faults(&small_log());
    long_rows(&db, &t, 1_500);
    let mut tx = db.begin().unwrap();
    for n in 0..1_500 {
        tx.put(&t, &key(n, 0), b"short").unwrap();
        if n % 300 == 299 {
            db.checkpoint().unwrap();
        }
    }
    db.close().unwrap();
    log_fits(&db);
    drop((tx, t, db));
    let db = Db::open_on(&vfs_of(faults), Path::new(DIR), &options()).unwrap();
    assert_eq!(figure(&db, "aborted_transactions"), 0, "the next open has nothing to revert");
    assert!(has_long_rows(&db, 1_500));
}

/// Flips a bit in every page of the file that holds `marker`. Returns how many.
pub(super) fn damage_pages(disk: &MemDisk, marker: &[u8]) -> u64 {
    let pages = Path::new(DIR).join("pages");
    let mode = OpenMode { create: Create::Never, direct: false, read_only: true };
    let file = disk.open(&pages, mode).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    let mut flipped = 0;
    for (n, page) in bytes.chunks(4096).enumerate() {
        if page.windows(marker.len()).any(|part| part == marker) {
            disk.flip(&pages, n as u64 * 4096 + 100, 1).unwrap();
            flipped += 1;
        }
    }
    flipped
}

/// Reads so much other data that the pool holds nothing of before.
pub(super) fn evict(db: &Db) {
    let others = db.open_table("others").unwrap();
    for _ in 0..3 {
        let tx = db.begin().unwrap();
        for n in 0..800 {
            assert!(tx.get(&others, &key(n, 0)).unwrap().is_some());
        }
    }
}

pub(super) const MARKER: &[u8] = b"here it is";

/// Makes a table whose only leaf will be damaged, one that fills the pool, and one on which work
/// must continue.
pub(super) fn three_tables(db: &Db) -> (Table, Table) {
    let others = db.create_table("others").unwrap();
    let mut tx = db.begin().unwrap();
    for n in 0..800 {
        tx.put(&others, &key(n, 0), &[7; 700]).unwrap();
    }
    tx.commit().unwrap();
    let (bad, good) = (db.create_table("bad").unwrap(), db.create_table("good").unwrap());
    for n in 0..20 {
        put(db, &good, &key(n, 0), b"good");
        put(db, &bad, &key(n, 0), b"bad");
    }
    put(db, &bad, MARKER, b"bad");
    (bad, good)
}

fn unreadable_pages_and_purge() {
    let disk = MemDisk::default();
    let db = Db::open_on(&vfs_of(disk.clone()), Path::new(DIR), &options()).unwrap();
    let (bad, good) = three_tables(&db);
    let reader = db.begin().unwrap();
    assert_eq!(rows(&reader, &good).len(), 20);
    for n in 0..5 {
        let mut tx = db.begin().unwrap();
        tx.delete(&bad, &key(n, 0)).unwrap();
        tx.delete(&good, &key(n, 0)).unwrap();
        tx.commit().unwrap();
    }
    db.checkpoint().unwrap();
    evict(&db);
    assert!(damage_pages(&disk, MARKER) > 0);
    drop(reader);
    until("the purge of the rows that can be read", || {
        figure(&db, "history_transactions") == 0 && figure(&db, "transactions_set_aside") == 5
    });
    // Later transactions.
    for n in 10..20 {
        let mut tx = db.begin().unwrap();
        tx.delete(&good, &key(n, 0)).unwrap();
        tx.commit().unwrap();
    }
    until("the purge of those that come later", || figure(&db, "history_transactions") == 0);
    assert!(figure(&db, "purge_rows") >= 15);
    let report = db.check().unwrap().to_string();
    assert!(report.contains("cannot be purged") && report.contains("pages is damaged"), "{report}");
    // After closing and opening it is still known.
    db.close().unwrap();
    drop((db, bad, good));
    assert!(damage_pages(&disk, MARKER) > 0, "the same bit again: the page is as it was");
    let db = Db::open_on(&vfs_of(disk.clone()), Path::new(DIR), &options()).unwrap();
    purge_and_check(&db);
    assert_eq!((figure(&db, "transactions_set_aside"), all(&db, "bad").len()), (0, 16));
}

#[test]
fn an_unreadable_page_does_not_stop_purge_of_other_pages() {
    unreadable_pages_and_purge();
}

#[test]
fn an_unreadable_page_does_not_stop_reverting_other_transactions() {
    let disk = MemDisk::default();
    let db = open(&disk);
    let (bad, good) = three_tables(&db);
    let mut tx = db.begin().unwrap();
    tx.put(&good, &key(1, 0), b"changed").unwrap();
    tx.put(&bad, &key(1, 0), b"changed").unwrap();
    tx.put(&good, &key(2, 0), &[1; 9_000]).unwrap();
    tx.put(&good, &key(3, 0), b"changed").unwrap();
    db.checkpoint().unwrap();
    evict(&db);
    assert!(damage_pages(&disk, MARKER) > 0);
    drop(tx);
    until("the one that cannot be reverted", || figure(&db, "transactions_set_aside") == 1);
    assert_eq!(figure(&db, "row_reverts"), 3, "its readable rows are reverted");
    for n in 5..10 {
        // Long enough that the rollback goes to the background.
        let mut tx = db.begin().unwrap();
        for round in 0..200_u64 {
            tx.put(&good, &key(n, 0), &[round as u8; 800]).unwrap();
        }
        drop(tx);
    }
    until("the others", || figure(&db, "aborted_transactions") == 1);
    assert!(all(&db, "good").values().all(|value| value == b"good"));
    let tx = db.begin().unwrap();
    assert!(matches!(tx.get(&bad, &key(1, 0)), Err(Error::Corrupt { .. })));
    drop(tx);
    assert!(db.check().unwrap().to_string().contains("cannot be reverted"));
    // When the page is readable again, one of the next tries reverts it, or a transaction that
    // reads the row. The next open reverts the rest.
    assert!(damage_pages(&disk, MARKER) > 0);
    let tx = db.begin().unwrap();
    assert_eq!(
        tx.get(&bad, &key(1, 0)).unwrap().as_deref(),
        Some(&b"bad"[..]),
        "an aborted version stays so"
    );
    drop(tx);
    db.close().unwrap();
    drop((db, bad, good));
    purge_and_check(&open(&disk));
}

/// Eager recovery reverts all transactions before it returns, but does not wait for an unreadable
/// page.
#[test]
fn an_eager_recovery_continues_past_an_unreadable_page() {
    let disk = MemDisk::default();
    let db = Db::open_on(&vfs_of(disk.clone()), Path::new(DIR), &options()).unwrap();
    let (bad, good) = three_tables(&db);
    let mut tx = db.begin().unwrap();
    tx.put(&bad, &key(1, 0), b"changed").unwrap();
    tx.put(&good, &key(1, 0), b"changed").unwrap();
    db.checkpoint().unwrap();
    // Neither redo nor a doublewrite copy can make it readable.
    let others = db.open_table("others").unwrap();
    (0..200).for_each(|n| put(&db, &others, &key(n, 0), b"other"));
    db.checkpoint().unwrap();
    assert!(damage_pages(&disk, MARKER) > 0);
    let image = disk.fork();
    drop(tx);
    let eager = options().eager_recovery(true);
    let db = Db::open_on(&vfs_of(image.clone()), Path::new(DIR), &eager).unwrap();
    assert_eq!(
        ["aborted_transactions", "transactions_set_aside", "row_reverts"].map(|f| figure(&db, f)),
        [1; 3]
    );
    assert!(all(&db, "good").values().all(|value| value == b"good"));
    assert!(damage_pages(&image, MARKER) > 0, "the same bit again: the page is as it was");
    until("the rest of it", || figure(&db, "aborted_transactions") == 0);
    assert!(all(&db, "bad").values().all(|value| value == b"bad"));
    purge_and_check(&db);
}

/// The pages of a long value that never committed are freed in the background.
#[test]
fn a_rolled_back_long_value_is_freed_in_the_background() {
    let (_disk, db, t) = super::fresh();
    let mut tx = db.begin().unwrap();
    tx.put(&t, b"long", &vec![1; 100 * 4096]).unwrap();
    let cost = tx.txn().stream().unwrap().cost();
    assert!(cost > 64 << 10 && tx.txn().stream().unwrap().end() < 1 << 10, "{cost}");
    drop(tx);
    purge_and_check(&db);
}

/// What a transaction remembers of rollbacks to its savepoints counts as undo memory.
#[test]
fn rollbacks_to_savepoints_count_as_memory() {
    let (_disk, db, t) = super::fresh();
    let mut tx = db.begin().unwrap();
    let bytes = || db.core.engine.txns.versions.streams().bytes();
    purge_and_check(&db);
    let empty = bytes();
    let (mut kept, mut points) = (0, Vec::new());
    for n in 0..4_000 {
        points.push(tx.savepoint());
        tx.put(&t, b"k", b"v").unwrap();
        tx.rollback_to(points.last().unwrap()).unwrap();
        if n == 1_999 {
            kept = bytes() - empty;
        }
    }
    let undo = tx.txn().stream().unwrap().end();
    let grown = bytes() - empty;
    assert!(grown > undo + 4_000 * 16 && grown > kept, "{undo} bytes of undo, {grown} counted");
    assert!(grown < undo + 8_192 * 16 + (128 << 10));
    // Every savepoint is still usable.
    tx.rollback_to(&points[17]).unwrap();
    tx.commit().unwrap();
    purge_and_check(&db);
    assert_eq!(bytes(), empty);
}

#[cfg(feature = "planted")]
#[test]
fn each_planted_bug_of_rollback_and_purge_is_found() {
    use super::failure_of;
    use crate::planted::Bug;
    failure_of(Bug::HalfUndoneGoesOn, a_rollback_that_fails_in_the_middle);
    failure_of(Bug::UndoingUnasked, || a_log_without_room(false));
    failure_of(Bug::UndoingUnasked, || a_log_without_room(true));
    failure_of(Bug::StuckAtUnreadable, unreadable_pages_and_purge);
}
