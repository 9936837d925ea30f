//! What an SQL engine needs: rows with index entries, statements that are undone, numbered rows,
//! sets of tables that change together.

use super::{fill, key, stands_in, value};
use crate::driver::{Driver, Txn};
use crate::subject::{Durability, EntryChange, EntryOp, How, Isolation, Result, TableChange};

fn entry(table: &'static str, key: Vec<u8>, op: EntryOp) -> EntryChange {
    EntryChange { table, key, op }
}

/// Inserts a row and its entry in a unique index. Returns false if one of them exists.
fn insert(tx: &mut Txn, id: u64, unique: u64, value: &[u8]) -> Result<bool> {
    let id = id.to_be_bytes().to_vec();
    let row = [&unique.to_be_bytes()[..], value].concat();
    tx.change_row(&[
        entry("rows", id.clone(), EntryOp::Insert(row)),
        entry("unique", unique.to_be_bytes().to_vec(), EntryOp::Insert(id)),
    ])
}

/// Deletes a row and its index entry, or moves it to another place of the index.
fn change(tx: &mut Txn, id: u64, unique: Option<u64>, value: &[u8]) -> Result<bool> {
    let id = id.to_be_bytes().to_vec();
    let Some(old) = tx.get_for_update("rows", &id)? else { return Ok(true) };
    let mut changes = vec![entry("unique", old[..8].to_vec(), EntryOp::Delete)];
    match unique {
        None => changes.push(entry("rows", id, EntryOp::Delete)),
        Some(unique) => {
            let unique = unique.to_be_bytes();
            changes.push(entry("rows", id.clone(), EntryOp::Put([&unique[..], value].concat())));
            changes.push(entry("unique", unique.to_vec(), EntryOp::Insert(id)));
        }
    }
    tx.change_row(&changes)
}

/// Every entry of the index leads to its row and back.
fn compare_index(d: &Driver) {
    let tx = d.tx();
    let rows = tx.scan("rows").expect("a snapshot");
    let mut by_unique: Vec<_> = rows.into_iter().map(|(id, row)| (row[..8].to_vec(), id)).collect();
    by_unique.sort();
    assert!(by_unique == tx.scan("unique").expect("a snapshot"), "rows and index differ");
    tx.rollback();
}

pub(super) fn index_rows(d: &Driver) {
    if stands_in(d) {
        return;
    }
    d.create("rows");
    d.create("unique");
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        for n in 0..10 {
            let isolation = if id == 0 { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
            let how = How { isolation, ..How::default() };
            let (row, unique) = (rng.below(12), rng.below(9));
            let bytes = if rng.one_in(8) { 5_000 } else { rng.between(10, 300) };
            let value = value(&mut rng, bytes, bytes);
            let deletes = rng.one_in(4);
            d.retry(how, |tx| {
                tx.statement(|tx| insert(tx, row, unique, &value).map(|_| true))?;
                // A conflict undoes the row; every third statement is undone as well.
                tx.statement(|tx| {
                    let target = if deletes { None } else { Some((unique + 1) % 9) };
                    change(tx, (row + 1) % 12, target, &value)?;
                    Ok(n % 3 != 0)
                })
            });
            if n == 5 {
                d.checkpoint();
            }
        }
    });
    compare_index(d);
}

/// Rows get their keys from the counter of their table. No crash may make it give a number again.
pub(super) fn numbered(d: &Driver) {
    if stands_in(d) {
        return;
    }
    d.create("numbered");
    d.create("numbered too");
    d.create("t");
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        for n in 0..14 {
            let table = if rng.one_in(3) { "numbered too" } else { "numbered" };
            let durability = if id == 2 { Durability::None } else { Durability::Sync };
            let mut tx = d.tx_with(How { durability, ..How::default() });
            for _ in 0..rng.between(1, 3) {
                let number = d.take_number(table);
                tx.raise_counter(table, number + 1).expect("there is room");
                let row = value(&mut rng, 10, 100);
                assert!(
                    tx.insert(table, &number.to_be_bytes(), &row).expect("no conflict"),
                    "{number} twice"
                );
            }
            if rng.one_in(4) {
                tx.rollback();
            } else {
                tx.commit();
            }
            if n == 4 + id {
                d.checkpoint();
            }
        }
    });
    // The log before the last records of the counters is recycled.
    fill(d, "t", 120, 900);
    d.checkpoint();
    fill(d, "t", 10, 50);
}

/// Sets of tables that change together, with metadata that stands in overflow pages.
pub(super) fn table_sets(d: &Driver) {
    if stands_in(d) {
        return;
    }
    let mut rng = d.rng(1);
    let name = |name: &str| name.to_owned();
    d.change_tables(&[
        TableChange::Create(name("a"), b"A".to_vec()),
        TableChange::Create(name("b"), value(&mut rng, 3_000, 6_000)),
    ]);
    for table in ["a", "b"] {
        fill(d, table, 4, 200);
    }
    d.change_tables(&[
        TableChange::Rename(name("a"), name("x")),
        TableChange::Rename(name("b"), name("a")),
        TableChange::Rename(name("x"), name("b")),
        TableChange::SetMetadata(name("a"), b"was b".to_vec()),
    ]);
    d.checkpoint();
    d.change_tables(&[
        TableChange::Replace(name("a"), value(&mut rng, 100, 9_000)),
        TableChange::Create(name("c"), Vec::new()),
        TableChange::Drop(name("b")),
    ]);
    let mut tx = d.tx();
    tx.put("a", &key(1), &value(&mut rng, 10, 50)).expect("no conflict");
    tx.put("c", &key(1), &value(&mut rng, 10, 50)).expect("no conflict");
    tx.commit();
    d.change_tables(&[TableChange::Drop(name("c")), TableChange::Rename(name("a"), name("c"))]);
    d.idle(100_000);
}
