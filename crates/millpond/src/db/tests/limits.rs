//! The limits of the format (`docs/limits.md`): the error names the limit, and other work
//! continues.

use super::{DIR, fresh, open, options, rows, try_open};
use crate::db::Db;
use crate::error::Error;
use crate::mvcc::writer::LAST_WRITER;
use base::TxnId;
use std::ops::ControlFlow;
use std::path::Path;
use vfs::Vfs;
use vfs::mem::MemDisk;

/// At the largest size of the pages file an insert fails, and deleted space is used again. (Once
/// the file was grown by 0 pages for ever.)
#[test]
fn the_last_page_is_an_error_and_what_is_deleted_is_used_again() {
    let disk = MemDisk::default();
    let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
    let mut options = options();
    options.tuning.pages_max = 1000;
    let db = Db::open_on(&vfs, Path::new(DIR), &options).unwrap();
    let table = db.create_table("t").unwrap();
    let mut tx = db.begin().unwrap();
    let full = (0..2000u32).find_map(|n| tx.put(&table, &n.to_be_bytes(), &[7; 1500]).err().map(|e| (n, e)));
    let (n, error) = full.unwrap();
    assert!(matches!(&error, Error::Limit { what } if what.contains("pages has 992 pages")), "{error}");
    assert!(n > 800, "{n}");
    // The transaction has lost nothing but this row.
    for gone in 0..n / 2 {
        assert!(tx.delete(&table, &gone.to_be_bytes()).unwrap());
    }
    tx.commit().unwrap();
    // Small tables still find pages in shared extents, until those are full.
    let one_more = |n: u32| db.create_table(&format!("u{n}")).err().map(|error| (n, error));
    let (small, error) = (0..).find_map(one_more).unwrap();
    assert!(matches!(error, Error::Limit { .. }) && small < 32, "{error}, after {small}");
    assert!(db.bulk_load("v", (0..200u32).map(|n| (n.to_be_bytes(), [1; 1500]))).is_err());
    db.close().unwrap();
    let db = Db::open_on(&vfs, Path::new(DIR), &options).unwrap();
    let table = db.open_table("t").unwrap();
    assert_eq!(rows(&db.begin().unwrap(), &table).len() as u32, n - n / 2);
    // Pages freed by purge can be used again at once, in the same table.
    let mut tx = db.begin().unwrap();
    (0..20u32).for_each(|n| tx.put(&table, &n.to_be_bytes(), &[8; 100]).unwrap());
    tx.commit().unwrap();
    assert!(db.check().unwrap().is_clean());
}

#[test]
fn the_last_tree_id_is_an_error() {
    let (_, db, table) = fresh();
    let txns = &db.core.engine.txns;
    txns.trees.raise_ids_above(base::TreeId(u32::MAX - 2));
    db.create_table("last").unwrap();
    let error = db.create_table("one more").unwrap_err();
    assert!(matches!(&error, Error::Limit { what } if what.contains("tables have been made")), "{error}");
    assert!(matches!(db.begin_bulk_load("one more"), Err(Error::Limit { .. })));
    db.rename_table("last", "one more").unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&table, b"key", b"goes on").unwrap();
    tx.commit().unwrap();
}

/// The root has room for 250 epochs since the checkpoint. More openings without a checkpoint must
/// work. (Once the next one was refused.)
#[test]
fn three_hundred_crashes_without_a_checkpoint() {
    let (mut disk, db, _) = fresh();
    let mut before = disk.fork();
    drop(db);
    let quiet = |disk: &MemDisk| {
        let mut options = options();
        // No thread cleans or moves the checkpoint.
        options.tuning.no_threads = true;
        let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
        Db::open_on(&vfs, Path::new(DIR), &options)
    };
    for n in 0..300u32 {
        disk = before;
        let db = quiet(&disk).unwrap_or_else(|e| panic!("crash {n}: {e}"));
        let table = db.open_table("t").unwrap();
        let mut tx = db.begin().unwrap();
        tx.put(&table, &n.to_be_bytes(), b"acknowledged").unwrap();
        tx.commit().unwrap();
        before = disk.fork();
    }
    let db = open(&before);
    assert_eq!(rows(&db.begin().unwrap(), &db.open_table("t").unwrap()).len(), 300);
    assert!(db.check().unwrap().is_clean());
    drop(db);
    try_open(&before).unwrap();
}

