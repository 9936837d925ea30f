//! Scans that lock what they pass: one range that grows, what it keeps out, what it leaves alone,
//! and what it takes.

use super::*;
use crate::{Cursor, LockWait, RowLock, Seek};

/// More rows than a transaction locks one by one.
const MANY: u32 = 12_000;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// A table with the rows 0, 10, 20 ...
fn filled(rows: u32) -> (Db, Table) {
    let db = Db::open_in_memory().unwrap();
    let rows = (0..rows).map(|n| (key(10 * n), 0u32.to_be_bytes()));
    let table = db.bulk_load("t", rows).unwrap();
    (db, table)
}

/// With gaps, as a statement of SQL at REPEATABLE READ.
fn with_gaps() -> TxnOptions {
    TxnOptions::new().current_reads(true).lock_wait(Duration::ZERO)
}

fn without_gaps() -> TxnOptions {
    TxnOptions::new().isolation(Isolation::ReadCommitted).lock_wait(Duration::ZERO)
}

fn cursor(table: &Table, lock: RowLock) -> Cursor {
    let mut cursor = Cursor::new(table);
    cursor.set_lock(Some(lock), LockWait::Wait);
    cursor
}

/// Reads all rows in order, backward or forward, and returns how many there are.
fn scan(tx: &mut Transaction, table: &Table, lock: RowLock, backward: bool) -> u32 {
    let mut cursor = cursor(table, lock);
    let mut rows = 0;
    let mut found = cursor.seek(tx, if backward { Seek::Last } else { Seek::First }).unwrap().is_some();
    while found {
        rows += 1;
        let next = if backward { cursor.prev(tx) } else { cursor.next(tx) };
        found = next.unwrap().is_some();
    }
    rows
}

fn lock_bytes(db: &Db) -> u64 {
    db.core.engine.txns.locks.bytes()
}

/// A statement that locks millions of rows once failed, because each took 185 bytes.
#[test]
fn a_scan_takes_the_same_lock_memory_however_many_rows_it_locks() {
    let (db, table) = filled(2 * MANY);
    for (lock, backward) in [
        (RowLock::Shared, false),
        (RowLock::Exclusive, false),
        (RowLock::Shared, true),
        (RowLock::Exclusive, true),
    ] {
        let mut tx = db.begin_with(with_gaps()).unwrap();
        assert_eq!(scan(&mut tx, &table, lock, backward), 2 * MANY);
        assert!(lock_bytes(&db) < 1_000, "{} bytes, {lock:?}", lock_bytes(&db));
        tx.rollback();
        // Without gaps the first some thousand rows have locks of their own.
        let mut tx = db.begin_with(without_gaps()).unwrap();
        let mut cursor = cursor(&table, lock);
        let step = |cursor: &mut Cursor, tx: &mut Transaction| match backward {
            false => cursor.next(tx).unwrap().is_some(),
            true => cursor.prev(tx).unwrap().is_some(),
        };
        (0..MANY).for_each(|_| assert!(step(&mut cursor, &mut tx)));
        let half = lock_bytes(&db);
        (0..MANY).for_each(|_| assert!(step(&mut cursor, &mut tx)));
        assert!(lock_bytes(&db) < half + 500, "{half}, then {}", lock_bytes(&db));
        assert!(half < 2_000_000);
        tx.rollback();
        assert_eq!(lock_bytes(&db), 0);
    }
}

/// An INSERT ... SELECT reads under shared locks and writes another table: the rows that it has
/// written need no locks.
#[test]
fn copying_a_table_takes_a_few_hundred_bytes_of_locks() {
    let (db, source) = filled(MANY);
    let target = db.create_table("target").unwrap();
    let mut tx = db.begin_with(with_gaps()).unwrap();
    let mut cursor = cursor(&source, RowLock::Shared);
    let mut found = cursor.seek(&mut tx, Seek::First).unwrap().map(|(key, _)| key.to_vec());
    while let Some(key) = found {
        tx.insert(&target, &key, b"copy").unwrap();
        found = cursor.next(&mut tx).unwrap().map(|(key, _)| key.to_vec());
    }
    assert!(lock_bytes(&db) < 1_000, "{}", lock_bytes(&db));
    let mut other = db.begin_with(with_gaps()).unwrap();
    let last = key(10 * (MANY - 1));
    assert!(matches!(other.put(&source, &last, b"new"), Err(Error::LockTimeout)));
    assert!(other.get_for_share(&source, &last).unwrap().is_some());
    tx.commit().unwrap();
    assert_eq!(db.begin().unwrap().range(&target, ..).unwrap().count(), MANY as usize);
}

