//! Failures and closing while other threads wait. They happen in a second database on a disk of its
//! own, not in the one whose power is cut.

use super::fill;
use crate::driver::Driver;
use crate::waits::{TROUBLES, Trouble, run_sessions};

fn beside(d: &Driver, run: impl FnOnce(u64)) {
    d.create("t");
    fill(d, "t", 400, 100);
    run(d.rng(3).next_u64());
}

pub(super) fn neighbour_fails(d: &Driver) {
    beside(d, |seed| {
        let failures: Vec<_> = TROUBLES.iter().filter(|(_, t)| *t != Trouble::Closed).collect();
        run_sessions(seed, 16 + seed % 33, failures[(seed / 33) as usize % failures.len()].1);
    });
}

pub(super) fn closed(d: &Driver) {
    beside(d, |seed| run_sessions(seed, 16 + seed % 33, Trouble::Closed));
}

pub(super) fn wakers(d: &Driver) {
    beside(d, |seed| crate::waits::closing_wakers(seed, seed.is_multiple_of(4)));
}
