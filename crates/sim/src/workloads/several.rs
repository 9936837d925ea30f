//! Several threads that write at once.

use super::{fill, key, value};
use crate::driver::{Driver, How, Txn};
use millpond::{Durability, Isolation, Result};

const FREE: &str = "there is no conflict";

fn with(isolation: Isolation) -> How {
    How { isolation, ..How::default() }
}

fn number(bytes: Option<Vec<u8>>) -> u64 {
    bytes.and_then(|b| Some(u64::from_be_bytes(b.get(..8)?.try_into().ok()?))).unwrap_or(0)
}

fn add(tx: &mut Txn, k: &[u8], n: i64) -> Result {
    let old = number(tx.get_for_update("t", k)?);
    tx.put("t", k, &old.wrapping_add_signed(n).to_be_bytes())
}

pub(super) fn writers(d: &Driver) {
    d.create("t");
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        for n in 0..12 {
            let mut tx = d.tx();
            tx.put("t", &key(id * 1000 + n), &value(&mut rng, 20, 300)).expect(FREE);
            tx.put("t", &key(id * 1000 + rng.below(12)), &value(&mut rng, 20, 300)).expect(FREE);
            tx.commit();
        }
    });
}

pub(super) fn same_rows(d: &Driver) {
    d.create("t");
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        for _ in 0..8 {
            let k = key(rng.below(3));
            d.retry(with(Isolation::ReadCommitted), |tx| add(tx, &k, 1));
        }
    });
    let tx = d.tx();
    let sum: u64 = (0..3).map(|n| number(tx.get("t", &key(n)).expect(FREE))).sum();
    tx.rollback();
    assert!(sum == 24, "an update was lost: {sum} of 24");
}

pub(super) fn deadlocks(d: &Driver) {
    d.create("t");
    fill(d, "t", 4, 10);
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        for _ in 0..6 {
            let (a, b) = (rng.below(4), rng.below(4));
            let (va, vb) = (value(&mut rng, 10, 50), value(&mut rng, 10, 50));
            d.retry(with(Isolation::ReadCommitted), |tx| {
                tx.put("t", &key(a), &va)?;
                base::sync::sim::pause(100);
                tx.put("t", &key(b), &vb)
            });
        }
    });
}

pub(super) fn transfers(d: &Driver) {
    const ACCOUNTS: u64 = 6;
    d.create("t");
    let mut tx = d.tx();
    for n in 0..ACCOUNTS {
        tx.put("t", &key(n), &100u64.to_be_bytes()).expect(FREE);
    }
    tx.commit();
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        for _ in 0..8 {
            if id == 2 {
                let tx = d.tx();
                for _ in 0..2 {
                    let rows = tx.scan("t").expect(FREE).into_iter();
                    let sum = rows.fold(0u64, |sum, (_, v)| sum.wrapping_add(number(Some(v))));
                    assert!(sum == 100 * ACCOUNTS, "a snapshot shows half a transfer: {sum}");
                    d.idle(300);
                }
                tx.rollback();
                continue;
            }
            let (from, to, n) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS), rng.below(50) as i64);
            d.retry(with(Isolation::ReadCommitted), |tx| {
                add(tx, &key(from), -n)?;
                add(tx, &key(to), n)
            });
        }
    });
}

pub(super) fn old_snapshot(d: &Driver) {
    d.create("t");
    fill(d, "t", 20, 200);
    d.threads(2, |d, id| {
        let mut rng = d.rng(id);
        if id == 0 {
            let tx = d.tx();
            let before = tx.scan("t").expect(FREE);
            for _ in 0..4 {
                d.idle(4_000);
                assert!(tx.scan("t").expect(FREE) == before, "the snapshot has changed");
            }
            tx.rollback();
            return;
        }
        for n in 0..16 {
            let mut tx = d.tx();
            for _ in 0..4 {
                let k = key(rng.below(25));
                if rng.one_in(3) {
                    tx.delete("t", &k).expect(FREE);
                } else {
                    tx.put("t", &k, &value(&mut rng, 100, 400)).expect(FREE);
                }
            }
            tx.commit();
            if n % 5 == 4 {
                d.checkpoint();
            }
        }
    });
}

