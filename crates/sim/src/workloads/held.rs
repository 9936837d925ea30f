//! Transactions that their sessions prepare and hold, as a server with a binary log has them.

use super::{fill, key, value};
use crate::driver::{Driver, How};
use millpond::{Durability, Isolation};

const COMMITTED: How = How { isolation: Isolation::ReadCommitted, durability: Durability::Sync };
const ROWS: u64 = 5;

/// Three threads hold what they prepare, each its own rows, and decide it in every way. A fourth
/// commits rows of its own, so that the log is synced between. Log segments are small, and
/// checkpoints come while transactions are held.
pub(super) fn beside(d: &Driver) {
    d.create("t");
    fill(d, "t", 4 * ROWS, 200);
    d.threads(4, |d, id| {
        let mut rng = d.rng(id);
        for n in 0..6u64 {
            let change = |tx: &mut crate::driver::Txn, rng: &mut base::prng::Prng| {
                for _ in 0..rng.between(1, 4) {
                    let k = key(id * ROWS + rng.below(ROWS));
                    let bytes = if rng.one_in(5) { 7_000 } else { 300 };
                    match rng.below(4) {
                        0 => drop(tx.delete("t", &k)?),
                        _ => tx.put("t", &k, &value(rng, 10, bytes))?,
                    }
                }
                tx.put("t", &key(100 + id), &value(rng, 10, 20))
            };
            if id == 3 {
                d.retry(COMMITTED, |tx| change(tx, &mut rng));
                d.idle(rng.below(2_000));
                continue;
            }
            let xid = format!("{id} {n}").into_bytes();
            let mut held = d.retry_hold(COMMITTED, &xid, |tx| change(tx, &mut rng));
            d.idle(rng.below(2_500));
            if rng.one_in(2) {
                d.checkpoint();
            }
            match rng.below(6) {
                0 => held.rollback(),
                1 => held.commit(Durability::Sync),
                2 => {
                    drop(held);
                    d.idle(rng.below(1_000));
                    if rng.one_in(2) { d.commit_prepared(&xid) } else { d.rollback_prepared(&xid) }
                }
                how => {
                    held.commit_ordered();
                    d.idle(rng.below(1_000));
                    held.commit(if how == 3 { Durability::Sync } else { Durability::None });
                }
            }
        }
    });
}

/// Transactions are held when the process ends, one of them after its commit. The next process
/// decides the others by their names.
pub(super) fn reopen(d: &Driver) {
    d.create("t");
    fill(d, "t", 10, 100);
    let mut rng = d.rng(1);
    for round in 0..2u64 {
        let hold = |n: u64, rng: &mut base::prng::Prng| {
            d.retry_hold(COMMITTED, &[b'x', round as u8, n as u8], |tx| {
                tx.put("t", &key(n), &value(rng, 10, 200))?;
                tx.put("t", &key(50 + n), &value(rng, 10, 5_000))
            })
        };
        let mut committed = hold(0, &mut rng);
        let left = [hold(1, &mut rng), hold(2, &mut rng)];
        if round == 1 {
            d.checkpoint();
        }
        committed.commit_ordered();
        committed.commit(Durability::None);
        drop(left);
        d.drop_and_reopen();
        d.commit_prepared(&[b'x', round as u8, 1]);
        d.checkpoint();
        d.rollback_prepared(&[b'x', round as u8, 2]);
    }
}
