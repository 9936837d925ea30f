//! Settings that change while the database is used: the size of the pool, the doublewrite, and the
//! directories of log and doublewrite.

use super::{fill, key, value};
use crate::driver::{Driver, How};
use millpond::sim::set_frames;
use millpond::{Doublewrite, Isolation};

const ALLOWED: &str = "the setting can change at any time";

/// Changes rows of its own, some of them longer than a page.
fn write(d: &Driver, id: u64, turns: u64) {
    let mut rng = d.rng(id);
    for _ in 0..turns {
        let changes: Vec<_> =
            (0..3).map(|_| (id * 1000 + rng.below(30), rng.below(6), rng.next_u64())).collect();
        d.retry(How { isolation: Isolation::ReadCommitted, ..How::default() }, |tx| {
            for (n, kind, seed) in &changes {
                let mut rng = base::prng::Prng::new(*seed);
                match kind {
                    0 => drop(tx.delete("t", &key(*n))?),
                    1 => tx.put("t", &key(*n), &value(&mut rng, 3_000, 9_000))?,
                    _ => tx.put("t", &key(*n), &value(&mut rng, 100, 900))?,
                }
            }
            Ok(())
        });
    }
}

/// Does `change` beside two threads that write and one that takes checkpoints.
fn beside_writers(d: &Driver, turns: u64, change: impl Fn(&Driver) + Send + Sync + 'static) {
    d.threads(4, move |d, id| match id {
        0 => change(d),
        1 => {
            for _ in 0..4 {
                d.idle(3_000);
                d.checkpoint();
            }
        }
        _ => write(d, id, turns),
    });
}

/// Three threads write, one reads everything now and then, one changes the size of the pool.
pub(super) fn pool(d: &Driver) {
    d.create("t");
    fill(d, "t", 60, 600);
    d.threads(5, |d, id| match id {
        0 => {
            let mut rng = d.rng(id);
            for _ in 0..10 {
                set_frames(&d.db(), rng.between(24, 200) as usize).expect(ALLOWED);
                d.idle(rng.below(3_000));
            }
        }
        1 => {
            for _ in 0..4 {
                let tx = d.tx();
                tx.scan("t").expect("a snapshot reads");
                tx.rollback();
                d.idle(1_500);
            }
            d.checkpoint();
        }
        _ => write(d, id, 7),
    });
}

/// Twelve threads make pages in a pool of 96 frames, as its frame holders if need be, when it
/// shrinks to fewer frames than they can keep.
pub(super) fn tiny_pool(d: &Driver) {
    d.create("t");
    set_frames(&d.db(), 96).expect(ALLOWED);
    d.threads(13, |d, id| {
        if id > 0 {
            return write(d, id, 3);
        }
        for frames in [16, 96, 17] {
            d.idle(1_000);
            set_frames(&d.db(), frames).expect(ALLOWED);
        }
    });
}

/// Rows and long values in more pages than frames, and checkpoints.
pub(super) fn off(d: &Driver) {
    d.create("t");
    fill(d, "t", 120, 700);
    d.threads(3, |d, id| {
        if id > 0 {
            return write(d, id, 6);
        }
        for _ in 0..3 {
            d.idle(4_000);
            d.checkpoint();
        }
    });
}

/// The same while another thread switches the doublewrite. The database is opened with it off.
pub(super) fn switched(d: &Driver) {
    d.create("t");
    fill(d, "t", 120, 700);
    beside_writers(d, 7, |d| {
        let mut rng = d.rng(0);
        for n in 0..6 {
            let wanted = if n % 2 == 0 { Doublewrite::On } else { Doublewrite::UnsafeOff };
            d.db().set_doublewrite(wanted).expect(ALLOWED);
            d.idle(rng.below(6_000));
        }
    });
}

/// The directories between which the log moves, and the doublewrite.
const REDO: [&str; 3] = ["/one", "/two", "/db/redo"];
const AREAS: [&str; 2] = ["/areas", "/db/doublewrite"];

/// Two threads write while another one moves the log and the doublewrite.
pub(super) fn moved(d: &Driver) {
    ["/one", "/two", "/areas"].into_iter().for_each(|dir| d.make_dir(dir));
    d.create("t");
    fill(d, "t", 60, 600);
    beside_writers(d, 12, |d| {
        let mut rng = d.rng(0);
        for n in 0..6 {
            let db = d.db();
            if db.redo_dir_before().is_none() {
                db.set_redo_dir(REDO[n % 3]).expect(ALLOWED);
            }
            d.idle(rng.below(4_000));
            d.db().set_doublewrite_dir(AREAS[n % 2]).expect(ALLOWED);
            d.idle(rng.below(4_000));
        }
    });
}
