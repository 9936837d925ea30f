//! Grows the pages file before space runs out (Fi4). It has a thread of its own: it may wait for a
//! frame, which the cleaner must not, and it writes zeros for longer than purge should wait. The
//! rule is `pace::growth`.

use super::Shared;
use crate::error::{Error, Result};
use metrics::M;
use pace::growth::{TRY_AGAIN_US, space_to_keep};
use pace::smoothed_rate::SmoothedRate;

/// Sleep while space is being used. A thread that uses space below the reserve wakes it earlier.
const NAP_US: u64 = 100_000;
/// Sleep while hardly any space is being used.
const IDLE_US: u64 = 1_000_000;
/// Use of space below which the file hardly grows, bytes a second.
const IDLE_BYTES_PER_S: f64 = 65_536.0;

/// What the thread remembers between steps.
#[derive(Debug, Default)]
pub(super) struct Growth {
    consumed: SmoothedRate,
    /// Trims of the file that the thread has seen.
    trims: u64,
    /// Space that had been taken at the last of them.
    taken_at_trim: u64,
    /// No growth before this time: the disk was full.
    full_until_us: u64,
}

impl Shared {
    /// Does one slice of growth if it is needed. Returns the microseconds until the next step,
    /// unless another thread wakes this one earlier.
    pub(super) fn grow_ahead(&self, growth: &mut Growth) -> Result<u64> {
        self.poison.check()?;
        let (now_us, space) = (self.clock.now_us(), &self.store.space);
        let (_, taken) = space.free_and_taken();
        growth.consumed.update(now_us, taken);
        let (trims, file_bytes) = space.trims_and_bytes();
        if trims != growth.trims {
            // After the file was made shorter, the use of space until then says nothing about the
            // future.
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
            // No space was used since then. The thread that takes the first extent wakes this one.
            return Ok(IDLE_US);
        }
        match space.grow_ahead() {
            Ok(()) => Ok(0),
            // Not an error yet: the thread that needs space and finds none gets it.
            Err(error) if error.may_pass() || matches!(error, Error::Limit { .. }) => {
                growth.full_until_us = now_us + TRY_AGAIN_US;
                Ok(TRY_AGAIN_US)
            }
            Err(error) => Err(error),
        }
    }
}
