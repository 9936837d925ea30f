//! Commits with bookmarks: recovery finds that of the last commit which it finds.

use super::{fill, key, value};
use crate::driver::{Driver, How, Txn};
use crate::held::REPEATABLE;
use millpond::{Durability, Isolation};

const ROWS: u64 = 5;
/// A row that all threads change.
const SHARED: u64 = 200;

fn committed(durability: Durability) -> How {
    How { isolation: Isolation::ReadCommitted, durability }
}

/// Two threads commit as a server with a binary log does, one with bookmarks alone, one without
/// any. They change rows of each other, so that what a transaction has seen matters.
pub(super) fn beside(d: &Driver) {
    d.create("t");
    fill(d, "t", 4 * ROWS, 200);
    d.threads(4, |d, id| {
        let mut rng = d.rng(id);
        for n in 0..8u64 {
            let bookmark = format!("{id} {n}").into_bytes();
            let bytes = if rng.one_in(6) { 6_000 } else { 200 };
            let (own, new) = (key(id * ROWS + rng.below(ROWS)), value(&mut rng, 10, bytes));
            let work = |tx: &mut Txn| {
                tx.put("t", &own, &new)?;
                tx.put("t", &key(SHARED), &bookmark)
            };
            let durability = if rng.one_in(3) { Durability::Sync } else { Durability::None };
            match id {
                0 => d.retry(committed(durability), work),
                1 => d.retry_at(committed(durability), &bookmark, work),
                _ => {
                    let (xid, wait) = ([REPEATABLE, &bookmark].concat(), rng.below(1_500));
                    d.retry_repeatable(committed(durability), (&xid, &bookmark), |d| d.idle(wait), work);
                }
            }
            if rng.one_in(4) {
                d.checkpoint();
            }
            d.idle(rng.below(1_500));
        }
    });
}
