//! Tables are created, renamed and dropped.

use super::{fill, key, value};
use crate::driver::{Driver, How};
use millpond::{Error, Isolation};

const FREE: &str = "there is no conflict";

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

pub(super) fn in_use(d: &Driver) {
    const TABLES: u64 = 4;
    for n in 0..TABLES {
        d.create(&format!("t{n}"));
        fill(d, &format!("t{n}"), 12, 300);
    }
    d.threads(3, |d, id| {
        let mut rng = d.rng(id);
        if id == 0 {
            for n in 0..TABLES {
                d.idle(rng.below(600));
                if n % 2 == 0 {
                    d.drop_table(&format!("t{n}"));
                } else {
                    d.rename(&format!("t{n}"), &format!("r{n}"));
                }
            }
            return;
        }
        for _ in 0..10 {
            let n = rng.below(TABLES);
            let isolation = *rng.pick(Isolation::ALL);
            let tx = d.tx_with(How { isolation, ..How::default() });
            let name = format!("t{n}");
            match tx.scan(&name) {
                Ok(rows) => {
                    assert!(rows.len() == 12, "{name} has {} rows", rows.len());
                    d.idle(100);
                    match tx.scan(&name) {
                        Ok(again) => assert!(again == rows, "{name} has changed"),
                        // It was renamed between its opening and its first use; its rows stay.
                        Err(Error::NoSuchTable { .. }) if n % 2 == 1 => {}
                        Err(e) => panic!("{name} was dropped while it was in use: {e}"),
                    }
                }
                Err(Error::NoSuchTable { .. }) => {}
                Err(e) => panic!("{name} cannot be read: {e}"),
            }
            tx.rollback();
        }
    });
}

/// More tables than an extent has pages. One outgrows its shared extent. Some are dropped while
/// others stay.
pub(super) fn small(d: &Driver) {
    let mut rng = d.rng(1);
    let name = |n: u64| format!("t{n}");
    for n in 0..18 {
        d.create(&name(n));
        fill(d, &name(n), 2, 30);
        if n == 9 {
            d.checkpoint();
        }
    }
    for n in (0..18).filter(|n| n % 4 != 1) {
        d.drop_table(&name(n));
        if n == 12 {
            d.checkpoint();
            fill(d, &name(5), 60, 900);
        }
    }
    for n in 30..35 {
        d.create(&name(n));
        fill(d, &name(n), rng.between(1, 4), 200);
    }
    (1..18).step_by(4).for_each(|n| d.drop_table(&name(n)));
    d.idle(200_000);
    fill(d, &name(31), 8, 200);
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
