//! Mechanisms that other workloads force alone, here with conflicting threads: deadlock victims,
//! prepared transactions, large rollbacks and purge.

use super::{fill, key, value};
use crate::driver::{Driver, How, Txn};
use base::sync::sim::pause;
use millpond::{Durability, Isolation, Result};

const FREE: &str = "there is no conflict";
const COMMITTED: How = How { isolation: Isolation::ReadCommitted, durability: Durability::Sync };

/// As [`Txn::insert`], but an existing key is no error.
fn insert(tx: &mut Txn, k: &[u8], v: &[u8]) -> Result {
    tx.insert("t", k, v).map(drop)
}

/// Deadlock cycles of transactions with much to undo: rows, long values, savepoints, rollbacks to
/// some of these. One thread takes checkpoints, so the victims' undo is hardened and their versions
/// reach the file before they are reverted.
pub(super) fn victims(d: &Driver) {
    d.create("t");
    fill(d, "t", 8, 200);
    d.threads(4, |d, id| {
        let mut rng = d.rng(id);
        if id == 3 {
            for _ in 0..6 {
                d.idle(rng.below(3_000));
                d.checkpoint();
            }
            return;
        }
        for n in 0..5 {
            let mut keys: Vec<_> = (0..4).map(|_| rng.below(8)).collect();
            if id == 1 {
                keys.sort_unstable();
            }
            let mut own = rng.clone();
            rng.next_u64();
            d.retry(COMMITTED, |tx| {
                for (step, &k) in keys.iter().enumerate() {
                    let mark = tx.savepoint();
                    let long = own.one_in(6);
                    tx.put("t", &key(k), &value(&mut own, 20, if long { 9_000 } else { 300 }))?;
                    pause(own.below(150));
                    match own.below(5) {
                        0 => tx.rollback_to(&mark)?,
                        1 => drop(tx.delete("t", &key(k))?),
                        _ => insert(tx, &key(100 + id * 100 + n * 10 + step as u64), b"beside")?,
                    }
                }
                Ok(())
            });
        }
    });
}

/// Two threads prepare transactions and decide them, sometimes after a checkpoint. Two others wait
/// for the same rows, change them and roll back. Log segments are small, so they are recycled while
/// transactions are prepared.
pub(super) fn prepared(d: &Driver) {
    const ROWS: u64 = 5;
    d.create("t");
    fill(d, "t", 2 * ROWS, 200);
    d.threads(4, |d, id| {
        let mut rng = d.rng(id);
        for n in 0..5u64 {
            if id < 2 {
                let xid = format!("{id} {n}").into_bytes();
                d.retry_prepare(COMMITTED, &xid, |tx| {
                    for _ in 0..rng.between(1, 6) {
                        let k = key(id * ROWS + rng.below(ROWS));
                        let bytes = if rng.one_in(5) { 7_000 } else { 300 };
                        match rng.below(4) {
                            0 => drop(tx.delete("t", &k)?),
                            _ => tx.put("t", &k, &value(&mut rng, 10, bytes))?,
                        }
                    }
                    tx.put("t", &key(100 + id), &value(&mut rng, 10, 20))
                });
                d.idle(rng.below(2_500));
                if rng.one_in(2) {
                    d.checkpoint();
                }
                if rng.one_in(3) {
                    d.rollback_prepared(&xid);
                } else {
                    d.commit_prepared(&xid);
                }
                continue;
            }
            // The commit of a prepared transaction has no LSN here, so its rows must not get other
            // commits meanwhile: these roll back.
            let mut tx = d.tx_with(COMMITTED);
            for _ in 0..3 {
                let k = key(rng.below(2 * ROWS));
                let outcome = match rng.below(3) {
                    0 => tx.get_for_update("t", &k).map(drop),
                    1 => tx.delete("t", &k).map(drop),
                    _ => tx.put("t", &k, &value(&mut rng, 10, 400)),
                };
                match outcome {
                    Ok(()) => {}
                    Err(e) if e.is_retryable() => break,
                    Err(e) => panic!("a transaction failed: {e}"),
                }
                pause(rng.below(200));
            }
            tx.rollback();
            let mut tx = d.tx_with(COMMITTED);
            for _ in 0..3 {
                tx.put("t", &key(200 + id * 10 + rng.below(8)), &value(&mut rng, 200, 900)).expect(FREE);
            }
            tx.commit();
        }
    });
}

/// Rollbacks in the background, while other threads write the rows and take checkpoints.
pub(super) fn rollbacks(d: &Driver) {
    const ROWS: u64 = 30;
    d.create("t");
    fill(d, "t", ROWS, 200);
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        for _ in 0..3 {
            if id == 0 {
                // More undo than the 64 KiB that the caller's thread reverts itself: values just
                // too short for a chain, which overwrite each other.
                let mut tx = d.tx_with(COMMITTED);
                let mut outcome = Ok(());
                for n in 0..130 {
                    outcome = outcome.and_then(|()| match n % 10 {
                        9 => tx.delete("t", &key(n % ROWS)).map(drop),
                        _ => tx.put("t", &key(n / 10), &value(&mut rng, 600, 700)),
                    });
                }
                // It may be a deadlock victim; it rolls back anyway.
                drop(outcome);
                tx.rollback();
                d.idle(rng.below(500));
                continue;
            }
            for _ in 0..3 {
                let (a, b) = (rng.below(ROWS), rng.below(ROWS));
                let bytes = [value(&mut rng, 10, 300), value(&mut rng, 10, 300)];
                d.retry(COMMITTED, |tx| {
                    tx.put("t", &key(a), &bytes[0])?;
                    if a % 2 == 0 {
                        tx.delete("t", &key(b)).map(drop)
                    } else {
                        insert(tx, &key(b), &bytes[1])
                    }
                });
            }
            if id == 2 {
                d.checkpoint();
            }
        }
    });
}

/// Rows are deleted and inserted again under short snapshots, so purge works on rows that change at
/// the same time, and leaves merge and split. Some values are long; only purge frees their pages.
pub(super) fn purge(d: &Driver) {
    const ROWS: u64 = 40;
    d.create("t");
    fill(d, "t", ROWS, 300);
    d.threads(4, |d, id| {
        let mut rng = d.rng(id);
        if id == 3 {
            for _ in 0..5 {
                let tx = d.tx();
                let before = tx.scan("t").expect(FREE);
                d.idle(rng.below(4_000));
                assert!(tx.scan("t").expect(FREE) == before, "the snapshot has changed");
                tx.rollback();
                d.checkpoint();
            }
            return;
        }
        for _ in 0..8 {
            let from = rng.below(ROWS);
            let mut own = rng.clone();
            rng.next_u64();
            let durability = if own.one_in(2) { Durability::None } else { Durability::Sync };
            d.retry(How { durability, ..COMMITTED }, |tx| {
                for n in from..from + 6 {
                    let k = key(n % ROWS);
                    if !tx.delete("t", &k)? || own.one_in(4) {
                        let most = if own.one_in(6) { 8_000 } else { 300 };
                        insert(tx, &k, &value(&mut own, 10, most))?;
                    }
                }
                Ok(())
            });
            d.idle(rng.below(800));
        }
    });
}
