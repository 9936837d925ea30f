//! Changes of several entries as one row, and what a conflict leaves of them.

use super::*;
use crate::{EntryChange, EntryOp, RowLock, RowOutcome};

fn two_tables() -> (MemDisk, Db, Table, Table) {
    let (disk, db, t) = fresh();
    let index = db.create_table("index").unwrap();
    (disk, db, t, index)
}

fn entry<'a>(table: &'a Table, key: &'a [u8], op: EntryOp<'a>) -> EntryChange<'a> {
    EntryChange { table, key, op }
}

/// A row: its entry by id, and its entry in a unique index.
fn row<'a>(t: &'a Table, index: &'a Table, id: &'a [u8], unique: &'a [u8]) -> [EntryChange<'a>; 2] {
    [entry(t, id, EntryOp::Insert(unique)), entry(index, unique, EntryOp::Insert(id))]
}

#[test]
fn a_conflict_in_the_second_index_undoes_this_row_only() {
    let (_disk, db, t, index) = two_tables();
    let mut tx = db.begin().unwrap();
    assert_eq!(tx.change_row(&row(&t, &index, b"1", b"a"), None).unwrap(), RowOutcome::Changed);
    let exists = tx.change_row(&row(&t, &index, b"2", b"a"), None).unwrap();
    assert_eq!(exists, RowOutcome::Exists { index: 1, value: None });
    let exists = tx.change_row(&row(&t, &index, b"1", b"b"), Some(RowLock::Shared)).unwrap();
    assert_eq!(exists, RowOutcome::Exists { index: 0, value: Some(b"a".to_vec()) });
    assert_eq!(tx.change_row(&row(&t, &index, b"3", b"c"), None).unwrap(), RowOutcome::Changed);
    tx.commit().unwrap();
    assert_eq!(all(&db, "t").len(), 2);
    assert_eq!(all(&db, "index").into_values().collect::<Vec<_>>(), [b"1", b"3"]);
    purge_and_check(&db);
}

#[test]
fn updates_and_deletes_of_absent_entries_do_nothing() {
    let (_disk, db, t, index) = two_tables();
    put(&db, &t, b"1", b"a");
    let mut tx = db.begin().unwrap();
    let changes = [
        entry(&t, b"1", EntryOp::Update(b"b")),
        entry(&t, b"2", EntryOp::Update(b"b")),
        entry(&index, b"a", EntryOp::Delete),
        entry(&index, b"b", EntryOp::Put(b"1")),
    ];
    assert_eq!(tx.change_row(&changes, None).unwrap(), RowOutcome::Changed);
    let long = vec![7; 9000];
    assert_eq!(
        tx.change_row(&[entry(&t, b"3", EntryOp::Update(&long))], None).unwrap(),
        RowOutcome::Changed,
        "a long value of an absent row"
    );
    tx.commit().unwrap();
    assert_eq!(all(&db, "t"), Rows::from([(b"1".to_vec(), b"b".to_vec())]));
    assert_eq!(all(&db, "index"), Rows::from([(b"b".to_vec(), b"1".to_vec())]));
    purge_and_check(&db);
}

/// The key of the second entry is too long, a third finds no lock in time: nothing of the row is
/// left, and the transaction goes on.
#[test]
fn an_error_in_the_middle_of_a_row_leaves_nothing_of_it() {
    let (_disk, db, t, index) = two_tables();
    put(&db, &index, b"held", b"");
    let mut holder = db.begin().unwrap();
    holder.get_for_update(&index, b"held").unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&t, b"before", b"").unwrap();
    let long = vec![1; 2000];
    let too_long = tx.change_row(&row(&t, &index, b"1", &long), None);
    assert!(matches!(too_long, Err(Error::KeyTooLong { .. })));
    let changes = [entry(&t, b"1", EntryOp::Put(b"")), entry(&index, b"held", EntryOp::Delete)];
    assert!(matches!(tx.change_row(&changes, None), Err(Error::LockTimeout)));
    assert_eq!(tx.change_row(&row(&t, &index, b"2", b"x"), None).unwrap(), RowOutcome::Changed);
    tx.commit().unwrap();
    assert_eq!(all(&db, "t").into_keys().collect::<Vec<_>>(), [b"2".to_vec(), b"before".to_vec()]);
    drop(holder);
    purge_and_check(&db);
}

#[test]
fn a_write_conflict_rolls_the_whole_transaction_back() {
    let (_disk, db, t, index) = two_tables();
    let mut tx = db.begin().unwrap();
    assert!(tx.get(&t, b"x").unwrap().is_none());
    put(&db, &index, b"later", b"other");
    let conflict = tx.change_row(&row(&t, &index, b"1", b"later"), None);
    assert!(matches!(conflict, Err(Error::WriteConflict)));
    assert!(matches!(tx.change_row(&row(&t, &index, b"2", b"b"), None), Err(Error::Aborted)));
    assert!(all(&db, "t").is_empty());
    purge_and_check(&db);
}

/// The found entry is locked: nobody can delete it before the transaction decides what to do.
#[test]
fn the_entry_that_an_insert_finds_can_be_locked() {
    let (_disk, db, t, index) = two_tables();
    put(&db, &index, b"a", b"1");
    let mut tx = db.begin().unwrap();
    let found = tx.change_row(&row(&t, &index, b"2", b"a"), Some(RowLock::Exclusive)).unwrap();
    assert_eq!(found, RowOutcome::Exists { index: 1, value: Some(b"1".to_vec()) });
    let mut other = db.begin().unwrap();
    assert!(matches!(other.delete(&index, b"a"), Err(Error::LockTimeout)));
    tx.put(&index, b"a", b"2").unwrap();
    tx.commit().unwrap();
    assert!(other.delete(&index, b"a").unwrap());
    drop(other);
    let mut reader = db.begin_with(TxnOptions::new().read_only(true)).unwrap();
    assert!(matches!(reader.change_row(&row(&t, &index, b"2", b"a"), None), Err(Error::Misuse(_))));
    drop(reader);
    purge_and_check(&db);
}

/// Four threads change rows with a unique index, with conflicts. At the end every entry of the
/// index leads to its row and back.
#[test]
fn index_and_rows_agree_after_conflicts_of_many_threads() {
    let (_disk, db, t, index) = two_tables();
    let work = |seed| {
        let (db, t, index) = (db.clone(), t.clone(), index.clone());
        move || {
            let mut rng = Prng::new(seed);
            for _ in 0..150 {
                let (id, unique) = ([rng.below(30) as u8], [rng.below(20) as u8]);
                let level = [Isolation::ReadCommitted, Isolation::RepeatableRead][rng.below(2) as usize];
                let mut tx = db.begin_with(TxnOptions::new().isolation(level)).unwrap();
                let changed = if rng.one_in(3) {
                    tx.get_for_update(&t, &id).and_then(|unique| match unique {
                        Some(unique) => tx.change_row(
                            &[entry(&t, &id, EntryOp::Delete), entry(&index, &unique, EntryOp::Delete)],
                            None,
                        ),
                        None => Ok(RowOutcome::Changed),
                    })
                } else {
                    tx.change_row(&row(&t, &index, &id, &unique), Some(RowLock::Shared))
                };
                match changed {
                    Ok(_) => drop(tx.commit().unwrap()),
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
            }
        }
    };
    let threads: Vec<_> = (0..4).map(|seed| std::thread::spawn(work(seed))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let by_id = all(&db, "t").into_iter().map(|(id, unique)| (unique, id)).collect::<Rows>();
    assert_eq!(by_id, all(&db, "index"));
    purge_and_check(&db);
}
