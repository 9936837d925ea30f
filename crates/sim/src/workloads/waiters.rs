//! Crowds of waiters: on a row, and in circles. Nobody's time may run out, for everybody who waits is waited for by few and
//! each of them ends soon; only a place in a circle may be a reason to begin anew.

use super::{key, stands_in, value};
use crate::driver::{Driver, Txn};
use crate::subject::{Durability, Fail, How, Isolation, Result};
use base::sync::sim::simulated_us;

const FREE: &str = "nobody is in the way";

/// Near the time limit of locks, microseconds. Who waits for so long was forgotten.
const LONG_US: u64 = 4_500_000;

const UNSYNCED: How = How { isolation: Isolation::ReadCommitted, durability: Durability::None };

/// Begins transactions until one commits. Neither may it run out of time nor wait for long.
fn through(d: &Driver, mut work: impl FnMut(&mut Txn) -> Result) {
    loop {
        let mut tx = d.tx_with(UNSYNCED);
        let begun_us = simulated_us();
        let done = work(&mut tx);
        let took_us = simulated_us().zip(begun_us).map_or(0, |(now, begun)| now - begun);
        assert!(took_us < LONG_US, "locks were waited for {took_us} µs");
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

/// A hundred at once want one row.
pub(super) fn one_row(d: &Driver) {
    if stands_in(d) {
        return;
    }
    fill(d, 1);
    d.threads(100, |d, id| {
        through(d, |tx| tx.put("t", &key(0), &id.to_be_bytes()));
    });
}

/// A hundred at once want two rows of a few in any order.
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
        through(d, |tx| {
            tx.put("t", &key(one), &new)?;
            tx.put("t", &key(two), &new)
        });
    });
}
