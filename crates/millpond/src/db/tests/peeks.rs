//! Cursors that peek at rows which other transactions have, and tables younger than a snapshot.

use super::*;
use crate::{Cursor, LockWait, RowLock, Seek, TableChange};

fn reader(db: &Db) -> Transaction {
    let options = TxnOptions::new().isolation(Isolation::ReadCommitted).lock_wait(Duration::ZERO);
    db.begin_with(options).unwrap()
}

fn peeking(table: &Table) -> Cursor {
    let mut cursor = Cursor::new(table);
    cursor.set_lock(Some(RowLock::Exclusive), LockWait::Wait);
    cursor.set_peeks(true);
    cursor
}

/// The rows in one direction: key, first byte and length of the value, and `*` if it was peeked at.
fn seen(db: &Db, table: &Table, backward: bool) -> String {
    let (mut tx, mut cursor) = (reader(db), peeking(table));
    let mut seen = Vec::new();
    let mut row = cursor.seek(&mut tx, if backward { Seek::Last } else { Seek::First }).unwrap();
    while let Some((key, value)) = row {
        let (key, first, len) = (key[0] as char, value[0] as char, value.len());
        let peeked = if cursor.is_peeked() { "*" } else { "" };
        assert_eq!(tx.newly_locked(), peeked.is_empty());
        seen.push(format!("{key}={first}{len}{peeked}"));
        row = if backward { cursor.prev(&mut tx) } else { cursor.next(&mut tx) }.unwrap();
    }
    seen.join(" ")
}

#[test]
fn a_row_that_another_transaction_has_is_shown_as_it_was_last_committed() {
    let (_disk, db, t) = fresh();
    for key in [b"a", b"b", b"c", b"d", b"f"] {
        put(&db, &t, key, b"1");
    }
    put(&db, &t, b"g", &[b'1'; 5000]);
    let mut other = db.begin().unwrap();
    other.put(&t, b"b", b"2").unwrap();
    other.put(&t, b"b", b"3").unwrap();
    other.delete(&t, b"c").unwrap();
    other.get_for_share(&t, b"d").unwrap();
    other.insert(&t, b"e", b"2").unwrap();
    other.put(&t, b"g", &[b'2'; 6000]).unwrap();
    let forward = "a=11 b=11* c=11* d=11* f=11 g=15000*";
    assert_eq!(seen(&db, &t, false), forward);
    let turned: Vec<_> = forward.split(' ').rev().collect();
    assert_eq!(seen(&db, &t, true), turned.join(" "));
    other.commit().unwrap();
    assert_eq!(seen(&db, &t, false), "a=11 b=31 d=11 e=21 f=11 g=26000");
    purge_and_check(&db);
}

/// Where ranges are locked a peek would leave a gap in them, so the cursor waits.
#[test]
fn a_cursor_that_locks_ranges_does_not_peek() {
    let (_disk, db, t) = fresh();
    put(&db, &t, b"a", b"1");
    let mut other = db.begin().unwrap();
    other.put(&t, b"a", b"2").unwrap();
    for options in [
        TxnOptions::new().isolation(Isolation::Serializable),
        TxnOptions::new().isolation(Isolation::RepeatableRead).current_reads(true),
    ] {
        let mut tx = db.begin_with(options.lock_wait(Duration::ZERO)).unwrap();
        assert!(matches!(peeking(&t).seek(&mut tx, Seek::First), Err(Error::LockTimeout)));
    }
}

/// A table that is made, loaded or replaced after a snapshot: the snapshot cannot tell what was in
/// its place before.
#[test]
fn a_snapshot_does_not_read_a_table_that_is_younger() {
    let (_disk, db, t) = fresh();
    put(&db, &t, b"a", b"1");
    let mut old = db.begin().unwrap();
    assert_eq!(text(old.get(&t, b"a").unwrap()), "1");
    let created = db.create_table("created").unwrap();
    let loaded = db.bulk_load("loaded", [(b"a", b"1")]).unwrap();
    db.create_table("replaced").unwrap();
    db.change_tables(&[TableChange::Replace { name: "replaced", metadata: b"" }], Duration::ZERO).unwrap();
    let replaced = db.open_table("replaced").unwrap();
    for table in [&created, &loaded, &replaced] {
        let refused = |error| matches!(&error, Error::TableChanged { name } if *name == table.name());
        assert!(refused(old.get(table, b"a").unwrap_err()));
        assert!(refused(old.get_for_update(table, b"a").unwrap_err()));
        assert!(refused(old.range(table, ..).err().unwrap()));
        assert!(refused(Cursor::new(table).seek(&mut old, Seek::First).unwrap_err()));
        // An insert needs no version of the past.
        old.insert(table, b"new", b"").unwrap();
    }
    old.commit().unwrap();
    let new = db.begin().unwrap();
    assert_eq!([&created, &loaded, &replaced].map(|table| rows(&new, table).len()), [1, 2, 1]);
    // A statement at READ COMMITTED has a snapshot of its own.
    let mut tx = reader(&db);
    tx.begin_statement().unwrap();
    tx.get(&t, b"a").unwrap();
    let later = db.create_table("later").unwrap();
    assert!(matches!(tx.get(&later, b"a"), Err(Error::TableChanged { .. })));
    tx.end_statement();
    assert_eq!(tx.get(&later, b"a").unwrap(), None);
}
