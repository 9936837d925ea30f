//! Devices that pause, and devices that become slow: writers may wait as long as the device does,
//! and no longer.

use super::*;
use metrics::SyncReason;

const SLOT_US: u64 = 100_000;
/// Commits that share a flush.
const GROUP: u64 = 16;

/// The page writer works beside the cleaner, as it does with threads: else a step of the cleaner
/// would last as long as its page writes, and it would learn of a slow device only afterwards.
fn world(io_us: u64) -> World {
    let mut options = options(8 * MIB, 8192);
    options.tuning.writers_by_hand = true;
    World::new(&options, io_us, 20_000)
}

impl World {
    /// Lets writers commit for so long, a group of operations for each flush of the log. Returns
    /// the commits of each slot of 100 ms.
    fn commits(&mut self, us: u64) -> Vec<u64> {
        let begun = self.now();
        let mut slots = vec![0; (us / SLOT_US) as usize];
        loop {
            for _ in 0..GROUP {
                let held = self.operation();
                assert!(held.is_some(), "stopped at age {}", self.age());
            }
            let last = Lsn(self.engine.store.log.reserved_lsn().0 - 1);
            self.engine.store.log.flush_to(last, SyncReason::Commit).unwrap();
            let slot = (self.now() - begun) / SLOT_US;
            let Some(commits) = slots.get_mut(slot as usize) else { break };
            *commits += GROUP;
        }
        assert_eq!(self.get(M::HardWaits), 0);
        slots
    }
}

fn median(slots: &[u64]) -> u64 {
    let mut sorted = slots.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// A device that answers nothing for 200 ms, every 5 s. Only the slots of its pauses lose commits:
/// what piled up meanwhile makes no second pause.
#[test]
fn a_device_that_pauses_costs_its_pauses_and_nothing_else() {
    let mut world = world(200);
    world.commits(5_000_000);
    let begun = world.now();
    world.device.pause(5_000_000, 200_000);
    let slots = world.commits(20_000_000);
    let usual = median(&slots);
    let mut paused = 0;
    for (n, commits) in slots.iter().enumerate() {
        let from = begun + n as u64 * SLOT_US;
        if (from..from + SLOT_US).any(|us| world.device.is_paused_at(us)) {
            paused += 1;
        } else {
            assert!(commits * 2 > usual, "slot {n} has {commits} commits, the median is {usual}: {slots:?}");
        }
    }
    // Four pauses of two slots, and three where a pause begins within a slot.
    assert!((8..=12).contains(&paused), "{paused} slots of pauses");
    let lost = slots.iter().filter(|commits| **commits * 2 <= usual).count();
    assert!(lost >= 4, "the device did not pause: {slots:?}");
}

/// A device of which only a tenth of the bandwidth is left, and later all of it again. Writers
/// become slower at once, but there is no moment without commits.
#[test]
fn a_device_that_becomes_slow_slows_writers_and_stops_none() {
    const FAST: u64 = 400;
    let mut world = world(100);
    world.device.set_bytes_per_us(FAST);
    let before = median(&world.commits(5_000_000));
    world.device.set_bytes_per_us(FAST / 10);
    let slow = world.commits(20_000_000);
    world.device.set_bytes_per_us(FAST);
    let after = world.commits(5_000_000);
    let usual = median(&slow);
    assert!(usual * 2 < before, "the device did not become slow: {usual} of {before} commits");
    let least = *slow.iter().min().unwrap();
    assert!(least * 2 > usual, "the worst slot has {least} commits, the median {usual}: {slow:?}");
    assert!(median(&after) * 10 > before * 8, "{} of {before} commits: {after:?}", median(&after));
}
