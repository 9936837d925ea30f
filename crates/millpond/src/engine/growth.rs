//! Growing the pages file ahead of need (Fi4), in a thread of its own: it may wait for a frame, which the cleaner must not,
//! and it writes zeros for longer than purge should stand still. The law is `pace::growth`.

use super::Shared;
use crate::error::{Error, Result};
use metrics::M;
use pace::growth::{TRY_AGAIN_US, space_to_keep};
use pace::smoothed_rate::SmoothedRate;

/// How long it sleeps while space is being taken; who takes it below the reserve wakes it before.
const NAP_US: u64 = 100_000;
/// How long it sleeps when hardly any is.
const IDLE_US: u64 = 1_000_000;
/// What hardly any is, bytes a second.
const IDLE_BYTES_PER_S: f64 = 65_536.0;

/// What the thread remembers from step to step.
#[derive(Debug, Default)]
pub(super) struct Growth {
    consumed: SmoothedRate,
    /// Trims of the file that it has seen.
    trims: u64,
    /// What had been taken at the last of them.
    taken_at_trim: u64,
    /// No growth before this time: the disk was full.
    full_until_us: u64,
}

impl Shared {
    /// One slice of growth, if it is wanted. Returns the microseconds until the next look unless somebody wakes the thread
    /// before.
    pub(super) fn grow_ahead(&self, growth: &mut Growth) -> Result<u64> {
        self.poison.check()?;
        let (now_us, space) = (self.clock.now_us(), &self.store.space);
        let (_, taken) = space.free_and_taken();
        growth.consumed.update(now_us, taken);
        let (trims, file_bytes) = space.trims_and_bytes();
        if trims != growth.trims {
            // Who had the file made shorter says that what was consumed until now tells nothing about what comes.
            (growth.consumed, growth.trims, growth.taken_at_trim) = (SmoothedRate::default(), trims, taken);
            growth.consumed.update(now_us, taken);
        }
        let rate = growth.consumed.per_second();
        let wanted = space_to_keep(rate, space.step_bytes(), file_bytes);
        self.store.metrics.set(M::FileReserveBytes, wanted);
        if now_us < growth.full_until_us {
            return Ok(growth.full_until_us - now_us);
        }
        if space.wake_grower_below(wanted) {
            return Ok(if rate > IDLE_BYTES_PER_S { NAP_US } else { IDLE_US });
        }
        if trims > 0 && taken == growth.taken_at_trim {
            // At rest since then: whoever takes the first extent wakes this thread.
            return Ok(IDLE_US);
        }
        match space.grow_ahead() {
            Ok(()) => Ok(0),
            // Not yet anybody's error: who needs the space and finds none gets it.
            Err(error) if error.may_pass() || matches!(error, Error::Limit { .. }) => {
                growth.full_until_us = now_us + TRY_AGAIN_US;
                Ok(TRY_AGAIN_US)
            }
            Err(error) => Err(error),
        }
    }
}