#[test]
fn a_scan_for_update_keeps_readers_out_of_its_rows_and_writers_out_of_its_gaps() {
    let (db, table) = filled(500);
    for backward in [false, true] {
        let mut tx = db.begin_with(with_gaps()).unwrap();
        assert_eq!(scan(&mut tx, &table, RowLock::Exclusive, backward), 500);
        let mut other = db.begin_with(with_gaps()).unwrap();
        for n in [0, 7, 133, 499] {
            assert!(matches!(other.get_for_share(&table, &key(10 * n)), Err(Error::LockTimeout)));
            assert!(matches!(other.get_for_update(&table, &key(10 * n)), Err(Error::LockTimeout)));
            assert!(matches!(other.insert(&table, &key(10 * n + 5), b"new"), Err(Error::LockTimeout)));
            // Locks of gaps exclude only inserts.
            assert_eq!(other.get_for_share(&table, &key(10 * n + 5)).unwrap(), None);
            assert!(other.get(&table, &key(10 * n)).unwrap().is_some());
        }
        let skipped = other.range_for_update(&table, .., LockWait::SkipLocked).unwrap();
        assert_eq!(skipped.count(), 0);
        let mut rows = cursor(&table, RowLock::Shared);
        assert!(matches!(rows.seek(&mut other, Seek::First), Err(Error::LockTimeout)));
        // It may change what it has locked.
        tx.put(&table, &key(70), b"own").unwrap();
        tx.insert(&table, &key(76), b"own").unwrap();
        tx.rollback();
        other.insert(&table, &key(5), b"new").unwrap();
        assert!(other.get_for_update(&table, &key(70)).unwrap().is_some());
        other.rollback();
        assert_eq!(lock_bytes(&db), 0);
    }
}

#[test]
fn two_scans_for_share_get_along_and_one_for_update_waits_for_both() {
    let (db, table) = filled(500);
    let scanned = || {
        let mut tx = db.begin_with(with_gaps()).unwrap();
        assert_eq!(scan(&mut tx, &table, RowLock::Shared, false), 500);
        tx
    };
    let (one, mut two) = (scanned(), scanned());
    let mut rows = cursor(&table, RowLock::Exclusive);
    let mut third = db.begin_with(with_gaps()).unwrap();
    assert!(matches!(rows.seek(&mut third, Seek::First), Err(Error::LockTimeout)));
    assert!(matches!(rows.seek(&mut two, Seek::First), Err(Error::LockTimeout)));
    drop(one);
    // Its own shared locks are not in its way.
    assert_eq!(scan(&mut two, &table, RowLock::Exclusive, false), 500);
    assert!(matches!(rows.seek(&mut third, Seek::First), Err(Error::LockTimeout)));
    drop(two);
    assert_eq!(scan(&mut third, &table, RowLock::Exclusive, true), 500);
}

/// Without gaps others insert rows between those that are locked. Such a row is not locked, neither
/// before its transaction ends nor after.
#[test]
fn a_range_of_rows_alone_leaves_new_rows_to_others() {
    let (db, table) = filled(MANY);
    let mut tx = db.begin_with(without_gaps()).unwrap();
    assert_eq!(scan(&mut tx, &table, RowLock::Exclusive, false), MANY);
    for n in [3, MANY - 5] {
        let mut other = db.begin_with(without_gaps()).unwrap();
        assert!(matches!(other.get_for_share(&table, &key(10 * n)), Err(Error::LockTimeout)));
        assert!(matches!(other.put(&table, &key(10 * n), b"new"), Err(Error::LockTimeout)));
        other.insert(&table, &key(10 * n + 5), b"new").unwrap();
        other.put(&table, &key(10 * n + 5), b"again").unwrap();
        other.commit().unwrap();
        let mut third = db.begin_with(without_gaps()).unwrap();
        assert!(third.get_for_update(&table, &key(10 * n + 5)).unwrap().is_some());
        third.delete(&table, &key(10 * n + 5)).unwrap();
        third.commit().unwrap();
    }
    tx.commit().unwrap();
    assert_eq!(lock_bytes(&db), 0);
}

