//! Many transactions that wait for the same rows, with and without deadlock cycles. No lock wait
//! may time out, because every transaction in front of a waiter ends soon. The only allowed reason
//! for a retry is a deadlock.

use super::{key, stands_in, value};
use crate::driver::{Driver, Txn};
use crate::subject::{Durability, Fail, How, Isolation, Result};
use base::sync::sim::simulated_us;

const FREE: &str = "there is no conflict";

/// Close to the lock timeout, microseconds. A transaction that waits so long was not woken.
const LONG_US: u64 = 4_500_000;

const UNSYNCED: How = How { isolation: Isolation::ReadCommitted, durability: Durability::None };

/// Runs `work` in new transactions until one commits. Panics on a timeout or a long wait.
fn commit_in_time(d: &Driver, mut work: impl FnMut(&mut Txn) -> Result) {
    loop {
        let mut tx = d.tx_with(UNSYNCED);
        let begun_us = simulated_us();
        let done = work(&mut tx);
        let took_us = simulated_us().zip(begun_us).map_or(0, |(now, begun)| now - begun);
        assert!(took_us < LONG_US, "the transaction waited for locks for {took_us} µs");
        match done {
            Ok(()) => return tx.commit(),
            Err(Fail::Retry(what)) => assert!(what.contains("deadlock"), "{what}"),
            Err(fail) => panic!("{fail}"),
        }
    }
}

fn fill(d: &Driver, rows: u64) {
    d.create("t");
    let mut tx = d.tx();
    (0..rows).for_each(|n| tx.put("t", &key(n), b"first").expect(FREE));
    tx.commit();
}

/// A hundred threads write the same row.
pub(super) fn one_row(d: &Driver) {
    if stands_in(d) {
        return;
    }
    fill(d, 1);
    d.threads(100, |d, id| {
        commit_in_time(d, |tx| tx.put("t", &key(0), &id.to_be_bytes()));
    });
}

/// A hundred threads write two of four rows, in any order.
pub(super) fn cycles(d: &Driver) {
    const ROWS: u64 = 4;
    if stands_in(d) {
        return;
    }
    fill(d, ROWS);
    d.threads(100, |d, id| {
        let mut rng = d.rng(id);
        let (one, two) = (rng.below(ROWS), rng.below(ROWS));
        let new = value(&mut rng, 4, 20);
        commit_in_time(d, |tx| {
            tx.put("t", &key(one), &new)?;
            tx.put("t", &key(two), &new)
        });
    });
}
