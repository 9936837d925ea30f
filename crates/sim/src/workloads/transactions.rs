//! Transactions of one thread: long ones, rollbacks, prepared ones, every durability.

use super::{fill, key, value};
use crate::driver::{Driver, How};
use millpond::Durability;

const FREE: &str = "there is no conflict";

pub(super) fn savepoints(d: &Driver) {
    d.create("t");
    fill(d, "t", 10, 100);
    let mut rng = d.rng(1);
    for round in 0..6 {
        let mut tx = d.tx();
        tx.put("t", &key(rng.below(20)), &value(&mut rng, 10, 200)).expect(FREE);
        let outer = tx.savepoint();
        tx.delete("t", &key(rng.below(20))).expect(FREE);
        let inner = tx.savepoint();
        for _ in 0..5 {
            tx.put("t", &key(rng.below(20)), &value(&mut rng, 10, 300)).expect(FREE);
        }
        if round % 2 == 0 {
            tx.rollback_to(&inner).expect(FREE);
            tx.insert("t", &key(20 + rng.below(10)), &value(&mut rng, 10, 10)).expect(FREE);
        }
        if round % 3 == 0 {
            tx.rollback_to(&outer).expect(FREE);
            tx.put("t", &key(rng.below(20)), &value(&mut rng, 10, 6_000)).expect(FREE);
            tx.rollback_to(&outer).expect(FREE);
        }
        if round == 4 {
            tx.rollback();
        } else {
            tx.commit();
        }
    }
}

pub(super) fn long_commit(d: &Driver) {
    d.create("t");
    d.create("u");
    fill(d, "t", 20, 200);
    let mut rng = d.rng(1);
    let mut long = d.tx();
    for n in 0..6 {
        for _ in 0..6 {
            long.put("t", &key(rng.below(40)), &value(&mut rng, 50, 300)).expect(FREE);
        }
        let mut tx = d.tx();
        tx.put("u", &key(n), &value(&mut rng, 50, 100)).expect(FREE);
        tx.commit();
        if n % 2 == 1 {
            d.checkpoint();
        }
    }
    long.commit();
    d.checkpoint();
}

pub(super) fn long_rollback(d: &Driver) {
    d.create("t");
    d.create("u");
    fill(d, "t", 20, 200);
    let mut rng = d.rng(1);
    let mut long = d.tx();
    for n in 0..8 {
        for _ in 0..6 {
            long.put("t", &key(rng.below(40)), &value(&mut rng, 100, 600)).expect(FREE);
        }
        long.delete("t", &key(rng.below(40))).expect(FREE);
        let mut tx = d.tx();
        for _ in 0..8 {
            tx.put("u", &key(rng.below(20)), &value(&mut rng, 200, 600)).expect(FREE);
        }
        tx.commit();
        if n % 3 == 2 {
            d.checkpoint();
        }
    }
    long.rollback();
    d.checkpoint();
    let mut tx = d.tx();
    tx.put("t", &key(1), &value(&mut rng, 5, 5)).expect(FREE);
    tx.commit();
}

pub(super) fn large_rollback(d: &Driver) {
    d.create("t");
    fill(d, "t", 60, 300);
    let mut rng = d.rng(1);
    let mut tx = d.tx();
    for n in 0..120 {
        match n % 3 {
            0 => drop(tx.delete("t", &key(n / 2)).expect(FREE)),
            _ => tx.put("t", &key(n), &value(&mut rng, 200, 500)).expect(FREE),
        }
    }
    tx.rollback();
    for n in 0..6 {
        d.retry(How::default(), |tx| {
            tx.put("t", &key(n * 20), &value(&mut rng, 5, 50))?;
            tx.delete("t", &key(n * 7)).map(drop)
        });
    }
    d.idle(200_000);
    d.checkpoint();
}