/// A statement without an index at READ COMMITTED releases each row that it does not want.
#[test]
fn a_row_is_released_from_a_range_of_rows() {
    let (db, table) = filled(MANY);
    let mut tx = db.begin_with(without_gaps()).unwrap();
    let mut rows = cursor(&table, RowLock::Exclusive);
    let mut other = db.begin_with(without_gaps()).unwrap();
    let mut found = rows.seek(&mut tx, Seek::First).unwrap().map(|(key, _)| key.to_vec());
    let mut n = 0;
    while let Some(row) = found {
        assert!(tx.newly_locked());
        // It keeps the first ones, and then each hundredth row.
        if n > 6_000 && n % 100 != 0 {
            assert!(tx.unlock_row(&table, &row).unwrap());
        }
        n += 1;
        found = rows.next(&mut tx).unwrap().map(|(key, _)| key.to_vec());
    }
    for (n, locked) in [(0, true), (6_000, true), (6_001, false), (6_100, true), (11_999, false)] {
        let busy = matches!(other.get_for_update(&table, &key(10 * n)), Err(Error::LockTimeout));
        assert_eq!(busy, locked, "row {n}");
    }
    // What it has it does not get anew.
    assert!(rows.seek(&mut tx, Seek::AtOrAfter(&key(61_000))).unwrap().is_some());
    assert!(!tx.newly_locked());
}

/// Rows that are skipped stay out of the range, and those beside them are in it.
#[test]
fn a_range_of_rows_has_holes_where_rows_were_skipped() {
    let (db, table) = filled(MANY);
    let mut holder = db.begin_with(without_gaps()).unwrap();
    for n in [5_000, 9_000, 9_001] {
        holder.get_for_update(&table, &key(10 * n)).unwrap();
    }
    let mut tx = db.begin_with(without_gaps()).unwrap();
    let taken = tx.range_for_update(&table, .., LockWait::SkipLocked).unwrap();
    assert_eq!(taken.count() as u32, MANY - 3);
    holder.rollback();
    let mut other = db.begin_with(without_gaps()).unwrap();
    for (n, locked) in [(4_999, true), (5_000, false), (8_999, true), (9_000, false), (9_001, false)] {
        let busy = matches!(other.get_for_update(&table, &key(10 * n)), Err(Error::LockTimeout));
        assert_eq!(busy, locked, "row {n}");
    }
}

/// A statement that wants a few rows locks no others.
#[test]
fn a_short_scan_for_update_locks_what_it_has_shown() {
    let (db, table) = filled(500);
    for shown in [1, 10, 64] {
        let mut tx = db.begin_with(with_gaps()).unwrap();
        let mut rows = cursor(&table, RowLock::Exclusive);
        rows.seek(&mut tx, Seek::First).unwrap();
        (1..shown).for_each(|_| assert!(rows.next(&mut tx).unwrap().is_some()));
        let mut other = db.begin_with(with_gaps()).unwrap();
        assert!(matches!(other.get_for_update(&table, &key(10 * (shown - 1))), Err(Error::LockTimeout)));
        assert!(other.get_for_update(&table, &key(10 * shown)).unwrap().is_some());
    }
}

