//! Long values: chains of overflow pages, read with few I/Os, and past the pool if they are long
//! for it.

use super::{fresh, open, purge_and_check};
use crate::LockWait::NoWait;
use crate::{Error, Isolation, TxnOptions};
use base::PageNo;
use base::prng::Prng;
use std::path::Path;
use vfs::{Create, OpenMode};

fn random(seed: u64, bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    Prng::new(seed).fill(&mut value);
    value
}

#[test]
fn a_cold_value_takes_few_reads_and_no_frames() {
    let (disk, db, table) = fresh();
    // Every second page of the first extents has another owner, so the long value's pages are
    // scattered there.
    let mut tx = db.begin().unwrap();
    (0..32u32).for_each(|n| tx.put(&table, &n.to_be_bytes(), &random(n.into(), 2000)).unwrap());
    tx.commit().unwrap();
    let mut tx = db.begin().unwrap();
    (0..32u32).step_by(2).for_each(|n| assert!(tx.delete(&table, &n.to_be_bytes()).unwrap()));
    tx.commit().unwrap();
    let long = random(99, 1 << 20);
    let mut tx = db.begin().unwrap();
    tx.put(&table, b"long", &long).unwrap();
    tx.commit().unwrap();
    // Purge reads the pages of the deleted values; it must not do so later, during the counted
    // reads.
    purge_and_check(&db);
    db.close().unwrap();

    let db = open(&disk);
    let table = db.open_table("t").unwrap();
    let figure = |name| db.metrics().get(name).unwrap();
    drop(db.begin().unwrap().get(&table, b"lonf").unwrap());
    let pool = &db.core.engine.store.pool;
    let (reads, pages, free) = (figure("page_reads_io"), figure("pages_read"), pool.free_frames());
    assert!(db.begin().unwrap().get(&table, b"long").unwrap().is_some_and(|found| found == long));
    let pages = figure("pages_read") - pages;
    assert!((262.0..280.0).contains(&pages), "{pages} pages");
    let reads = figure("page_reads_io") - reads;
    assert!(reads <= pages / 8.0, "{reads} reads for {pages} pages");
    assert!(free - pool.free_frames() <= 2, "{} frames", free - pool.free_frames());

    let mut shown = 0;
    let tx = db.begin().unwrap();
    for row in tx.range(&table, ..).unwrap() {
        let (key, value) = row.unwrap();
        shown += 1;
        assert!(key != b"long" || value == long);
    }
    assert_eq!(shown, 17);
}

#[test]
fn a_value_that_fits_the_pool_is_cached() {
    let (disk, db, table) = fresh();
    let value = random(5, 7_000);
    let mut tx = db.begin().unwrap();
    tx.put(&table, b"k", &value).unwrap();
    tx.commit().unwrap();
    db.close().unwrap();
    let db = open(&disk);
    let table = db.open_table("t").unwrap();
    let read = || {
        assert!(db.begin().unwrap().get(&table, b"k").unwrap().is_some_and(|found| found == value));
        db.metrics().get("pages_read").unwrap()
    };
    let before = read();
    assert_eq!(read(), before);
}

/// A damaged page in a long value gives the same error as any other read, with the page's number.
#[test]
fn damage_in_a_long_value_is_named() {
    let (disk, db, table) = fresh();
    let value = random(7, 400_000);
    let mut tx = db.begin().unwrap();
    tx.put(&table, b"k", &value).unwrap();
    tx.commit().unwrap();
    db.close().unwrap();
    let path = Path::new("/db/pages");
    let mode = OpenMode { create: Create::Never, direct: false, read_only: true };
    let file = disk.vfs(1).disk.open(path, mode).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    // Not in the first page, which is read by itself.
    let at = bytes.windows(16).position(|part| part == &value[200_000..200_016]).unwrap();
    disk.flip(path, at as u64, 1).unwrap();
    let db = open(&disk);
    let table = db.open_table("t").unwrap();
    let found = db.begin().unwrap().get(&table, b"k");
    let named = format!("{:?}", PageNo((at / 4096) as u32));
    assert!(
        matches!(&found, Err(Error::Corrupt { what, .. }) if what.contains(&named)),
        "{named}: {found:?}"
    );
}

/// The row is locked before its chain is written. That lock stayed until the end of the
/// transaction, where a short row leaves none.
#[test]
fn a_row_that_a_statement_has_undone_is_free_whatever_its_length() {
    let (_disk, db, table) = fresh();
    let mut tx = db.begin().unwrap();
    tx.put(&table, b"there", b"committed").unwrap();
    tx.put(&table, b"locked", b"committed").unwrap();
    tx.commit().unwrap();
    for &level in Isolation::ALL.iter().filter(|level| !level.locks_reads()) {
        for bytes in [10, 20_000] {
            let value = random(9, bytes);
            let locks = |key: &[u8]| {
                let mut other = db.begin().unwrap();
                !matches!(other.get_for_update_with(&table, key, NoWait), Err(Error::LockTimeout))
            };
            let mut tx = db.begin_with(TxnOptions::new().isolation(level)).unwrap();
            tx.get_for_update(&table, b"locked").unwrap();
            tx.begin_statement().unwrap();
            tx.insert(&table, b"new", &value).unwrap();
            tx.put(&table, b"there", &value).unwrap();
            tx.put(&table, b"locked", &value).unwrap();
            assert!(!locks(b"new") && !locks(b"there") && !locks(b"locked"), "{bytes}");
            tx.rollback_statement().unwrap();
            assert!(locks(b"new") && locks(b"there"), "{level:?}, {bytes} bytes");
            assert!(!locks(b"locked"), "a locking read came first");
            tx.commit().unwrap();
        }
    }
    purge_and_check(&db);
}
