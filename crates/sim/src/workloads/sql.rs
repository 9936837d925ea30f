//! What an SQL engine needs: rows with index entries, statements that are undone, numbered rows,
//! sets of tables that change together.

use super::{fill, key, value};
use crate::driver::{Driver, How, Txn};
use millpond::{CounterStep, Durability, EntryOp, Isolation, Result, TableChange};

/// Inserts a row and its entry in a unique index. Returns false if one of them exists.
fn insert(tx: &mut Txn, id: u64, unique: u64, value: &[u8]) -> Result<bool> {
    let (id, unique) = (id.to_be_bytes(), unique.to_be_bytes());
    let row = [&unique[..], value].concat();
    tx.change_row(&[("rows", &id, EntryOp::Insert(&row)), ("unique", &unique, EntryOp::Insert(&id))])
}

/// Deletes a row and its index entry, or moves it to another place of the index.
fn change(tx: &mut Txn, id: u64, unique: Option<u64>, value: &[u8]) -> Result<bool> {
    let id = id.to_be_bytes();
    let Some(old) = tx.get_for_update("rows", &id)? else { return Ok(true) };
    let gone = ("unique", &old[..8], EntryOp::Delete);
    let Some(unique) = unique else { return tx.change_row(&[gone, ("rows", &id, EntryOp::Delete)]) };
    let unique = unique.to_be_bytes();
    let row = [&unique[..], value].concat();
    tx.change_row(&[gone, ("rows", &id, EntryOp::Put(&row)), ("unique", &unique, EntryOp::Insert(&id))])
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

fn take_number(d: &Driver, table: &str) -> u64 {
    let table = d.db().open_table(table).expect("it is there");
    let step = CounterStep { offset: 1, increment: 1, count: 1, max: u64::MAX };
    table.take_values(step).expect("numbers do not end").first
}

/// Rows get their keys from the counter of their table. No crash may make it give a number again.
pub(super) fn numbered(d: &Driver) {
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
                let number = take_number(d, table);
                let counter = tx.table(table).expect("it is there");
                tx.inner.raise_counter(&counter, number + 1).expect("there is room");
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
    let mut rng = d.rng(1);
    let long = value(&mut rng, 3_000, 6_000);
    d.change_tables(&[
        TableChange::Create { name: "a", metadata: b"A" },
        TableChange::Create { name: "b", metadata: &long },
    ]);
    for table in ["a", "b"] {
        fill(d, table, 4, 200);
    }
    d.change_tables(&[
        TableChange::Rename { from: "a", to: "x" },
        TableChange::Rename { from: "b", to: "a" },
        TableChange::Rename { from: "x", to: "b" },
        TableChange::SetMetadata { name: "a", metadata: b"was b" },
    ]);
    d.checkpoint();
    let long = value(&mut rng, 100, 9_000);
    d.change_tables(&[
        TableChange::Replace { name: "a", metadata: &long },
        TableChange::Create { name: "c", metadata: b"" },
        TableChange::Drop { name: "b" },
    ]);
    let mut tx = d.tx();
    tx.put("a", &key(1), &value(&mut rng, 10, 50)).expect("no conflict");
    tx.put("c", &key(1), &value(&mut rng, 10, 50)).expect("no conflict");
    tx.commit();
    d.change_tables(&[TableChange::Drop { name: "c" }, TableChange::Rename { from: "a", to: "c" }]);
    d.idle(100_000);
}
