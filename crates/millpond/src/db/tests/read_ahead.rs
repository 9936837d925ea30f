//! Cold reads, seen from the disk: how many pages are read together.

use super::{DIR, figure, options, rollback};
use crate::error::Error;
use crate::{Cursor, Db, Isolation, LockWait, RowLock, Seek, Table, TxnOptions};
use base::sync::Mutex;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::thread::ThreadId;
use vfs::intercept::Interceptor;
use vfs::mem::MemDisk;
use vfs::{File, ReadOp, Vfs};

/// Three levels: 800 leaves of five rows, four inner pages, a root.
const ROWS: u32 = 4000;
const PER_LEAF: u32 = 5;
const VALUE: usize = 700;

/// What scans of the whole table read, forward and backward. The first two reads are the root and
/// an inner page, then come leaves. A batch ends at the end of the inner page that names its
/// leaves; then the next inner page is read.
const FORWARD: &str = "1 1 1 1 4 8 16 32 64 64 60 1 64 64 64 64 29 1 64 64 64 64 8 1 1";
const BACKWARD: &str = "1 1 1 1 1 4 8 16 32 64 64 64 11 1 64 64 64 64 29 1 64 64 64 58";

/// Counts the pages of each read of the pages file by the thread of the test.
#[derive(Debug)]
struct Reads {
    thread: ThreadId,
    pages: Mutex<Vec<usize>>,
}

impl Reads {
    fn note(&self, path: &Path, count: usize) {
        if path.ends_with("pages") && std::thread::current().id() == self.thread {
            self.pages.lock().push(count);
        }
    }
}

impl Interceptor for Reads {
    fn read(&self, file: &dyn File, path: &Path, op: ReadOp<'_>) -> io::Result<()> {
        self.note(path, 1);
        file.read_at(op.bytes, op.offset)
    }
    fn read_batch(&self, file: &dyn File, path: &Path, ops: &mut [ReadOp<'_>]) -> io::Result<()> {
        self.note(path, ops.len());
        file.read_batch(ops)
    }
}

/// A database that was just opened. Nothing of the table is in memory.
struct Cold {
    reads: Arc<Reads>,
    db: Db,
    table: Table,
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn cold(frames: usize, damage: Option<u32>, read_ahead: bool) -> Cold {
    let disk = MemDisk::default();
    let mut options = options().read_ahead(read_ahead);
    options.tuning.frames = frames;
    let mut plain = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
    let db = Db::open_on(&plain, Path::new(DIR), &options).unwrap();
    let value = |n| {
        let mut value = vec![7; VALUE];
        if damage == Some(n) {
            value[..rollback::MARKER.len()].copy_from_slice(rollback::MARKER);
        }
        value
    };
    db.bulk_load("t", (0..ROWS).map(|n| (key(n), value(n)))).unwrap();
    db.close().unwrap();
    drop(db);
    if damage.is_some() {
        assert_eq!(rollback::damage_pages(&disk, rollback::MARKER), 1);
    }
    let reads = Arc::new(Reads { thread: std::thread::current().id(), pages: Mutex::default() });
    plain = Vfs::intercepted(disk.vfs(1).disk, plain.clock, Arc::clone(&reads) as Arc<dyn Interceptor>);
    let db = Db::open_on(&plain, Path::new(DIR), &options).unwrap();
    let table = db.open_table("t").unwrap();
    reads.pages.lock().clear();
    Cold { reads, db, table }
}

impl Cold {
    /// Returns how many pages each read since the last call had.
    fn reads(&self) -> Vec<usize> {
        std::mem::take(&mut *self.reads.pages.lock())
    }

    /// Compares the number of pages of each read.
    fn check(&self, expected: &str) {
        let reads: Vec<String> = self.reads().iter().map(usize::to_string).collect();
        assert_eq!(reads.join(" "), expected);
    }

