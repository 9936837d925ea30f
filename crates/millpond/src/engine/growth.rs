//! Grows the pages file before space runs out (Fi4). It has a thread of its own: it may wait for a
//! frame, which the cleaner must not, and it writes zeros for longer than purge should wait. The
//! rule is `pace::growth`.

use super::roster::Pause;
use crate::error::{Error, Poison, Result};
use crate::tree_store::Store;
use metrics::M;
use pace::constants::{FULL_DISK_AGAIN_US, GROWTH_IDLE_BYTES_PER_S, GROWTH_IDLE_US, GROWTH_NAP_US};
use pace::growth::space_to_keep;
use pace::smoothed_rate::SmoothedRate;
use std::sync::Arc;
use vfs::Clock;

/// Grows the file, step by step.
pub(super) struct Growth {
    store: Arc<Store>,
    poison: Arc<Poison>,
    clock: Arc<dyn Clock>,
    consumed: SmoothedRate,
    /// Trims of the file that the thread has seen.
    trims: u64,
    /// Space that had been taken at the last of them.
    taken_at_trim: u64,
    /// No growth before this time: the disk was full.
    full_until_us: u64,
}

impl Growth {
    pub(super) fn new(store: &Arc<Store>, poison: &Arc<Poison>, clock: &Arc<dyn Clock>) -> Growth {
        Growth {
            store: Arc::clone(store),
            poison: Arc::clone(poison),
            clock: Arc::clone(clock),
            consumed: SmoothedRate::default(),
            trims: 0,
            taken_at_trim: 0,
            full_until_us: 0,
        }
    }

    /// Does one slice of growth if it is needed. Another thread may wake this one before the pause
    /// ends.
    pub(super) fn step(&mut self) -> Result<Pause> {
        Ok(match self.grow_ahead()? {
            0 => Pause::None,
            nap_us => Pause::us(nap_us),
        })
    }

    /// Returns the microseconds until the next step.
    fn grow_ahead(&mut self) -> Result<u64> {
        self.poison.check()?;
        let (now_us, space) = (self.clock.now_us(), &self.store.space);
        let (_, taken) = space.free_and_taken();
        self.consumed.update(now_us, taken);
        let (trims, file_bytes) = space.trims_and_bytes();
        if trims != self.trims {
            // After the file was made shorter, the use of space until then says nothing about the
            // future.
            (self.consumed, self.trims, self.taken_at_trim) = (SmoothedRate::default(), trims, taken);
            self.consumed.update(now_us, taken);
        }
        let rate = self.consumed.per_second();
        let wanted = space_to_keep(rate, space.step_bytes(), file_bytes);
        self.store.metrics.set(M::FileReserveBytes, wanted);
        if now_us < self.full_until_us {
            return Ok(self.full_until_us - now_us);
        }
        if space.wake_grower_below(wanted) {
            return Ok(if rate > GROWTH_IDLE_BYTES_PER_S { GROWTH_NAP_US } else { GROWTH_IDLE_US });
        }
        if trims > 0 && taken == self.taken_at_trim {
            // No space was used since then. The thread that takes the first extent wakes this one.
            return Ok(GROWTH_IDLE_US);
        }
        match space.grow_ahead() {
            Ok(()) => Ok(0),
            // Not an error yet: the thread that needs space and finds none gets it.
            Err(error) if error.may_pass() || matches!(error, Error::Limit { .. }) => {
                self.full_until_us = now_us + FULL_DISK_AGAIN_US;
                Ok(FULL_DISK_AGAIN_US)
            }
            Err(error) => Err(error),
        }
    }
}
