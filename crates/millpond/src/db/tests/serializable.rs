//! Serializable transactions: what one has read stays unchanged until it ends.
//!
//! Most tests wait for no lock: a lock that is not free is an error at once, and the test counts
//! that as waiting. So one thread can run both transactions. Tests with two threads need no time
//! limits.

use super::*;
use crate::{Cursor, LockWait};
use std::ops::ControlFlow;

const FOREVER: Duration = Duration::from_secs(3600);

fn serial(db: &Db) -> Transaction {
    let options = TxnOptions::new().isolation(Isolation::Serializable).lock_wait(Duration::ZERO);
    db.begin_with(options).unwrap()
}

fn at(db: &Db, isolation: Isolation) -> Transaction {
    db.begin_with(TxnOptions::new().isolation(isolation).lock_wait(Duration::ZERO)).unwrap()
}

fn waits<T: std::fmt::Debug>(result: crate::Result<T>) -> bool {
    match result {
        Err(Error::LockTimeout) => true,
        Ok(_) => false,
        Err(other) => panic!("{other:?}"),
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("k{n:05}").into_bytes()
}

/// Rows of 100 bytes with keys 0, 10, 20 and so on.
fn filled(count: u32) -> (MemDisk, Db, Table) {
    let (disk, db, t) = fresh();
    let mut tx = db.begin().unwrap();
    for n in 0..count {
        tx.insert(&t, &key(n * 10), &[b'v'; 100]).unwrap();
    }
    tx.commit().unwrap();
    (disk, db, t)
}

#[test]
fn a_row_that_was_read_does_not_change() {
    let (_disk, db, t) = filled(3);
    let reader = serial(&db);
    assert!(reader.get(&t, &key(10)).unwrap().is_some());
    for &level in Isolation::ALL {
        let mut writer = at(&db, level);
        assert!(waits(writer.put(&t, &key(10), b"new")) && waits(writer.delete(&t, &key(10))));
        assert!(waits(writer.get_for_update(&t, &key(10))));
        assert!(writer.get(&t, &key(10)).unwrap().is_some(), "plain reads never wait");
        writer.put(&t, &key(20), b"new").unwrap();
        writer.put(&t, &key(15), b"a gap").unwrap();
    }
    reader.commit().unwrap();
    let mut writer = serial(&db);
    writer.put(&t, &key(10), b"new").unwrap();
}

#[test]
fn a_row_that_was_missing_cannot_be_inserted() {
    let (_disk, db, t) = filled(3);
    let mut reader = serial(&db);
    assert!(reader.get(&t, &key(15)).unwrap().is_none());
    assert!(!reader.delete(&t, &key(16)).unwrap());
    assert!(matches!(reader.insert(&t, &key(10), b""), Err(Error::KeyExists)));
    for &level in Isolation::ALL {
        let mut writer = at(&db, level);
        assert!(waits(writer.insert(&t, &key(15), b"")) && waits(writer.put(&t, &key(16), b"")));
        assert!(waits(writer.delete(&t, &key(10))), "the insert has read that the row exists");
        writer.insert(&t, &key(17), b"").unwrap();
    }
}

/// Whatever the length of its value.
#[test]
fn an_insert_that_finds_a_row_waits_for_none_of_its_readers() {
    let (_disk, db, t) = filled(3);
    let reader = serial(&db);
    assert_eq!(reader.range(&t, ..).unwrap().count(), 3);
    for &level in Isolation::ALL {
        for bytes in [10, 20_000] {
            let mut writer = at(&db, level);
            let value = vec![1; bytes];
            assert!(matches!(writer.insert(&t, &key(10), &value), Err(Error::KeyExists)), "{bytes}");
            assert!(waits(writer.insert(&t, &key(11), &value)), "{bytes}");
        }
    }
}

#[test]
fn a_range_locks_its_gaps_and_no_more() {
    let (_disk, db, t) = filled(200); // several leaves
    let reader = serial(&db);
    let (from, to) = (key(55), key(1500));
    let seen = reader.range(&t, &from[..]..&to[..]).unwrap().count();
    assert_eq!(seen, 144);
    for &level in Isolation::ALL {
        let mut writer = at(&db, level);
        for inside in [55, 60, 61, 777, 1490, 1495, 1499] {
            assert!(waits(writer.put(&t, &key(inside), b"")), "{inside} at {level:?}");
        }
        for outside in [0, 54, 1500, 1501, 5000] {
            writer.put(&t, &key(outside), b"").unwrap();
        }
    }
    reader.rollback();
    serial(&db).put(&t, &key(777), b"").unwrap();
}

/// Forward, backward and from both ends: a range locks the rows that it has returned and the gaps
/// between them.
#[test]
fn a_range_locks_what_it_has_read_from_either_end() {
    let (_disk, db, t) = filled(200);
    for (front, back) in [(0, 1), (1, 0), (3, 2), (50, 60), (200, 0), (0, 200)] {
        let reader = serial(&db);
        let mut range = reader.range(&t, ..).unwrap();
        let last_front = range.by_ref().take(front).map(|row| row.unwrap().0).last();
        let first_back = range.by_ref().rev().take(back).map(|row| row.unwrap().0).last();
        let all = front + back == 200;
        assert!(!all || range.next().is_none());
        let mut writer = serial(&db);
        let mut free = 0;
        for n in 0..=2000 {
            let key = key(n);
            let kept = all
                || last_front.as_ref().is_some_and(|last| key <= *last)
                || first_back.as_ref().is_some_and(|first| key >= *first);
            let waited = waits(writer.put(&t, &key, b""));
            assert!(!kept || waited, "{front} from the front, {back} from the back: {n} is free");
            free += u32::from(!waited);
        }
        // A range locks unasked at most as many rows as it has returned, and at most 64.
        let locked = front + back + front.clamp(1, 64) + back.clamp(1, 64);
        assert!(all || free + locked as u32 * 10 >= 2000, "{front} {back}: {free} free");
    }
}

/// Another transaction has a row in the middle. A scan that wants only the rows before it does not
/// meet it, however many rows it reads ahead.
#[test]
fn a_scan_does_not_wait_for_rows_that_nobody_asked_for() {
    let (_disk, db, t) = filled(200);
    let mut writer = serial(&db);
    writer.put(&t, &key(1000), b"new").unwrap();
    for backward in [false, true] {
        let before = if backward { 99 } else { 100 };
        let reader = serial(&db);
        let mut range = reader.range(&t, ..).unwrap();
        let mut next = || if backward { range.next_back() } else { range.next() };
        assert!((0..before).all(|_| next().unwrap().is_ok()), "backward: {backward}");
        assert!(waits(next().unwrap()), "backward: {backward}");
        let mut reader = serial(&db);
        let mut cursor = Cursor::new(&t);
        cursor.expect_rows(200);
        let mut next = || {
            let row = if backward { cursor.prev(&mut reader) } else { cursor.next(&mut reader) };
            row.map(|row| row.is_some())
        };
        assert!((0..before).all(|_| next().unwrap()), "backward: {backward}");
        assert!(waits(next()), "backward: {backward}");
    }
}

/// A statement with LIMIT 5 locks five rows.
#[test]
fn a_cursor_locks_the_first_rows_one_by_one() {
    let (_disk, db, t) = filled(200);
    for (shown, locked) in [(1, 1), (5, 5), (7, 7), (100, 125)] {
        let mut reader = serial(&db);
        let mut cursor = Cursor::new(&t);
        cursor.expect_rows(200);
        for _ in 0..shown {
            cursor.next(&mut reader).unwrap().unwrap();
        }
        let mut writer = serial(&db);
        assert!(waits(writer.put(&t, &key((shown - 1) * 10), b"")), "{shown}");
        writer.put(&t, &key(locked * 10), b"").unwrap();
    }
}

/// A scan of a serializable transaction locks what a range would lock.
#[test]
fn a_scan_locks_what_it_has_shown() {
    let (_disk, db, t) = filled(200);
    let (from, to) = (key(55), key(1500));
    let shown = |tx: &Transaction, limit: usize| {
        let mut rows = 0;
        let result = tx.scan(&t, &from[..]..&to[..], |_, _| {
            rows += 1;
            if rows == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        result.map(|()| rows)
    };
    let reader = serial(&db);
    assert_eq!(shown(&reader, usize::MAX).unwrap(), 144);
    for &level in Isolation::ALL {
        let mut writer = at(&db, level);
        for inside in [55, 60, 61, 777, 1490, 1495, 1499] {
            assert!(waits(writer.put(&t, &key(inside), b"")), "{inside} at {level:?}");
        }
        assert!(waits(writer.delete(&t, &key(700))), "a row goes at {level:?}");
        for outside in [0, 54, 1500, 1501, 5000] {
            writer.put(&t, &key(outside), b"").unwrap();
        }
    }
    reader.rollback();
    // A scan that is broken off keeps the locks of the rows it has shown, and at most as many more.
    let reader = serial(&db);
    assert_eq!(shown(&reader, 10).unwrap(), 10);
    let mut writer = serial(&db);
    assert!(waits(writer.put(&t, &key(55), b"")) && waits(writer.put(&t, &key(145), b"")));
    writer.put(&t, &key(500), b"").unwrap();
    // It waits for the lock of a row. A reader of a snapshot never waits and locks nothing.
    assert!(waits(shown(&serial(&db), usize::MAX)));
    drop((reader, writer));
    let moments = [
        at(&db, Isolation::ReadCommitted),
        at(&db, Isolation::RepeatableRead),
        db.begin_with(TxnOptions::new().isolation(Isolation::Serializable).read_only(true)).unwrap(),
    ];
    let mut writer = serial(&db);
    writer.put(&t, &key(505), b"").unwrap();
    for reader in &moments {
        assert_eq!(shown(reader, usize::MAX).unwrap(), 144);
    }
    writer.put(&t, &key(777), b"").unwrap();
}

#[test]
fn empty_tables_and_empty_leaves_have_gaps_too() {
    let (_disk, db, t) = fresh();
    let reader = serial(&db);
    assert_eq!(rows(&reader, &t).len(), 0);
    assert!(waits(serial(&db).put(&t, b"", b"")) && waits(serial(&db).put(&t, b"z", b"")));
    reader.rollback();
    // Many leaves, then no rows in them: a rollback removes rows but merges no leaf.
    put(&db, &t, &key(0), b"first");
    put(&db, &t, &key(9999), b"last");
    let mut tx = db.begin().unwrap();
    for n in 1..1000 {
        tx.insert(&t, &key(n), &[1; 200]).unwrap();
    }
    tx.rollback();
    purge_and_check(&db);
    for backward in [false, true] {
        let reader = serial(&db);
        let range = reader.range(&t, ..).unwrap();
        let count = if backward { range.rev().count() } else { range.count() };
        assert_eq!(count, 2);
        let mut writer = serial(&db);
        for n in (0..1100).step_by(7) {
            assert!(waits(writer.put(&t, &key(n), b"")), "{n} is free after a scan, backward: {backward}");
        }
    }
}

#[test]
fn a_scan_waits_for_a_locked_row() {
    let (_disk, db, t) = filled(5);
    let mut writer = at(&db, Isolation::ReadCommitted);
    writer.put(&t, &key(25), b"").unwrap();
    assert_eq!(serial(&db).range(&t, ..&key(25)[..]).unwrap().map(Result::unwrap).count(), 3);
    for backward in [false, true] {
        let reader = serial(&db);
        let mut range = reader.range(&t, ..).unwrap();
        let mut rows = Vec::new();
        let error = loop {
            match if backward { range.next_back() } else { range.next() } {
                Some(Ok(row)) => rows.push(row.0),
                Some(Err(error)) => break error,
                None => panic!("the row of another transaction was passed"),
            }
        };
        assert!(matches!(error, Error::LockTimeout));
        let expected: &[u32] = if backward { &[40, 30] } else { &[0, 10, 20] };
        assert!(rows.len() <= expected.len());
    }
    writer.rollback();
    let mut locker = at(&db, Isolation::ReadCommitted);
    locker.get_for_update(&t, &key(20)).unwrap();
    assert!(waits(serial(&db).range(&t, ..).unwrap().collect::<crate::Result<Vec<_>>>()));
    locker.rollback();
    assert_eq!(rows(&serial(&db), &t).len(), 5, "both other transactions have rolled back");
}

#[test]
fn ranges_include_the_transactions_own_changes() {
    let (_disk, db, t) = filled(5);
    let mut tx = serial(&db);
    assert_eq!(rows(&tx, &t).len(), 5);
    tx.put(&t, &key(5), b"new").unwrap();
    tx.delete(&t, &key(10)).unwrap();
    tx.put(&t, &key(20), b"changed").unwrap();
    let seen: Vec<_> = rows(&tx, &t).into_keys().collect();
    assert_eq!(seen, [key(0), key(5), key(20), key(30), key(40)]);
    assert_eq!(text(tx.get(&t, &key(20)).unwrap()), "changed");
    assert_eq!(tx.range(&t, ..).unwrap().rev().count(), 5);
    tx.commit().unwrap();
    purge_and_check(&db);
    assert_eq!(all(&db, "t").len(), 5);
}

/// A change that is rolled back to a savepoint has read whether its key exists. That must stay so.
#[test]
fn what_an_undone_change_has_read_stays_locked() {
    let (_disk, db, t) = filled(3);
    let mut tx = serial(&db);
    let start = tx.savepoint();
    tx.insert(&t, &key(5), b"").unwrap();
    assert!(tx.delete(&t, &key(10)).unwrap());
    tx.rollback_to(&start).unwrap();
    assert!(waits(serial(&db).put(&t, &key(5), b"")) && waits(serial(&db).delete(&t, &key(10))));
    assert!(tx.get(&t, &key(5)).unwrap().is_none() && tx.get(&t, &key(10)).unwrap().is_some());
    tx.commit().unwrap();
    serial(&db).put(&t, &key(5), b"").unwrap();
    // The other levels do not guarantee that.
    let mut tx = at(&db, Isolation::RepeatableRead);
    let start = tx.savepoint();
    tx.insert(&t, &key(5), b"").unwrap();
    tx.rollback_to(&start).unwrap();
    serial(&db).put(&t, &key(5), b"").unwrap();
}

#[test]
fn a_read_only_transaction_locks_nothing() {
    let (_disk, db, t) = filled(5);
    let options = TxnOptions::new().isolation(Isolation::Serializable).read_only(true);
    let reader = db.begin_with(options).unwrap();
    assert_eq!(rows(&reader, &t).len(), 5);
    let mut writer = serial(&db);
    writer.put(&t, &key(10), b"new").unwrap();
    writer.put(&t, &key(15), b"new").unwrap();
    assert_eq!(rows(&reader, &t).len(), 5, "it never waits");
    writer.commit().unwrap();
    assert_eq!(rows(&reader, &t).len(), 5);
    assert_eq!(reader.get(&t, &key(10)).unwrap().unwrap(), [b'v'; 100]);
}

#[test]
fn a_purged_row_stays_locked_in_a_range() {
    let (_disk, db, t) = filled(100);
    let mut tx = db.begin().unwrap();
    for n in 20..80 {
        tx.delete(&t, &key(n * 10)).unwrap();
    }
    let reader = {
        let reader = serial(&db);
        assert!(waits(reader.range(&t, ..).unwrap().collect::<crate::Result<Vec<_>>>()));
        tx.commit().unwrap();
        assert_eq!(rows(&reader, &t).len(), 40);
        reader
    };
    purge_and_check(&db); // removes the delete marks and merges leaves
    let mut writer = serial(&db);
    for n in (195..805).step_by(5) {
        assert!(waits(writer.put(&t, &key(n), b"")), "{n}");
    }
    reader.rollback();
    writer.put(&t, &key(500), b"").unwrap();
}

/// Two transactions have read what the other one wants to change. One gets a deadlock error and the
/// other continues, for any order of steps.
#[test]
fn write_skew_ends_in_a_deadlock_error() {
    let (_disk, db, t) = filled(3);
    for phantom in [false, true] {
        let both_have_read = std::sync::Barrier::new(2);
        let skew = |own: u32| {
            let options = TxnOptions::new().isolation(Isolation::Serializable).lock_wait(FOREVER);
            let mut tx = db.begin_with(options).unwrap();
            let before = rows(&tx, &t).len();
            both_have_read.wait();
            let own = key(own * 10 + u32::from(phantom));
            match tx.put(&t, &own, b"new").and_then(|()| tx.commit()) {
                Ok(_) => true,
                Err(Error::Deadlock) => false,
                Err(other) => panic!("{other:?} after {before} rows"),
            }
        };
        let outcomes: Vec<bool> = std::thread::scope(|scope| {
            let other = scope.spawn(|| skew(1));
            [skew(2), other.join().unwrap()].to_vec()
        });
        assert_eq!(outcomes.iter().filter(|&&done| done).count(), 1, "phantom: {phantom}");
    }
    assert_eq!(db.metrics().get("deadlocks"), Some(2.0));
}

#[test]
fn closing_ends_a_wait_for_a_range_lock() {
    let (_disk, db, t) = filled(3);
    let reader = serial(&db);
    assert_eq!(rows(&reader, &t).len(), 3);
    let waiter = std::thread::spawn({
        let (db, t) = (db.clone(), t.clone());
        move || {
            let mut tx = db.begin_with(TxnOptions::new().lock_wait(FOREVER)).unwrap();
            tx.put(&t, &key(1), b"")
        }
    });
    while db.metrics().get("lock_waits") == Some(0.0) {
        std::thread::yield_now();
    }
    db.close().unwrap();
    assert!(matches!(waiter.join().unwrap(), Err(Error::Closed)));
}

#[test]
fn a_prepared_transaction_keeps_its_range_locks() {
    let (_disk, db, t) = filled(3);
    let mut tx = serial(&db);
    assert_eq!(tx.range(&t, ..&key(15)[..]).unwrap().count(), 2);
    tx.put(&t, &key(20), b"new").unwrap();
    tx.prepare(b"x").unwrap();
    assert!(waits(serial(&db).put(&t, &key(5), b"")) && waits(serial(&db).get(&t, &key(20))));
    db.commit_prepared(b"x").unwrap();
    serial(&db).put(&t, &key(5), b"").unwrap();
    assert_eq!(text(serial(&db).get(&t, &key(20)).unwrap()), "new");
}

#[test]
fn a_range_can_be_locked_for_update() {
    let (_disk, db, t) = filled(10);
    let mut tx = serial(&db);
    let taken = tx.range_for_update(&t, ..&key(25)[..], LockWait::Wait).unwrap().count();
    assert_eq!(taken, 3);
    assert!(waits(serial(&db).get(&t, &key(10))), "the rows are exclusively locked");
    assert!(waits(serial(&db).put(&t, &key(11), b"")), "the gaps are locked");
    serial(&db).put(&t, &key(26), b"").unwrap();
    tx.put(&t, &key(11), b"mine").unwrap();
}

/// A purged row, as any other, is reported to a read-only transaction only when the commit that
/// changed it is durable (Co10).
#[test]
fn a_read_only_transaction_waits_for_durability_even_of_purged_rows() {
    let (_disk, db, t) = filled(3);
    let mut tx = db.begin_with(TxnOptions::new().durability(Durability::None)).unwrap();
    tx.put(&t, &key(0), b"new").unwrap();
    tx.delete(&t, &key(10)).unwrap();
    let receipt = tx.commit().unwrap();
    db.core.engine.txns.background().step(64).unwrap();
    for &level in Isolation::ALL {
        let reader = db.begin_with(TxnOptions::new().isolation(level).read_only(true)).unwrap();
        assert_eq!(reader.get(&t, &key(10)).unwrap(), None);
        assert_eq!(text(reader.get(&t, &key(0)).unwrap()), "new");
        assert!(db.core.engine.store.log.durable_lsn().0 > receipt.lsn, "{level:?}");
    }
    purge_and_check(&db);
}

/// The figures of `docs/decisions/0070-ranges-instead-of-gaps.md`.
#[test]
#[ignore = "prints figures"]
fn cost_of_a_serializable_scan() {
    const ROWS: u32 = 100_000;
    let disk = MemDisk::default();
    let vfs = Vfs { clock: Vfs::os().clock, ..disk.vfs(1) };
    let mut options = options().redo_capacity_bytes(64 << 20);
    options.tuning.frames = 8192;
    let db = Db::open_on(&vfs, Path::new(DIR), &options).unwrap();
    let t = db.create_table("t").unwrap();
    for from in (0..ROWS).step_by(1000) {
        let mut tx = db.begin_with(TxnOptions::new().durability(Durability::None)).unwrap();
        for n in from..from + 1000 {
            tx.insert(&t, &key(n), &[b'v'; 100]).unwrap();
        }
        tx.commit().unwrap();
    }
    let clock = &vfs.clock;
    let time = |name: &str, scan: &mut dyn FnMut() -> (usize, u64)| {
        let (mut best_us, mut bytes) = (u64::MAX, 0);
        for _ in 0..5 {
            let start_us = clock.now_us();
            let (count, held) = scan();
            best_us = best_us.min(clock.now_us() - start_us);
            assert_eq!(count, ROWS as usize);
            bytes = held;
        }
        println!("{name}: {best_us} us, {bytes} bytes of locks");
    };
    let held = || db.core.engine.txns.locks.bytes();
    time("a snapshot", &mut || {
        let tx = db.begin().unwrap();
        (tx.range(&t, ..).unwrap().count(), held())
    });
    time("a range lock", &mut || {
        let tx = serial(&db);
        (tx.range(&t, ..).unwrap().count(), held())
    });
    time("row locks", &mut || {
        let mut tx = db.begin().unwrap();
        (tx.range_for_share(&t, .., LockWait::Wait).unwrap().count(), held())
    });
}