    fn scan(&self, from: u32, to: u32) -> u32 {
        let mut count = 0;
        let tx = self.db.begin().unwrap();
        tx.scan(&self.table, &key(from)[..]..&key(to)[..], |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
        count
    }
}

#[test]
fn a_cold_scan_reads_its_leaves_in_batches() {
    let w = cold(4096, None, true);
    assert_eq!(w.scan(0, ROWS), ROWS);
    w.check(FORWARD);
    assert_eq!(figure(&w.db, "pages_read_ahead_unused"), 0);

    // So does a range, which copies rows.
    let w = cold(4096, None, true);
    assert_eq!(w.db.begin().unwrap().range(&w.table, ..).unwrap().map(Result::unwrap).count(), ROWS as usize);
    w.check(FORWARD);

    // And a cursor, which comes to a leaf several times.
    let w = cold(4096, None, true);
    let (mut tx, mut cursor) = (w.db.begin().unwrap(), Cursor::new(&w.table));
    let mut count = 0;
    while cursor.next(&mut tx).unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, ROWS);
    w.check(FORWARD);

    let w = cold(4096, None, false);
    assert_eq!(w.scan(0, ROWS), ROWS);
    assert!(w.reads().iter().all(|pages| *pages == 1), "as asked");
}

#[test]
fn a_cold_backward_scan_reads_its_leaves_in_batches() {
    let w = cold(4096, None, true);
    let tx = w.db.begin().unwrap();
    assert_eq!(tx.range(&w.table, ..).unwrap().rev().map(Result::unwrap).count(), ROWS as usize);
    w.check(BACKWARD);

    let w = cold(4096, None, true);
    let (mut tx, mut cursor) = (w.db.begin().unwrap(), Cursor::new(&w.table));
    let mut count = 0;
    while cursor.prev(&mut tx).unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, ROWS);
    w.check(BACKWARD);
}

#[test]
fn scans_that_lock_read_ahead_too() {
    // The range is locked.
    for back in [false, true] {
        let w = cold(4096, None, true);
        let tx = w.db.begin_with(TxnOptions::new().isolation(Isolation::Serializable)).unwrap();
        let range = tx.range(&w.table, ..).unwrap();
        let count = if back { range.rev().count() } else { range.count() };
        assert_eq!(count, ROWS as usize);
        w.check(if back { BACKWARD } else { FORWARD });
    }
    // Each row is locked.
    for to in [Seek::First, Seek::Last] {
        let w = cold(4096, None, true);
        let (mut tx, mut cursor) = (w.db.begin().unwrap(), Cursor::new(&w.table));
        cursor.set_lock(Some(RowLock::Exclusive), LockWait::Wait);
        let mut count = u32::from(cursor.seek(&mut tx, to).unwrap().is_some());
        while match to {
            Seek::First => cursor.next(&mut tx).unwrap().is_some(),
            _ => cursor.prev(&mut tx).unwrap().is_some(),
        } {
            count += 1;
        }
        assert_eq!(count, ROWS);
        w.check(if to == Seek::First { FORWARD } else { BACKWARD });
    }
}

#[test]
fn a_check_reads_leaves_in_batches() {
    let w = cold(4096, None, true);
    assert!(w.db.check().unwrap().is_clean());
    w.check("1 1 1 2 1 1 4 8 16 32 64 64 60 64 64 64 64 29 64 64 64 64 8 1");
}

#[test]
fn a_scan_of_leaves_in_memory_reads_nothing() {
    let w = cold(4096, None, true);
    w.scan(0, ROWS);
    w.reads();
    assert_eq!(w.scan(0, ROWS), ROWS);
    assert_eq!(w.db.begin().unwrap().range(&w.table, ..).unwrap().rev().count(), ROWS as usize);
    w.check("");
}

#[test]
fn a_scan_of_a_few_rows_reads_nothing_ahead() {
    let w = cold(4096, None, true);
    let tx = w.db.begin().unwrap();
    assert_eq!(tx.range(&w.table, ..).unwrap().take(10).map(Result::unwrap).count(), 10);
    w.check("1 1 1 1");
    assert_eq!(tx.range(&w.table, ..).unwrap().rev().take(10).map(Result::unwrap).count(), 10);
    w.check("1 1 1 1");
    assert_eq!(figure(&w.db, "pages_read_ahead"), 0);
}

/// The range begins and ends in the middle of an inner page.
#[test]
fn nothing_after_the_end_of_a_range_is_read_ahead() {
    let (from, to) = (100 * PER_LEAF, 120 * PER_LEAF);
    let w = cold(4096, None, true);
    assert_eq!(w.scan(from, to), to - from);
    w.check("1 1 1 1 4 8 6");
    let w = cold(4096, None, true);
    let range = (&key(from)[..]..&key(to)[..], w.db.begin().unwrap());
    assert_eq!(range.1.range(&w.table, range.0).unwrap().rev().count() as u32, to - from);
    w.check("1 1 1 1 4 8 6");
}

/// Each page of the path is known only when the page above it is in memory, so a descent cannot
/// read two of them at once. It reads none of them twice.
#[test]
fn a_point_read_submits_one_read_for_each_missing_page_of_its_path() {
    let w = cold(4096, None, true);
    let get = |n| assert!(w.db.begin().unwrap().get(&w.table, &key(n)).unwrap().is_some());
    get(0);
    w.check("1 1 1");
    get(PER_LEAF);
    w.check("1");
    get(PER_LEAF);
    w.check("");
    get(ROWS - 1);
    w.check("1 1");
}

#[test]
fn a_damaged_leaf_that_is_read_ahead_fails_only_the_read_that_comes_to_it() {
    // In the middle of the fifth batch, or of a backward scan's.
    for back in [false, true] {
        let bad = if back { ROWS - 40 * PER_LEAF } else { 40 * PER_LEAF };
        let w = cold(4096, Some(bad), true);
        let tx = w.db.begin().unwrap();
        let read = |count: usize| -> (usize, Option<Error>) {
            let range = tx.range(&w.table, ..).unwrap();
            let rows: Vec<_> =
                if back { range.rev().take(count).collect() } else { range.take(count).collect() };
            (rows.iter().filter(|row| row.is_ok()).count(), rows.into_iter().find_map(Result::err))
        };
        let before = if back { ROWS - bad - PER_LEAF } else { bad } as usize;
        let (rows, error) = read(before);
        assert!(rows == before && error.is_none(), "{rows} rows, {error:?}");
        assert!(figure(&w.db, "pages_read_ahead") > 40, "it read past the damage");
        let (rows, error) = read(usize::MAX);
        assert!(rows == before && matches!(error, Some(Error::Corrupt { .. })), "{rows} rows, {error:?}");
        // The others of the batch are in memory.
        w.reads();
        let beyond = if back { bad - PER_LEAF } else { bad + PER_LEAF };
        assert!(tx.get(&w.table, &key(beyond)).unwrap().is_some());
        w.check("");
        assert!(matches!(tx.get(&w.table, &key(bad)), Err(Error::Corrupt { .. })));
    }
}

/// A scan that ends early has read some leaves for nothing. They are evicted before others, and
/// counted.
#[test]
fn pages_that_were_read_ahead_for_nothing_are_counted_when_they_are_evicted() {
    let w = cold(512, None, true);
    assert_eq!(w.scan(0, 20 * PER_LEAF), 20 * PER_LEAF);
    let tx = w.db.begin().unwrap();
    assert_eq!(tx.range(&w.table, ..).unwrap().take(20 * PER_LEAF as usize).count(), 20 * PER_LEAF as usize);
    assert_eq!(figure(&w.db, "pages_read_ahead_unused"), 0);
    let ahead = figure(&w.db, "pages_read_ahead");
    let taken = tx.range(&w.table, &key(40 * PER_LEAF)[..]..).unwrap().take(3 * PER_LEAF as usize + 1);
    assert_eq!(taken.count(), 3 * PER_LEAF as usize + 1);
    let unused = figure(&w.db, "pages_read_ahead") - ahead - 1;
    assert!(unused > 0);
    // Everything else is read, so all that was read ahead and not used is evicted.
    for _ in 0..3 {
        (0..ROWS).step_by(PER_LEAF as usize).for_each(|n| {
            assert!(
                (40 * PER_LEAF..60 * PER_LEAF).contains(&n) || tx.get(&w.table, &key(n)).unwrap().is_some()
            );
        });
    }
    assert_eq!(figure(&w.db, "pages_read_ahead_unused"), unused);
}
