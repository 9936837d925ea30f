//! What an administrator is shown: transactions, locks, waits, deadlocks.

use super::rollback::until;
use super::*;
use crate::{LockPlace, RowLock, TxnOptions};
use std::sync::Mutex;

#[test]
fn transactions_are_shown_with_tags_locks_undo_and_xids() {
    let db = Db::open_in_memory().unwrap();
    let table = db.create_table("t").unwrap();
    let mut tx = db.begin_with(TxnOptions::new().tag(7)).unwrap();
    assert!(db.transactions().is_empty(), "it has neither locked nor changed anything");
    tx.put(&table, b"a", b"1").unwrap();
    tx.get_for_update(&table, b"b").unwrap();
    let shown = db.transactions();
    let [one] = &shown[..] else { panic!("{shown:?}") };
    assert_eq!((one.tag, one.rows_changed, one.locks), (7, 1, 1));
    assert!(one.undo_bytes > 0 && one.xid.is_none() && one.waits_for.is_none(), "{one:?}");
    tx.prepare(b"name").unwrap();
    let shown = db.transactions();
    assert_eq!(shown[0].xid.as_deref(), Some(&b"name"[..]));
    // What is prepared keeps its tables too.
    let locks: Vec<_> = db.locks(10).iter().map(|lock| (lock.tag, lock.place.clone(), lock.mode)).collect();
    let row = LockPlace::Row { key: b"b".to_vec() };
    assert_eq!(locks, [(7, row, RowLock::Exclusive), (7, LockPlace::Table, RowLock::Shared)]);
    db.rollback_prepared(b"name").unwrap();
    assert!(db.transactions().is_empty() && db.locks(10).is_empty());
}

#[test]
fn a_wait_is_shown_with_the_writer_that_it_is_for() {
    let db = Db::open_in_memory().unwrap();
    let table = db.create_table("t").unwrap();
    let mut writer = db.begin_with(TxnOptions::new().tag(1)).unwrap();
    writer.put(&table, b"a", b"1").unwrap();
    // The version is the lock, until another transaction waits for it.
    assert!(db.locks(10).is_empty());
    let (other, rows) = (db.clone(), table.clone());
    let waiter = std::thread::spawn(move || {
        let mut tx = other.begin_with(TxnOptions::new().tag(2)).unwrap();
        tx.put(&rows, b"a", b"2").unwrap();
    });
    until("the wait", || !db.lock_waits(10).is_empty());
    let waits = db.lock_waits(10);
    assert_eq!(waits.len(), 1);
    assert_eq!((waits[0].request.tag, &waits[0].request.table[..], waits[0].request.waits), (2, "t", true));
    assert_eq!(waits[0].request.place, LockPlace::Row { key: b"a".to_vec() });
    assert_eq!(waits[0].blockers.iter().map(|(_, tag)| *tag).collect::<Vec<_>>(), [1]);
    let locks: Vec<_> = db.locks(10).iter().map(|lock| (lock.tag, lock.mode, lock.waits)).collect();
    assert_eq!(locks, [(1, RowLock::Exclusive, false), (2, RowLock::Exclusive, true)]);
    writer.rollback();
    waiter.join().unwrap();
}

#[test]
fn a_deadlock_is_told_and_kept_with_names() {
    let told: Arc<Mutex<Vec<_>>> = Arc::default();
    let list = Arc::clone(&told);
    let options =
        Options::new().on_deadlock(move |number, tags| list.lock().unwrap().push((number, tags.to_vec())));
    let db = options.open_in_memory().unwrap();
    let table = db.create_table("t").unwrap();
    let begin = |tag| db.begin_with(TxnOptions::new().tag(tag)).unwrap();
    let (mut one, mut two) = (begin(1), begin(2));
    one.put(&table, b"a", b"").unwrap();
    two.put(&table, b"b", b"").unwrap();
    let (other, rows) = (db.clone(), table.clone());
    let waiter = std::thread::spawn(move || {
        two.put(&rows, b"a", b"").unwrap();
        drop(other);
    });
    until("the wait", || !db.lock_waits(10).is_empty());
    assert!(matches!(one.put(&table, b"b", b""), Err(Error::Deadlock)));
    waiter.join().unwrap();
    assert_eq!(*told.lock().unwrap(), [(1, vec![1, 2])]);
    let deadlocks = db.deadlocks();
    assert_eq!((deadlocks.len(), deadlocks[0].number), (1, 1));
    let members = &deadlocks[0].members;
    let facts: Vec<_> = members
        .iter()
        .map(|member| (member.transaction.tag, &member.holds.as_ref().unwrap().table[..], member.victim))
        .collect();
    assert_eq!(facts, [(1, "t", true), (2, "t", false)]);
}