/// Locks have a memory budget. (Five million rows locked for update once took more than a
/// gigabyte.)
#[test]
fn locks_may_take_half_of_the_history_memory() {
    let disk = MemDisk::default();
    let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
    // The least budget for locks is one mebibyte.
    let db = Db::open_on(&vfs, Path::new(DIR), &options().history_memory_bytes(1 << 20)).unwrap();
    let table = db.create_table("t").unwrap();
    let taken = || db.core.engine.txns.locks.bytes();
    let key = |n: u32| n.to_be_bytes();
    let is_full = |error: Error| match error {
        Error::Limit { what } => assert!(what.contains("lock_memory_bytes"), "{what}"),
        other => panic!("{other}"),
    };
    let mut tx = db.begin().unwrap();
    let lock = |tx: &mut crate::Transaction, n| tx.get_for_update(&table, &key(n)).map(drop);
    let (n, error) = (0..100_000).find_map(|n| lock(&mut tx, n).err().map(|e| (n, e))).unwrap();
    is_full(error);
    assert!((2_000..20_000).contains(&n) && taken() < 1_300_000, "{n} locks take {} bytes", taken());
    // Others can write, and so can this transaction, which has lost nothing.
    let mut other = db.begin().unwrap();
    other.put(&table, &key(n + 1), b"new").unwrap();
    is_full(lock(&mut other, n + 2).unwrap_err());
    other.commit().unwrap();
    tx.put(&table, &key(0), b"new").unwrap();
    tx.commit().unwrap();
    assert_eq!(taken(), 0);
    // Range locks count too. So do the locks that a serializable rollback to a savepoint must keep:
    // it fails as a whole.
    let serial =
        || db.begin_with(crate::TxnOptions::new().isolation(crate::Isolation::Serializable)).unwrap();
    let tx = serial();
    let scan =
        |n: u32| tx.scan(&table, &key(2 * n)[..]..&key(2 * n + 1)[..], |_, _| ControlFlow::Continue(()));
    is_full((50..100_000).find_map(|n| scan(n).err()).unwrap());
    assert!(taken() < 1_300_000, "{} bytes", taken());
    tx.rollback();
    let mut tx = serial();
    let savepoint = tx.savepoint();
    (0..20_000).for_each(|n| tx.put(&table, &key(100 + n), b"undone").unwrap());
    is_full(tx.rollback_to(&savepoint).unwrap_err());
    assert!(matches!(tx.commit(), Err(Error::Aborted)));
    assert_eq!((taken(), rows(&db.begin().unwrap(), &table).len()), (0, 2));
    let mut tx = db.begin().unwrap();
    lock(&mut tx, 5).unwrap();
}

/// The default budget allows a million row locks.
#[test]
fn a_million_rows_can_be_locked_by_default() {
    let db = Db::open_in_memory().unwrap();
    let table = db.create_table("t").unwrap();
    let mut tx = db.begin().unwrap();
    for n in 0..1_000_000u32 {
        tx.get_for_update(&table, format!("{n:018}").as_bytes()).unwrap();
    }
    assert_eq!(db.metrics().get("locks_held"), Some(1e6));
    // Others continue; undo and snapshots work as before.
    let mut other = db.begin().unwrap();
    other.put(&table, b"other", b"row").unwrap();
    other.commit().unwrap();
    tx.commit().unwrap();
    assert_eq!(db.core.engine.txns.locks.bytes(), 0);
}

