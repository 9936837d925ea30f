//! Rows that came and went after a snapshot: to a transaction with that snapshot there is no such
//! row, before and after, so its locking reads and deletes find none and have no write conflict.

use super::history::HISTORY_BYTES;
use super::*;
use crate::LockWait::Wait;

/// Rows from 0 on that snapshots see.
const OLD: u8 = 20;
/// The number of rows that come and go, from 100 on.
const SHORT: u8 = 60;

/// A database with rows that are older than the snapshots of tests.
fn world() -> (MemDisk, Db, Table) {
    let (disk, db, t) = fresh();
    let mut tx = db.begin().unwrap();
    (0..OLD).for_each(|n| tx.insert(&t, &[n], b"old").unwrap());
    tx.commit().unwrap();
    (disk, db, t)
}

/// Begins a transaction that has its snapshot.
fn early(db: &Db, t: &Table) -> Transaction {
    let tx = db.begin().unwrap();
    assert_eq!(tx.get(t, &[0]).unwrap().as_deref(), Some(&b"old"[..]));
    tx
}

/// Lets two thirds of the rows come, some of them in two steps.
fn come(db: &Db, t: &Table) {
    for n in (100..100 + SHORT).filter(|n| !n.is_multiple_of(3)) {
        put(db, t, &[n], &[n; 100]);
        if n % 3 == 1 {
            put(db, t, &[n], b"changed");
        }
    }
}

/// Lets a row go. Those that have not come do both in one transaction.
fn go(tx: &mut Transaction, t: &Table, n: u8) {
    if n.is_multiple_of(3) {
        tx.insert(t, &[n], b"short").unwrap();
    }
    assert!(tx.delete(t, &[n]).unwrap());
}

fn delete(db: &Db, t: &Table, n: u8) {
    let mut tx = db.begin().unwrap();
    assert!(tx.delete(t, &[n]).unwrap());
    tx.commit().unwrap();
}

/// What transactions find that are older than all that comes and goes, and than the end of the row
/// 2. Each kind of read has its own.
fn find_nothing(t: &Table, early: Vec<Transaction>) {
    let last = 100 + SHORT - 1;
    let mut early = early.into_iter();
    let mut next = || early.next().unwrap();
    let (mut reads, mut scans, mut back, mut changes) = (next(), next(), next(), next());
    let after = &[100][..];
    for n in 100..=last {
        match n % 2 {
            0 => assert!(reads.get_for_update(t, &[n]).unwrap().is_none(), "{n}"),
            _ => assert!(reads.get_for_share(t, &[n]).unwrap().is_none(), "{n}"),
        }
    }
    reads.commit().unwrap();
    assert!(scans.range_for_update(t, after.., Wait).unwrap().next().is_none());
    scans.commit().unwrap();
    assert!(back.range_for_share(t, after.., Wait).unwrap().next_back().is_none());
    back.commit().unwrap();
    for n in 100..=last {
        assert!(!changes.delete(t, &[n]).unwrap(), "{n}");
    }
    changes.put(t, &[OLD], b"goes on").unwrap();
    changes.commit().unwrap();

    // The snapshot sees a row that has been deleted, and both transactions write a row that an
    // insert makes.
    assert!(matches!(next().get_for_update(t, &[2]), Err(Error::WriteConflict)));
    assert!(matches!(next().delete(t, &[2]), Err(Error::WriteConflict)));
    let mut sees_it = next();
    let rows = sees_it.range_for_share(t, .., Wait).unwrap();
    let keys: Vec<_> = rows.map_while(|row| Some(row.ok()?.0[0])).collect();
    assert_eq!(keys, [0, 1]);
    drop(sees_it);
    assert!(matches!(next().insert(t, &[last], b"mine"), Err(Error::WriteConflict)));
    assert!(matches!(next().put(t, &[100], b"mine"), Err(Error::WriteConflict)));
    assert_eq!(early.count(), 0);
}

#[test]
fn a_row_that_came_and_went_after_the_snapshot_is_no_conflict() {
    let (_disk, db, t) = world();
    let transactions = (0..9).map(|_| early(&db, &t)).collect();
    come(&db, &t);
    for n in 100..100 + SHORT {
        let mut tx = db.begin().unwrap();
        go(&mut tx, &t, n);
        tx.commit().unwrap();
    }
    delete(&db, &t, 2);
    find_nothing(&t, transactions);
    purge_and_check(&db);
}

/// The same where the undo that tells so has moved to files: it is read while no leaf is latched.
#[test]
fn undo_in_files_tells_that_a_row_came_and_went() {
    HISTORY_BYTES.set(64 << 10);
    let (_disk, db, t) = world();
    let transactions: Vec<_> = (0..9).map(|_| early(&db, &t)).collect();
    come(&db, &t);
    let mut tx = db.begin().unwrap();
    assert!(tx.delete(&t, &[2]).unwrap());
    (100..100 + SHORT).for_each(|n| go(&mut tx, &t, n));
    // Far more undo than memory has room for; the oldest of it moves first.
    for n in 0..3000_u16 {
        let [high, low] = (n % 1500).to_be_bytes();
        tx.put(&t, &[50, high, low], &vec![n as u8; 60 + usize::from(n) % 90]).unwrap();
    }
    tx.commit().unwrap();
    db.core.engine.txns.history_keeper().step().unwrap();
    let fetched = || figure(&db, "undo_fetches");
    assert_eq!(fetched(), 0);
    assert!(early(&db, &t).get_for_update(&t, &[100]).unwrap().is_none());
    assert_eq!(fetched(), 0, "a later snapshot sees the mark itself");
    find_nothing(&t, transactions);
    assert!(fetched() > 0);
    purge_and_check(&db);
    HISTORY_BYTES.set(0);
}

/// A snapshot that has expired cannot tell any more whether it saw the row.
#[test]
fn an_expired_snapshot_tells_nothing_of_a_deleted_row() {
    let disk = MemDisk::default();
    let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
    let options = options().history_memory_bytes(8 << 10).history_disk_bytes(300 << 10);
    let db = Db::open_on(&vfs, Path::new(DIR), &options).unwrap();
    let t = db.create_table("t").unwrap();
    (0..OLD).for_each(|n| put(&db, &t, &[n], b"old"));
    let mut transactions = [early(&db, &t), early(&db, &t), early(&db, &t)];
    put(&db, &t, &[100], b"came");
    let keeps_the_mark = early(&db, &t);
    delete(&db, &t, 100);
    let mut rounds = 0;
    while figure(&db, "snapshots_too_old") == 0 {
        rounds += 1;
        assert!(rounds < 100_000);
        put(&db, &t, &[OLD + rounds as u8 % 40], &vec![rounds as u8; 300]);
    }
    let [reads, scans, deletes] = &mut transactions;
    let too_old = |error| assert!(matches!(error, Some(Error::SnapshotTooOld)), "{error:?}");
    too_old(reads.get_for_update(&t, &[100]).err());
    let from = &[100][..];
    too_old(scans.range_for_share(&t, from.., Wait).unwrap().next().and_then(Result::err));
    too_old(deletes.delete(&t, &[100]).err());
    drop((transactions, keeps_the_mark));
    purge_and_check(&db);
}
