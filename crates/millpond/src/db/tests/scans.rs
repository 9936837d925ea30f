//! A long scan does not evict the pages that others use.

use super::{DIR, options};
use crate::{Db, Table};
use std::ops::ControlFlow;
use std::path::Path;
use vfs::Vfs;
use vfs::mem::MemDisk;

const FRAMES: usize = 512;
/// Few enough rows that reading them is no long scan.
const HOT: usize = 50;
const LARGE: u32 = 5 * 6 * FRAMES as u32;
/// One value that fits into its leaf, and one that has a page of its own.
const VALUES: [usize; 2] = [700, 1000];

fn load(db: &Db, name: &str, rows: u32, value_bytes: usize) -> Table {
    db.bulk_load(name, (0..rows).map(|n| (n.to_be_bytes(), vec![n as u8; value_bytes]))).unwrap()
}

fn pages_read(db: &Db) -> u64 {
    db.metrics().get("pages_read").unwrap() as u64
}

/// Returns how many pages are read for the rows of `hot` after `scan` of a table that is six times
/// as large as the pool.
fn read_again(value_bytes: usize, scan: impl Fn(&Db, &Table)) -> u64 {
    let disk = MemDisk::default();
    let mut options = options();
    options.tuning.frames = FRAMES;
    let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
    let db = Db::open_on(&vfs, Path::new(DIR), &options).unwrap();
    let (hot, large) = (load(&db, "hot", HOT as u32, value_bytes), load(&db, "large", LARGE, value_bytes));
    let some = |table: &Table, rows: usize| {
        let tx = db.begin().unwrap();
        assert_eq!(tx.range(table, ..).unwrap().take(rows).map(Result::unwrap).count(), rows);
    };
    // The pool is full of clean pages. The hot ones were used last.
    db.checkpoint().unwrap();
    some(&large, 5 * 2 * FRAMES);
    // (Twice: while the first hot pages are read, others of them are evicted.)
    some(&hot, HOT);
    some(&hot, HOT);
    let before = pages_read(&db);
    scan(&db, &large);
    assert!(pages_read(&db) - before > 5 * FRAMES as u64, "the table does not fit");
    let before = pages_read(&db);
    some(&hot, HOT);
    pages_read(&db) - before
}

#[test]
fn a_long_scan_does_not_evict_hot_pages() {
    let scan = |db: &Db, table: &Table| {
        db.begin().unwrap().scan(table, .., |_, _| ControlFlow::Continue(())).unwrap();
    };
    for bytes in VALUES {
        assert_eq!(read_again(bytes, scan), 0);
    }
}

#[test]
fn a_long_range_does_not_evict_hot_pages() {
    let forward = |db: &Db, table: &Table| {
        assert!(db.begin().unwrap().range(table, ..).unwrap().all(|row| row.is_ok()));
    };
    for bytes in VALUES {
        assert_eq!(read_again(bytes, forward), 0);
    }
    let backward = |db: &Db, table: &Table| {
        assert!(db.begin().unwrap().range(table, ..).unwrap().rev().all(|row| row.is_ok()));
    };
    for bytes in VALUES {
        assert_eq!(read_again(bytes, backward), 0);
    }
}

/// The control for the tests above: single reads evict the hot pages.
#[test]
fn single_reads_do_evict_hot_pages() {
    let gets = |db: &Db, table: &Table| {
        let tx = db.begin().unwrap();
        (0..LARGE).for_each(|n| assert!(tx.get(table, &n.to_be_bytes()).unwrap().is_some()));
    };
    for bytes in VALUES {
        assert!(read_again(bytes, gets) >= 10);
    }
}