/// A transaction remembers each rollback to a savepoint. The number is limited.
#[test]
fn a_million_rollbacks_to_savepoints_are_allowed() {
    let (_, db, table) = fresh();
    let mut tx = db.begin().unwrap();
    tx.put(&table, b"a", b"1").unwrap();
    let first = tx.savepoint();
    tx.put(&table, b"b", b"2").unwrap();
    {
        // As a million calls would do, in less time.
        let stream = tx.txn().stream().unwrap();
        while stream.can_rewind(stream.position()) {
            let position = stream.position();
            stream.append(crate::undo::UndoEntry::Rewind { end: position.end, last: position.last });
        }
        let memory = db.metrics().get("undo_bytes").unwrap();
        assert!((16e6..80e6).contains(&memory), "{memory}");
    }
    let last = tx.savepoint();
    tx.put(&table, b"c", b"3").unwrap();
    let error = tx.rollback_to(&last).unwrap_err();
    assert!(
        matches!(&error, Error::Limit { what } if what.contains("rolled back to a savepoint")),
        "{error}"
    );
    // Nothing was changed. A rollback to an earlier savepoint still works, because it replaces the
    // later ones.
    assert_eq!(tx.get(&table, b"c").unwrap().as_deref(), Some(&b"3"[..]));
    tx.rollback_to(&first).unwrap();
    let after = tx.savepoint();
    tx.put(&table, b"d", b"4").unwrap();
    tx.rollback_to(&after).unwrap();
    tx.commit().unwrap();
    assert_eq!(rows(&db.begin().unwrap(), &table).into_keys().collect::<Vec<_>>(), [b"a".to_vec()]);
}

/// Each call accepts the longest key. One byte more is refused without any change.
#[test]
fn the_longest_key_of_each_page_size() {
    for (page_bytes, most) in [(4096, 896), (8192, 1920), (16384, 3500)] {
        let vfs = Vfs { clock: Vfs::os().clock, ..MemDisk::default().vfs(1) };
        let db = Db::open_on(&vfs, Path::new(DIR), &options().page_bytes(page_bytes)).unwrap();
        let table = db.create_table("t").unwrap();
        let (fits, long) = (vec![7; most], vec![7; most + 1]);
        let refused = |result: crate::Result<()>| {
            let named =
                matches!(&result, Err(Error::KeyTooLong { len, max }) if (*len, *max) == (most + 1, most));
            assert!(named, "pages of {page_bytes} bytes: {result:?}");
        };
        let mut tx = db.begin().unwrap();
        refused(tx.insert(&table, &long, b"v"));
        refused(tx.put(&table, &long, b"v"));
        refused(tx.delete(&table, &long).map(drop));
        // So many that inner pages hold such keys too; each value has pages of its own.
        for n in 0..40 {
            let key = [&fits[..most - 1], &[n]].concat();
            tx.insert(&table, &key, &vec![n; page_bytes]).unwrap();
        }
        tx.commit().unwrap();
        let found = rows(&db.begin().unwrap(), &table);
        assert!(found.len() == 40 && found.keys().all(|key| key.len() == most));
        let mut load = db.begin_bulk_load("loaded").unwrap();
        load.push(&fits, b"v").unwrap();
        refused(load.push(&long, b"v"));
        drop(load);
        db.bulk_load("loaded", [(&fits, b"v")]).unwrap();
        assert!(db.check().unwrap().is_clean());
    }
}

/// A transaction that only locks what it reads still gets an id, and those with lower ids go on.
#[test]
fn with_the_last_ids_no_transaction_begins_to_write() {
    let disk = MemDisk::default();
    let db = open(&disk);
    // The table takes an id, too.
    db.core.engine.txns.versions.status().skip_to(TxnId(LAST_WRITER.0 - 2));
    let t = db.create_table("t").unwrap();
    let mut last = db.begin().unwrap();
    last.put(&t, b"a", b"1").unwrap();
    let mut later = db.begin().unwrap();
    assert_eq!(later.get_for_update(&t, b"b").unwrap(), None);
    let error = later.put(&t, b"b", b"2").unwrap_err();
    assert!(matches!(&error, Error::Limit { what } if what.contains("ids")), "{error}");
    last.put(&t, b"c", b"3").unwrap();
    last.commit().unwrap();
    later.commit().unwrap();
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(super::all(&db, "t").len(), 2);
    let t = db.open_table("t").unwrap();
    assert!(matches!(db.begin().unwrap().put(&t, b"d", b"4"), Err(Error::Limit { .. })));
}
