//! Several processes, one after the other: each works as soon as the database is open, and is
//! killed.

use super::{fill, key, value};
use crate::driver::Driver;
use base::prng::Prng;

/// Rows that a queue has at least.
const QUEUE_ROWS: usize = 30;

/// Two writers, a queue that moves on, and a thread that reads everything, takes checkpoints and
/// creates and drops a table. Nothing is read before it begins.
pub(super) fn at_once(d: &Driver) {
    if d.keys_at_begin("t").is_none() {
        d.create("t");
    }
    if d.keys_at_begin("queue").is_none() {
        d.create("queue");
    }
    if d.life() == 0 {
        fill(d, "t", 60, 300);
    }
    let mut rng = d.rng(9);
    let plan = LifePlan { reads: !rng.one_in(3), pause_us: *rng.pick(&[0, 5_000, 30_000]) };
    d.threads(4, move |d, id| {
        let mut rng = d.rng(id);
        match id {
            0 | 1 => write(d, id, plan, &mut rng),
            2 => move_queue(d, plan, &mut rng),
            _ => read_and_checkpoint(d, plan, &mut rng),
        }
    });
}

/// How a life goes on.
#[derive(Clone, Copy)]
struct LifePlan {
    /// A thread reads everything.
    reads: bool,
    /// The longest pause between two transactions. Without one the life is over before replay
    /// begins.
    pause_us: u64,
}

fn write(d: &Driver, id: u64, plan: LifePlan, rng: &mut Prng) {
    const FREE: &str = "no other thread has these keys";
    for _ in 0..rng.between(4, 24) {
        let mut tx = d.tx();
        for _ in 0..rng.between(1, 6) {
            let k = key(2 * rng.below(60) + id);
            if rng.one_in(3) {
                tx.delete("t", &k).expect(FREE);
            } else {
                tx.put("t", &k, &value(rng, 100, 900)).expect(FREE);
            }
        }
        tx.commit();
        d.idle(rng.below(plan.pause_us + 1));
    }
}

/// Rows come at one end and go at the other, so pages get empty, are freed, and are used again.
fn move_queue(d: &Driver, plan: LifePlan, rng: &mut Prng) {
    const FREE: &str = "no other thread has the queue";
    let mut keys = d.keys_at_begin("queue").unwrap_or_default();
    let mut next = 10_000 * (d.life() + 1);
    for _ in 0..rng.between(4, 24) {
        let mut tx = d.tx();
        for _ in 0..rng.between(1, 8) {
            next += 1;
            keys.push(key(next));
            tx.put("queue", &key(next), &value(rng, 200, 700)).expect(FREE);
        }
        while keys.len() > QUEUE_ROWS {
            tx.delete("queue", &keys.remove(0)).expect(FREE);
        }
        tx.commit();
        d.idle(rng.below(plan.pause_us + 1));
    }
}

fn read_and_checkpoint(d: &Driver, plan: LifePlan, rng: &mut Prng) {
    let name = format!("of life {}", d.life());
    for n in 0..3 {
        if plan.reads {
            let tx = d.tx();
            for table in ["t", "queue"] {
                assert!(tx.scan(table).is_ok(), "{table} can be read");
            }
            tx.rollback();
        }
        match n {
            0 => d.create(&name),
            1 if rng.one_in(2) => d.checkpoint(),
            2 if rng.one_in(2) => d.drop_table(&name),
            _ => d.idle(rng.below(3_000)),
        }
    }
}
