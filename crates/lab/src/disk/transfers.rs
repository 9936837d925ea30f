//! Reads and writes, sequential and at random places, by size and by how many are in flight.

use super::latencies::{Rates, measure};
use crate::test_file::{TestFile, random_bytes, stamp};
use base::prng::Prng;
use serde::Serialize;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The sizes of blocks, bytes.
pub(super) const BLOCKS: [usize; 3] = [4 << 10, 16 << 10, 1 << 20];
/// How many requests are in flight: each is that of a thread.
pub(super) const IN_FLIGHT: [u32; 4] = [1, 4, 16, 64];

/// In which order blocks are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    Random,
    Sequential,
}

/// What is done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Direction {
    Read,
    Write,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Transfer {
    pub(super) order: Order,
    pub(super) direction: Direction,
    pub(super) block_bytes: usize,
    pub(super) in_flight: u32,
}

/// What it gave.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct TransferResult {
    #[serde(flatten)]
    pub(super) transfer: Transfer,
    #[serde(flatten)]
    pub(super) rates: Rates,
    pub(super) mb_per_second: f64,
}

/// Returns all measurements. Reads come first: a device may be busy after writes for a while.
pub(super) fn plan() -> Vec<Transfer> {
    let mut all = Vec::new();
    for direction in [Direction::Read, Direction::Write] {
        for order in [Order::Random, Order::Sequential] {
            for block_bytes in BLOCKS {
                let one = |in_flight| Transfer { order, direction, block_bytes, in_flight };
                all.extend(IN_FLIGHT.map(one));
            }
        }
    }
    all
}

impl Transfer {
    /// Measures it for `time`.
    pub(super) fn run(self, test: &TestFile, time: Duration) -> io::Result<TransferResult> {
        let next = AtomicU64::new(0);
        let workers = (0..self.in_flight).map(|n| self.worker(test, &next, n)).collect();
        let rates = measure(time, workers)?;
        let mb_per_second = rates.per_second * self.block_bytes as f64 / 1e6;
        Ok(TransferResult { transfer: self, rates, mb_per_second })
    }

    /// Returns the operation of a thread. `next` counts the blocks of all threads.
    fn worker<'a>(
        self,
        test: &'a TestFile,
        next: &'a AtomicU64,
        thread: u32,
    ) -> impl FnMut() -> io::Result<Duration> + Send + 'a {
        let blocks = test.blocks(self.block_bytes).max(1);
        let mut block = random_bytes(self.block_bytes);
        let mut places = Prng::new(u64::from(thread));
        let mut seen = u64::from(thread) << 48;
        move || {
            let n = match self.order {
                Order::Random => places.below(blocks),
                Order::Sequential => next.fetch_add(1, Ordering::Relaxed) % blocks,
            };
            let at = n * self.block_bytes as u64;
            match self.direction {
                Direction::Read => test.read(&mut block, at),
                Direction::Write => {
                    seen += 1 << 8;
                    stamp(&mut block, seen);
                    test.write(&block, at)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_has_every_combination_once() {
        let plan = plan();
        assert_eq!(plan.len(), 2 * 2 * BLOCKS.len() * IN_FLIGHT.len());
        for (n, one) in plan.iter().enumerate() {
            assert!(!plan[..n].contains(one), "{one:?}");
        }
        assert!(plan.iter().rposition(|one| one.direction == Direction::Read) == Some(plan.len() / 2 - 1));
    }
}
