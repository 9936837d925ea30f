//! Bulk loads: tables made from sorted rows.

use super::{fill, key, value};
use crate::driver::Driver;
use crate::engine::RowList;

const FREE: &str = "there is no conflict";

fn rows(d: &Driver, count: u64, bytes: u64) -> RowList {
    let mut rng = d.rng(count ^ bytes << 20);
    (0..count)
        .map(|n| {
            let most = if rng.one_in(15) { 9_000 } else { bytes };
            (key(n), value(&mut rng, 10, most))
        })
        .collect()
}

fn update(d: &Driver, table: &str, salt: u64, times: u64) {
    let mut rng = d.rng(salt);
    for _ in 0..times {
        let mut tx = d.tx();
        tx.put(table, &key(rng.below(130)), &value(&mut rng, 10, 700)).expect(FREE);
        tx.delete(table, &key(rng.below(130))).expect(FREE);
        tx.commit();
    }
}

/// Loads into pages of dropped tables and abandoned loads, while redo of these pages lies above the
/// checkpoint.
pub(super) fn over_old_pages(d: &Driver) {
    d.create("old");
    fill(d, "old", 130, 900);
    d.checkpoint();
    // The redo above the checkpoint does not initialise these pages again. Reads evict some of them
    // from the pool.
    update(d, "old", 3, 8);
    let tx = d.tx();
    for n in 0..130 {
        tx.get("old", &key(n)).expect(FREE);
    }
    tx.rollback();
    d.drop_table("old");
    d.load("t", rows(d, 50, 500));
    update(d, "t", 1, 4);
    d.abandon_load("u", &rows(d, 60, 300));
    d.load("u", rows(d, 30, 800));
    d.drop_table("t");
    d.load("t", rows(d, 45, 600));
    update(d, "t", 2, 6);
    d.idle(100_000);
}

pub(super) fn beside(d: &Driver) {
    d.create("steady");
    d.threads(3, |d, id| match id {
        0 => {
            d.load("a", rows(d, 40, 400));
            update(d, "a", 1, 3);
            d.abandon_load("b", &rows(d, 50, 400));
            d.load("b", rows(d, 0, 0));
        }
        1 => update(d, "steady", 2, 12),
        _ => {
            for _ in 0..4 {
                d.idle(1_500);
                d.checkpoint();
            }
            d.load("c", rows(d, 35, 700));
        }
    });
}

/// Several batches each, so that one is written while the next is made. The pages of an abandoned
/// load are free at once, and others use them.
pub(super) fn long(d: &Driver) {
    d.create("steady");
    d.threads(3, |d, id| match id {
        0 => {
            d.abandon_load("a", &rows(d, 150, 700));
            d.load("a", rows(d, 130, 700));
            d.abandon_load("d", &rows(d, 120, 750));
            fill(d, "a", 60, 300);
        }
        1 => {
            d.abandon_load("b", &rows(d, 140, 650));
            d.load("b", rows(d, 110, 700));
        }
        _ => {
            for n in 0..3 {
                update(d, "steady", n, 6);
                d.checkpoint();
                fill(d, "steady", 50, 300 + n);
            }
        }
    });
}
