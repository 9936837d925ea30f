//! Serializable transactions: what a transaction has read must still be true when it commits.

use super::key;
use crate::driver::{Driver, How, Txn};
use base::sync::sim::pause;
use millpond::{Durability, Isolation, Result};

const FREE: &str = "there is no conflict";
const SERIALIZABLE: How = How { isolation: Isolation::Serializable, durability: Durability::Sync };

/// Inserts a row for `n` if a scan finds none. Returns whether it did. There may be at most one
/// such row.
fn be_first(tx: &mut Txn, n: u64, id: u64) -> Result<bool> {
    let rows = tx.scan("t")?;
    let free = !rows.iter().any(|(k, _)| k.starts_with(format!("{n}-").as_bytes()));
    if free {
        tx.put("t", format!("{n}-{id}").as_bytes(), b"first")?;
    }
    Ok(free)
}

/// Checks that every `n` has one row; if `some_missing`, it may have none.
fn one_each(d: &Driver, count: u64, some_missing: bool) {
    let tx = d.tx();
    let rows = tx.scan("t").expect(FREE);
    tx.rollback();
    for n in 0..count {
        let found = rows.iter().filter(|(k, _)| k.starts_with(format!("{n}-").as_bytes())).count();
        assert!(found <= 1 && (found == 1 || some_missing), "{found} were the first for {n}");
    }
}

pub(super) fn first(d: &Driver) {
    d.create("t");
    d.threads(3, |d, id| {
        for n in 0..5 {
            d.retry(SERIALIZABLE, |tx| be_first(tx, n, id).map(drop));
        }
    });
    one_each(d, 5, false);
}

fn number(bytes: Option<Vec<u8>>) -> i64 {
    bytes.and_then(|b| Some(i64::from_be_bytes(b.get(..8)?.try_into().ok()?))).unwrap_or(0)
}

/// Pairs of accounts: one of a pair may be overdrawn while the other covers it, which write skew
/// would break. The threads also delete and insert other rows, and some transactions roll back.
pub(super) fn overdrafts(d: &Driver) {
    const PAIRS: u64 = 2;
    d.create("t");
    let mut tx = d.tx();
    for n in 0..PAIRS * 2 {
        tx.put("t", &key(n), &60i64.to_be_bytes()).expect(FREE);
    }
    tx.commit();
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        for n in 0..8 {
            let (pair, side, amount) = (rng.below(PAIRS), rng.below(2), rng.between(20, 80) as i64);
            let keys = [key(pair * 2 + side), key(pair * 2 + 1 - side)];
            let rolls_back = rng.one_in(5);
            if rolls_back {
                let mut tx = d.tx_with(SERIALIZABLE);
                // A conflict does not matter: it rolls back anyway.
                let _ = tx.get("t", &keys[0]).and_then(|_| tx.put("t", &keys[1], &(-1000i64).to_be_bytes()));
                pause(rng.below(300));
                tx.rollback();
                continue;
            }
            d.retry(SERIALIZABLE, |tx| {
                let balance = [number(tx.get("t", &keys[0])?), number(tx.get("t", &keys[1])?)];
                assert!(balance[0] + balance[1] >= 0, "a pair is overdrawn: {balance:?}");
                if balance[0] + balance[1] >= amount {
                    tx.put("t", &keys[0], &(balance[0] - amount).to_be_bytes())?;
                } else {
                    tx.put("t", &keys[1], &(balance[1] + 50).to_be_bytes())?;
                }
                let own = key(100 + id);
                if n % 2 == 0 { tx.put("t", &own, b"beside") } else { tx.delete("t", &own).map(drop) }
            });
        }
    });
    let tx = d.tx();
    for pair in 0..PAIRS {
        let sum: i64 =
            [0, 1].map(|side| number(tx.get("t", &key(pair * 2 + side)).expect(FREE))).iter().sum();
        assert!(sum >= 0, "pair {pair} is overdrawn: {sum}");
    }
    tx.rollback();
}

/// As [`first`], but the transactions are prepared for a while and then committed or rolled back.
/// What they have read must stay true until then.
pub(super) fn prepared(d: &Driver) {
    d.create("t");
    d.create("u");
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        for n in 0..4 {
            let xid = format!("{id} {n}").into_bytes();
            d.retry_prepare(SERIALIZABLE, &xid, |tx| {
                be_first(tx, n, id)?;
                tx.put("u", &key(id * 10 + n), b"tried")
            });
            d.idle(rng.below(500));
            if rng.one_in(3) {
                d.rollback_prepared(&xid);
            } else {
                d.commit_prepared(&xid);
            }
        }
    });
    one_each(d, 4, true);
}
