//! Many transactions that wait for the same rows and ranges, with and without deadlock cycles. No
//! lock wait may time out, because every transaction in front of a waiter ends soon. The only
//! allowed reason for a retry is a deadlock.

use super::{key, value};
use crate::driver::{Driver, How, Txn};
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::sim::{pause, simulated_us};
use millpond::{Durability, Error, Isolation, Result};
use std::sync::Arc;

const FREE: &str = "there is no conflict";

/// Close to the lock timeout, microseconds. A transaction that waits so long was not woken.
const LONG_US: u64 = 4_500_000;

fn with(isolation: Isolation) -> How {
    How { isolation, durability: Durability::None }
}

/// Runs `work` in new transactions until one commits. Panics on a timeout or a long wait.
fn commit_in_time(d: &Driver, isolation: Isolation, mut work: impl FnMut(&mut Txn) -> Result) {
    loop {
        let mut tx = d.tx_with(with(isolation));
        let begun_us = simulated_us();
        let done = work(&mut tx);
        let took_us = simulated_us().zip(begun_us).map_or(0, |(now, begun)| now - begun);
        assert!(took_us < LONG_US, "the transaction waited for locks for {took_us} µs");
        match done {
            Ok(()) => return tx.commit(),
            Err(Error::Deadlock) => {}
            Err(e) => panic!("{e}"),
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
    fill(d, 1);
    d.threads(100, |d, id| {
        commit_in_time(d, Isolation::ReadCommitted, |tx| tx.put("t", &key(0), &id.to_be_bytes()));
    });
}

/// A hundred threads write two of four rows, in any order.
pub(super) fn cycles(d: &Driver) {
    const ROWS: u64 = 4;
    fill(d, ROWS);
    d.threads(100, |d, id| {
        let mut rng = d.rng(id);
        let (one, two) = (rng.below(ROWS), rng.below(ROWS));
        let new = value(&mut rng, 4, 20);
        commit_in_time(d, Isolation::ReadCommitted, |tx| {
            tx.put("t", &key(one), &new)?;
            tx.put("t", &key(two), &new)
        });
    });
}

/// Writers beside scanners that lock all rows for a while and rest for a while. With so many
/// scanners some rows are locked at every moment. If scans passed waiting writers, no writer would
/// ever get its turn.
pub(super) fn ranges(d: &Driver) {
    const ROWS: u64 = 8;
    const WRITERS: u64 = 4;
    const WRITES: u64 = 3;
    const SCANNERS: u64 = 12;
    const KEEP_US: u64 = 40_000;
    const REST_US: u64 = 20_000;
    fill(d, ROWS);
    let writing = Arc::new(AtomicU64::new(WRITERS));
    d.threads(WRITERS + SCANNERS, move |d, id| {
        let mut rng = d.rng(id);
        if id < WRITERS {
            for _ in 0..WRITES {
                let (at, new) = (rng.below(ROWS), value(&mut rng, 4, 20));
                commit_in_time(d, Isolation::Serializable, |tx| tx.put("t", &key(at), &new));
                pause(rng.below(REST_US));
            }
            writing.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        while writing.load(Ordering::Acquire) > 0 {
            commit_in_time(d, Isolation::Serializable, |tx| {
                let rows = tx.scan("t")?;
                assert!(rows.len() as u64 == ROWS, "a scan shows {} rows", rows.len());
                pause(rng.below(KEEP_US));
                Ok(())
            });
            pause(rng.below(REST_US));
        }
    });
}
