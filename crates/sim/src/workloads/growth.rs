//! Trees and files grow and shrink, and log segments are recycled.

use super::{fill, key, value};
use crate::driver::Driver;

const FREE: &str = "there is no conflict";

pub(super) fn splits(d: &Driver) {
    d.create("t");
    let mut rng = d.rng(1);
    for batch in 0..8 {
        let mut tx = d.tx();
        for n in 0..12 {
            let k = if batch % 2 == 0 { batch * 12 + n } else { rng.below(5000) };
            tx.put("t", &key(k), &value(&mut rng, 100, 500)).expect(FREE);
        }
        tx.commit();
    }
}

pub(super) fn merges(d: &Driver) {
    d.create("t");
    fill(d, "t", 100, 400);
    let mut rng = d.rng(1);
    for n in 0..10 {
        let mut tx = d.tx();
        for i in 0..9 {
            tx.delete("t", &key(n * 10 + i)).expect(FREE);
        }
        tx.commit();
    }
    d.idle(300_000);
    let mut tx = d.tx();
    for _ in 0..20 {
        tx.put("t", &key(rng.below(100)), &value(&mut rng, 100, 400)).expect(FREE);
    }
    tx.commit();
    d.idle(300_000);
}

pub(super) fn overflow(d: &Driver) {
    d.create("t");
    let mut rng = d.rng(1);
    for n in 0..10 {
        let mut tx = d.tx();
        let k = key(rng.below(6));
        match rng.below(4) {
            0 => drop(tx.delete("t", &k).expect(FREE)),
            1 => tx.put("t", &k, &value(&mut rng, 10, 100)).expect(FREE),
            _ => tx.put("t", &k, &value(&mut rng, 3_000, 20_000)).expect(FREE),
        }
        tx.commit();
        if n == 5 {
            d.checkpoint();
            d.idle(100_000);
        }
    }
}

/// Values that are freed in several steps: in this pool a step covers what one page of the map
/// describes, and the pages of a small table are described by two. Another thread's commits make
/// the first step durable without the second, and its rows get the freed pages.
pub(super) fn overflow_steps(d: &Driver) {
    d.create("t");
    d.create("u");
    d.threads(2, |d, id| {
        let mut rng = d.rng(id);
        for n in 0..if id == 0 { 6 } else { 40 } {
            let mut tx = d.tx();
            if id == 0 {
                tx.put("t", &key(n % 2), &value(&mut rng, 60_000, 100_000)).expect(FREE);
            } else {
                tx.put("u", &key(n), &value(&mut rng, 300, 9_000)).expect(FREE);
            }
            tx.commit();
            d.idle(if id == 0 { 20_000 } else { rng.below(4_000) });
        }
    });
}

pub(super) fn overflow_undone(d: &Driver) {
    d.create("t");
    let mut rng = d.rng(1);
    let mut tx = d.tx();
    tx.put("t", &key(1), &value(&mut rng, 9_000, 9_000)).expect(FREE);
    tx.commit();
    for n in 0..4 {
        let mut tx = d.tx();
        tx.put("t", &key(1), &value(&mut rng, 4_000, 15_000)).expect(FREE);
        tx.put("t", &key(2), &value(&mut rng, 4_000, 15_000)).expect(FREE);
        if n == 2 {
            d.checkpoint();
        }
        tx.rollback();
        d.idle(50_000);
        let mut tx = d.tx();
        tx.put("t", &key(10 + n), &value(&mut rng, 10, 10)).expect(FREE);
        tx.commit();
    }
}

pub(super) fn recycle(d: &Driver) {
    d.create("t");
    let mut rng = d.rng(1);
    for _ in 0..40 {
        let mut tx = d.tx();
        for _ in 0..8 {
            tx.put("t", &key(rng.below(40)), &value(&mut rng, 300, 900)).expect(FREE);
        }
        tx.commit();
        d.idle(5_000);
    }
}

pub(super) fn checkpoints(d: &Driver) {
    d.create("t");
    // Two threads take checkpoints at once, so their batches overlap, and sometimes nothing is
    // dirty.
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        for n in 0..8 {
            if id > 0 {
                d.idle(id * 700);
                d.checkpoint();
                continue;
            }
            let mut tx = d.tx();
            for _ in 0..4 {
                tx.put("t", &key(rng.below(60)), &value(&mut rng, 50, 400)).expect(FREE);
            }
            tx.commit();
            d.idle(n * 100);
        }
    });
}

pub(super) fn eviction(d: &Driver) {
    d.create("t");
    fill(d, "t", 200, 900);
    let mut rng = d.rng(1);
    for _ in 0..20 {
        let mut tx = d.tx();
        for _ in 0..4 {
            let k = key(rng.below(200));
            let there = tx.get("t", &k).expect(FREE);
            assert!(there.is_some());
            tx.put("t", &k, &value(&mut rng, 100, 900)).expect(FREE);
        }
        tx.commit();
    }
}

pub(super) fn big_pages(d: &Driver) {
    d.create("t");
    fill(d, "t", 80, 2_000);
    let mut rng = d.rng(1);
    for n in 0..12 {
        let mut tx = d.tx();
        tx.put("t", &key(rng.below(120)), &value(&mut rng, 100, 3_000)).expect(FREE);
        tx.commit();
        if n % 4 == 0 {
            d.checkpoint();
        }
    }
}

pub(super) fn reopen(d: &Driver) {
    d.create("t");
    let mut rng = d.rng(1);
    for _ in 0..4 {
        for _ in 0..3 {
            let mut tx = d.tx();
            tx.put("t", &key(rng.below(30)), &value(&mut rng, 50, 700)).expect(FREE);
            tx.delete("t", &key(rng.below(30))).expect(FREE);
            tx.commit();
        }
        d.reopen();
    }
}

/// Others take the space that a checkpoint frees. The next opening has only the space that is left.
pub(super) fn full_disk(d: &Driver) {
    d.create("t");
    let mut rng = d.rng(1);
    for round in 0..3 {
        for _ in 0..4 {
            let mut tx = d.tx();
            for _ in 0..4 {
                tx.put("t", &key(rng.below(60)), &value(&mut rng, 50, 900)).expect(FREE);
            }
            tx.commit();
        }
        d.idle(50_000);
        d.checkpoint();
        d.fill_disk(true);
        if round == 1 {
            d.drop_and_reopen();
        } else {
            d.reopen();
        }
        let mut tx = d.tx();
        for _ in 0..3 {
            tx.delete("t", &key(rng.below(60))).expect(FREE);
        }
        tx.commit();
        // Closing finds purge at any point of its work.
        d.idle(if rng.one_in(3) { 0 } else { rng.below(50_000) });
        d.reopen();
        d.fill_disk(false);
    }
}

pub(super) fn drop_reopen(d: &Driver) {
    d.create("t");
    let mut rng = d.rng(1);
    for _ in 0..4 {
        for _ in 0..6 {
            let mut tx = d.tx();
            tx.put("t", &key(rng.below(30)), &value(&mut rng, 50, 700)).expect(FREE);
            tx.commit();
        }
        d.drop_and_reopen();
    }
}
