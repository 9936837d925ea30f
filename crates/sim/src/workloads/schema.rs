//! Tables come and go.

use super::{fill, key, value};
use crate::driver::Driver;

const FREE: &str = "nobody is in the way";

pub(super) fn schema(d: &Driver) {
    let mut rng = d.rng(1);
    for name in ["a", "b", "c"] {
        d.create(name);
        fill(d, name, 6, 200);
    }
    d.rename("a", "x");
    d.drop_table("b");
    d.checkpoint();
    d.create("b");
    let mut tx = d.tx();
    tx.put("x", &key(2), &value(&mut rng, 5, 50)).expect(FREE);
    tx.put("b", &key(2), &value(&mut rng, 5, 50)).expect(FREE);
    tx.commit();
    d.rename("b", "a");
    d.drop_table("c");
    d.idle(200_000);
    d.create("c");
    fill(d, "c", 3, 100);
}

pub(super) fn beside(d: &Driver) {
    d.create("steady");
    d.threads(2, |d, id| {
        let mut rng = d.rng(id);
        if id == 0 {
            for n in 0..4 {
                let (name, next) = (format!("t{n}"), format!("r{n}"));
                d.create(&name);
                let mut tx = d.tx();
                tx.put(&name, &key(n), &value(&mut rng, 10, 100)).expect(FREE);
                tx.commit();
                d.rename(&name, &next);
                if n % 2 == 0 {
                    d.drop_table(&next);
                }
            }
        } else {
            for _ in 0..12 {
                let mut tx = d.tx();
                tx.put("steady", &key(rng.below(20)), &value(&mut rng, 50, 300)).expect(FREE);
                tx.commit();
            }
        }
    });
}

pub(super) fn drop_full(d: &Driver) {
    for turn in 0..3 {
        d.create("t");
        fill(d, "t", 60 + turn * 20, 900);
        if turn == 1 {
            d.checkpoint();
        }
        d.drop_table("t");
        d.idle(100_000);
    }
    d.create("u");
    fill(d, "u", 30, 500);
}