/// Threads that lock all rows and then add one to each, again and again, over two directions and
/// both ways to lock: no addition is lost.
#[test]
fn no_update_is_lost_between_scans_that_lock() {
    const ROWS: u32 = 150;
    let (db, table) = filled(ROWS);
    let rounds = 20;
    let added = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|number| {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    let options = if number < 3 { with_gaps() } else { without_gaps() };
                    let options = options.lock_wait(Duration::from_secs(60));
                    let mut added = 0;
                    while added < rounds {
                        let mut tx = db.begin_with(options).unwrap();
                        if add_to_all(&mut tx, table, number % 2 == 1).is_ok() && tx.commit().is_ok() {
                            added += 1;
                        }
                    }
                    added
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>()
    });
    let tx = db.begin().unwrap();
    let mut rows = 0;
    for row in tx.range(&table, ..).unwrap() {
        assert_eq!(row.unwrap().1, added.to_be_bytes());
        rows += 1;
    }
    assert_eq!((rows, added), (ROWS, 4 * rounds));
}

fn add_to_all(tx: &mut Transaction, table: &Table, backward: bool) -> crate::Result<()> {
    let mut rows = cursor(table, RowLock::Exclusive);
    let mut found = rows.seek(tx, if backward { Seek::Last } else { Seek::First })?;
    let mut all = Vec::new();
    while let Some((key, value)) = found {
        all.push((key.to_vec(), u32::from_be_bytes(value.try_into().unwrap())));
        found = if backward { rows.prev(tx)? } else { rows.next(tx)? };
    }
    for (key, value) in all {
        tx.put(table, &key, &(value + 1).to_be_bytes())?;
    }
    Ok(())
}

/// A cursor sees the transaction's own changes of its table, and keeps its rows while the
/// transaction changes another one.
#[test]
fn a_cursor_sees_changes_of_its_own_table_alone() {
    let (db, table) = filled(500);
    let other = db.create_table("other").unwrap();
    for options in [with_gaps(), without_gaps(), TxnOptions::new()] {
        for lock in [None, Some(RowLock::Exclusive)] {
            let mut tx = db.begin_with(options).unwrap();
            let mut rows = Cursor::new(&table);
            rows.set_lock(lock, LockWait::Wait);
            rows.seek(&mut tx, Seek::First).unwrap();
            for n in 1..300 {
                tx.put(&other, &key(n), b"").unwrap();
                if n % 7 == 0 {
                    tx.put(&table, &key(10 * n), b"own").unwrap();
                    tx.put(&table, &key(10 * n + 10), b"next").unwrap();
                }
                let (found, value) = rows.next(&mut tx).unwrap().unwrap();
                assert_eq!(found, key(10 * n));
                let expected: &[u8] = match n % 7 {
                    0 => b"own",
                    1 if n > 1 => b"next",
                    _ => &[0; 4],
                };
                assert_eq!(value, expected, "row {n}");
            }
            let savepoint = tx.savepoint();
            tx.put(&table, &key(3_000), b"undone").unwrap();
            tx.rollback_to(&savepoint).unwrap();
            assert_eq!(rows.next(&mut tx).unwrap(), Some((&key(3_000)[..], &[0; 4][..])));
        }
    }
}

/// The limit is a setting, which the error names, and which may be changed while locks are held.
#[test]
fn the_limit_of_lock_memory_is_a_setting() {
    let db = crate::Options::new().lock_memory_bytes(100_000).open_in_memory().unwrap();
    let table = db.create_table("t").unwrap();
    let mut tx = db.begin().unwrap();
    let full = (0..10_000).find_map(|n| tx.get_for_update(&table, &key(n)).err()).unwrap();
    assert!(full.to_string().contains("lock_memory_bytes"), "{full}");
    db.set_lock_memory_bytes(Some(1 << 20)).unwrap();
    assert_eq!(db.lock_memory_bytes(), 1 << 20);
    (0..2_000).for_each(|n| assert!(tx.get_for_update(&table, &key(n)).is_ok()));
    db.set_lock_memory_bytes(None).unwrap();
    assert_eq!(db.lock_memory_bytes(), 256 << 20);
    for error in [
        db.set_lock_memory_bytes(Some(1000)).unwrap_err(),
        crate::Options::new().lock_memory_bytes(1000).open_in_memory().unwrap_err(),
    ] {
        assert!(matches!(&error, Error::Misuse(what) if what.contains("65536")), "{error}");
    }
}