pub(super) fn durabilities(d: &Driver) {
    d.create("t");
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        let durability = match id {
            0 => Durability::Sync,
            1 => Durability::Bounded { ms: 2, bytes: 2_000 },
            _ => Durability::None,
        };
        for _ in 0..10 {
            let how = How { durability, isolation: Isolation::ReadCommitted };
            d.retry(how, |tx| {
                tx.put("t", &key(rng.below(12)), &value(&mut rng, 20, 200))?;
                tx.put("t", &key(100 + id), &value(&mut rng, 20, 200))
            });
        }
    });
}

/// Commits that outlive the process beside synced ones, and flushes that cover some of them.
pub(super) fn written(d: &Driver) {
    if d.keys_at_begin("t").is_none() {
        d.create("t");
    }
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        for n in 0..14 {
            let durability = match rng.below(8) {
                0 => Durability::Sync,
                1 => Durability::None,
                _ => Durability::Written { ms: rng.between(1, 30), bytes: 60_000 },
            };
            let mut tx = d.tx_with(How { durability, ..How::default() });
            for _ in 0..rng.between(1, 3) {
                let k = key(id * 100 + rng.below(8));
                // Some take more than a block of the log.
                let long = if rng.one_in(12) { 3_000 } else { 300 };
                tx.put("t", &k, &value(&mut rng, 20, long)).expect(FREE);
            }
            tx.commit();
            if id == 0 && n % 6 == 5 {
                d.checkpoint();
            }
            d.idle(rng.below(400));
        }
    });
}

pub(super) fn mixed(d: &Driver) {
    d.create("t");
    fill(d, "t", 80, 600);
    d.threads(4, |d, id| {
        let mut rng = d.rng(id);
        for _ in 0..6 {
            if id == 3 {
                d.checkpoint();
                d.idle(2_000);
                continue;
            }
            let keys: Vec<_> = (0..4).map(|_| rng.below(160)).collect();
            let mut rng2 = rng.clone();
            rng.next_u64();
            d.retry(with(Isolation::ReadCommitted), |tx| {
                for k in &keys {
                    match rng2.below(4) {
                        0 => drop(tx.delete("t", &key(*k))?),
                        1 => drop(tx.insert("t", &key(*k), &value(&mut rng2, 20, 600))?),
                        _ => tx.put("t", &key(*k), &value(&mut rng2, 20, 600))?,
                    }
                }
                Ok(())
            });
        }
    });
}

/// Two threads take checkpoints and two write, all with pauses. When a checkpoint computes how far
/// it may move, sometimes nothing is dirty and sometimes a batch is being copied.
pub(super) fn checkpoint_race(d: &Driver) {
    d.create("t");
    d.threads(4, |d, id| {
        let mut rng = d.rng(id);
        for n in 0..14 {
            d.idle(rng.below(600));
            if id < 2 {
                d.checkpoint();
                continue;
            }
            let durability = if id == 2 { Durability::None } else { Durability::Sync };
            let mut tx = d.tx_with(How { durability, ..How::default() });
            for _ in 0..rng.between(1, 3) {
                let k = key(id * 100 + rng.below(4 + n));
                tx.put("t", &k, &value(&mut rng, 200, 900)).expect(FREE);
            }
            tx.commit();
        }
    });
}

/// One thread takes checkpoints all the time. Mostly nothing is dirty, and every change happens
/// while a checkpoint computes how far it may move.
pub(super) fn checkpoint_always(d: &Driver) {
    d.create("t");
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        if id == 0 {
            for _ in 0..200 {
                d.checkpoint();
                d.idle(rng.below(40));
            }
            return;
        }
        for _ in 0..10 {
            d.idle(rng.below(1_500));
            let durability = if id == 1 { Durability::None } else { Durability::Sync };
            let mut tx = d.tx_with(How { durability, ..How::default() });
            tx.put("t", &key(id * 100 + rng.below(30)), &value(&mut rng, 200, 900)).expect(FREE);
            tx.commit();
        }
    });
}

/// Six threads with small, frequent commits: several log flushes are in flight at once and complete
/// in any order.
pub(super) fn overlapping_flushes(d: &Driver) {
    d.create("t");
    d.threads(6, |d, id| {
        let mut rng = d.rng(id);
        for n in 0..8 {
            d.idle(rng.below(120));
            let mut tx = d.tx();
            tx.put("t", &key(id * 100 + n), &value(&mut rng, 10, 60)).expect(FREE);
            tx.commit();
        }
    });
}
