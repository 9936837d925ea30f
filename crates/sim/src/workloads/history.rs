//! Little memory for history: undo is spilled to files and read back from there.

use super::{fill, key, value};
use crate::driver::{Driver, How, Txn};
use crate::engine::RowList;
use base::prng::Prng;
use millpond::{Durability, Error};

const FREE: &str = "there is no conflict";

/// Runs a small transaction that writes or deletes one of a few rows.
fn small(d: &Driver, rng: &mut Prng, table: &str) {
    let durability = if rng.one_in(4) { Durability::Sync } else { Durability::None };
    let mut tx = d.tx_with(How { durability, ..How::default() });
    let k = key(rng.below(16));
    if rng.one_in(3) {
        tx.delete(table, &k).expect(FREE);
    } else {
        tx.put(table, &k, &value(rng, 10, 120)).expect(FREE);
    }
    tx.commit();
}

pub(super) fn spilled(d: &Driver) {
    d.create("t");
    d.create("u");
    fill(d, "t", 20, 200);
    let mut rng = d.rng(1);
    for round in 0..3 {
        let mut long = d.tx();
        for n in 0..30 {
            long.put("t", &key(rng.below(30)), &value(&mut rng, 50, 300)).expect(FREE);
            if n % 10 == 9 {
                small(d, &mut rng, "u");
            }
        }
        let mark = long.savepoint();
        for _ in 0..10 {
            long.delete("t", &key(rng.below(30))).expect(FREE);
            long.put("t", &key(rng.below(30)), &value(&mut rng, 50, 300)).expect(FREE);
        }
        d.idle(60_000);
        if round != 1 {
            long.rollback_to(&mark).expect(FREE);
        }
        if round > 0 {
            d.checkpoint();
        }
        if round == 1 {
            long.rollback();
        } else {
            long.commit();
        }
    }
}

/// Returns whether the reader still sees `before`. If `may_be_too_old`, its snapshot may have
/// expired instead.
fn sees(reader: &Txn, table: &str, before: &RowList, may_be_too_old: bool) -> bool {
    match reader.scan(table) {
        Ok(rows) => {
            assert!(rows == *before, "the snapshot has changed");
            true
        }
        Err(Error::SnapshotTooOld) if may_be_too_old => false,
        Err(e) => panic!("{e}"),
    }
}

/// Returns what a new snapshot shows; `None` if it expires before everything is read.
fn first(reader: &Txn, table: &str, may_be_too_old: bool) -> Option<RowList> {
    match reader.scan(table) {
        Ok(rows) => Some(rows),
        Err(Error::SnapshotTooOld) if may_be_too_old => None,
        Err(e) => panic!("{e}"),
    }
}

fn readers_and_writers(d: &Driver, turns: u64, may_be_too_old: bool) {
    d.create("t");
    fill(d, "t", 16, 80);
    d.threads(3, move |d, id| {
        let mut rng = d.rng(id);
        if id > 0 {
            for n in 0..turns {
                small(d, &mut rng, "t");
                if id == 1 && n % 12 == 11 {
                    d.checkpoint();
                }
            }
            return;
        }
        for _ in 0..3 {
            let old = d.tx();
            let Some(before) = first(&old, "t", may_be_too_old) else { continue };
            d.idle(8_000);
            let young = d.tx();
            let Some(later) = first(&young, "t", may_be_too_old) else { continue };
            for _ in 0..3 {
                d.idle(10_000);
                sees(&old, "t", &before, may_be_too_old);
                sees(&young, "t", &later, may_be_too_old);
            }
            old.rollback();
            d.idle(2_000);
            sees(&young, "t", &later, may_be_too_old);
            young.rollback();
        }
    });
}

pub(super) fn batches(d: &Driver) {
    readers_and_writers(d, 40, false);
}

pub(super) fn expired(d: &Driver) {
    readers_and_writers(d, 50, true);
}

pub(super) fn long_values(d: &Driver) {
    d.create("t");
    fill(d, "t", 6, 6_000);
    let mut rng = d.rng(1);
    let reader = d.tx();
    let before = reader.scan("t").expect(FREE);
    for n in 0..16 {
        let mut tx = d.tx();
        let k = key(rng.below(6));
        match rng.below(3) {
            0 => drop(tx.delete("t", &k).expect(FREE)),
            1 => tx.put("t", &k, &value(&mut rng, 10, 50)).expect(FREE),
            _ => tx.put("t", &k, &value(&mut rng, 3_000, 6_000)).expect(FREE),
        }
        tx.commit();
        if n % 6 == 5 {
            d.idle(60_000);
            d.checkpoint();
        }
    }
    sees(&reader, "t", &before, false);
    reader.rollback();
}

/// A queue under a snapshot: one thread deletes three rows at its head, another inserts rows where
/// all were deleted.
pub(super) fn queue(d: &Driver) {
    const ROWS: u64 = 30;
    d.create("q");
    fill(d, "q", ROWS, 40);
    let held = d.tx();
    let before = held.scan("q").expect(FREE);
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        for _ in 0..14 {
            let mut tx = d.tx();
            if id == 0 {
                let rows = tx.scan("q").expect(FREE);
                // Another thread may have inserted one since the scan.
                let taken = rows.iter().take(3).all(|(key, _)| tx.delete("q", key).is_ok());
                if taken {
                    tx.commit();
                } else {
                    tx.rollback();
                }
            } else if id == 1 {
                let k = key(rng.below(ROWS));
                tx.put("q", &k, &value(&mut rng, 5, 40)).expect(FREE);
                let rows = tx.scan("q").expect(FREE);
                assert!(rows.iter().any(|(key, _)| *key == k), "a transaction misses its own row");
                if rng.one_in(3) {
                    tx.rollback();
                } else {
                    tx.commit();
                }
                d.idle(3_000);
            } else {
                let rows = tx.scan("q").expect(FREE);
                for n in 0..ROWS {
                    let k = key(n);
                    let row = rows.iter().find(|(key, _)| **key == k).map(|(_, value)| value.clone());
                    assert!(tx.get("q", &k).expect(FREE) == row, "a scan and a read differ at row {n}");
                }
                tx.rollback();
                d.idle(2_000);
            }
        }
    });
    sees(&held, "q", &before, false);
    held.rollback();
}
