//! Crowds of waiters: on a row, in circles, and on ranges. Nobody's time may run out, for everybody who waits is waited for by few and
//! each of them ends soon; only a place in a circle may be a reason to begin anew.

use super::{key, stands_in, value};
use crate::driver::{Driver, Txn};
use crate::subject::{Durability, Fail, How, Isolation, Result};
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::sim::{pause, simulated_us};
use std::sync::Arc;

const FREE: &str = "nobody is in the way";

/// Near the time limit of locks, microseconds. Who waits for so long was forgotten.
const LONG_US: u64 = 4_500_000;

fn with(isolation: Isolation) -> How {
    How { isolation, durability: Durability::None }
}

/// Begins transactions until one commits. Neither may it run out of time nor wait for long.
fn through(d: &Driver, isolation: Isolation, mut work: impl FnMut(&mut Txn) -> Result) {
    loop {
        let mut tx = d.tx_with(with(isolation));
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
        through(d, Isolation::ReadCommitted, |tx| tx.put("t", &key(0), &id.to_be_bytes()));
    });
}

/// A hundred at once want two rows of a few in any order.
pub(super) fn circles(d: &Driver) {
    const ROWS: u64 = 4;
    if stands_in(d) {
        return;
    }
    fill(d, ROWS);
    d.threads(100, |d, id| {
        let mut rng = d.rng(id);
        let (one, two) = (rng.below(ROWS), rng.below(ROWS));
        let new = value(&mut rng, 4, 20);
        through(d, Isolation::ReadCommitted, |tx| {
            tx.put("t", &key(one), &new)?;
            tx.put("t", &key(two), &new)
        });
    });
}

/// Writers beside scanners who keep all rows for a while and rest for a while. As many scanners as here leave no moment in which none of them keeps a
/// row: where a scan passed a writer who waits, no writer would ever have his turn.
pub(super) fn ranges(d: &Driver) {
    const ROWS: u64 = 8;
    const WRITERS: u64 = 4;
    const WRITES: u64 = 3;
    const SCANNERS: u64 = 12;
    const KEEP_US: u64 = 40_000;
    const REST_US: u64 = 20_000;
    if stands_in(d) {
        return;
    }
    fill(d, ROWS);
    let writing = Arc::new(AtomicU64::new(WRITERS));
    d.threads(WRITERS + SCANNERS, move |d, id| {
        let mut rng = d.rng(id);
        if id < WRITERS {
            for _ in 0..WRITES {
                let (at, new) = (rng.below(ROWS), value(&mut rng, 4, 20));
                through(d, Isolation::Serializable, |tx| tx.put("t", &key(at), &new));
                pause(rng.below(REST_US));
            }
            writing.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        while writing.load(Ordering::Acquire) > 0 {
            through(d, Isolation::Serializable, |tx| {
                let rows = tx.scan("t")?;
                assert!(rows.len() as u64 == ROWS, "a scan shows {} rows", rows.len());
                pause(rng.below(KEEP_US));
                Ok(())
            });
            pause(rng.below(REST_US));
        }
    });
}