pub(super) fn unfinished(d: &Driver) {
    d.create("t");
    fill(d, "t", 20, 200);
    let mut rng = d.rng(1);
    for _ in 0..3 {
        let mut open = d.tx();
        for n in 0..10 {
            open.put("t", &key(n * 3), &value(&mut rng, 50, 400)).expect(FREE);
        }
        open.delete("t", &key(7)).expect(FREE);
        let mut tx = d.tx();
        tx.put("t", &key(100 + rng.below(5)), &value(&mut rng, 5, 50)).expect(FREE);
        tx.commit();
        d.checkpoint();
        drop(open);
        d.drop_and_reopen();
    }
}

pub(super) fn bounded(d: &Driver) {
    d.create("t");
    let mut rng = d.rng(1);
    let how = How { durability: Durability::Bounded { ms: 3, bytes: 4_000 }, ..How::default() };
    for n in 0..30 {
        let mut tx = d.tx_with(how);
        tx.put("t", &key(rng.below(30)), &value(&mut rng, 50, 400)).expect(FREE);
        tx.commit();
        if n % 10 == 9 {
            d.idle(10_000);
        }
    }
}

pub(super) fn unsynced(d: &Driver) {
    d.create("t");
    let mut rng = d.rng(1);
    for n in 0..50 {
        let durability = if n % 12 == 11 { Durability::Sync } else { Durability::None };
        let mut tx = d.tx_with(How { durability, ..How::default() });
        tx.put("t", &key(rng.below(30)), &value(&mut rng, 50, 900)).expect(FREE);
        tx.commit();
        d.idle(500);
    }
}

pub(super) fn prepared(d: &Driver) {
    d.create("t");
    fill(d, "t", 10, 100);
    let mut rng = d.rng(1);
    for n in 0..5u64 {
        let xid = format!("xid-{n}").into_bytes();
        let mut tx = d.tx();
        tx.put("t", &key(n), &value(&mut rng, 10, 200)).expect(FREE);
        tx.put("t", &key(50 + n), &value(&mut rng, 10, 200)).expect(FREE);
        tx.delete("t", &key(n + 5)).expect(FREE);
        tx.prepare(&xid);
        if n == 2 {
            d.checkpoint();
        }
        let mut tx = d.tx();
        tx.put("t", &key(100 + n), &value(&mut rng, 10, 20)).expect(FREE);
        tx.commit();
        if n % 2 == 0 { d.commit_prepared(&xid) } else { d.rollback_prepared(&xid) }
    }
}

pub(super) fn prepared_reopen(d: &Driver) {
    d.create("t");
    fill(d, "t", 10, 100);
    let mut rng = d.rng(1);
    for n in 0..3u64 {
        let mut tx = d.tx();
        tx.put("t", &key(n), &value(&mut rng, 10, 200)).expect(FREE);
        tx.put("t", &key(50 + n), &value(&mut rng, 10, 5_000)).expect(FREE);
        tx.prepare(&[b'x', n as u8]);
    }
    d.checkpoint();
    d.reopen();
    d.commit_prepared(&[b'x', 1]);
    d.checkpoint();
    d.drop_and_reopen();
    d.rollback_prepared(&[b'x', 0]);
    d.commit_prepared(&[b'x', 2]);
    let mut tx = d.tx();
    tx.put("t", &key(0), &value(&mut rng, 10, 20)).expect(FREE);
    tx.commit();
}

pub(super) fn futures(d: &Driver) {
    d.create("t");
    d.threads(2, |d, id| {
        let mut rng = d.rng(id);
        for _ in 0..8 {
            let mut tx = d.tx();
            tx.put("t", &key(id * 100 + rng.below(10)), &value(&mut rng, 10, 300)).expect(FREE);
            tx.commit_async();
        }
    });
}

pub(super) fn insert_delete(d: &Driver) {
    d.create("t");
    fill(d, "t", 8, 100);
    let mut rng = d.rng(1);
    for n in 0..24 {
        let mut tx = d.tx();
        let k = key(rng.below(8));
        tx.delete("t", &k).expect(FREE);
        let new = tx.insert("t", &k, &value(&mut rng, 10, 300)).expect(FREE);
        assert!(new, "it was just deleted");
        let again = tx.insert("t", &k, b"again").expect(FREE);
        assert!(!again, "it was just inserted");
        tx.commit();
        if n % 8 == 7 {
            d.idle(50_000);
        }
    }
}
