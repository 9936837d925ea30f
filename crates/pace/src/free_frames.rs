//! The free-frame reserve (Bp5): how many free frames the cleaner keeps ready. As many as the
//! threads can take before the cleaner's next batch ends.
//!
//! A thread takes two to four frames in that time (for a leaf and an inner node that it reads, and
//! for the new pages of a split). The number of threads is known, so the user need not configure
//! this.

use crate::constants::{FREE_FRAMES_A_THREAD, FREE_FRAMES_POOL_PART, THREADS_MIN};

/// The levels of the free-frame reserve, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeFrameReserve {
    /// Below it the cleaner runs a step at once.
    pub low: u64,
    /// The cleaner supplies frames up to it.
    pub high: u64,
}

/// Returns the levels for `threads` threads inside the engine and a pool of `frames` frames.
#[must_use]
pub fn free_frame_reserve(threads: u64, frames: u64) -> FreeFrameReserve {
    let most = (frames / FREE_FRAMES_POOL_PART).max(1);
    let high = (threads.max(THREADS_MIN) * FREE_FRAMES_A_THREAD).min(most);
    FreeFrameReserve { low: high.div_ceil(2), high }
}

/// Returns how many frames to supply now: up to the upper level, and one more for each thread that
/// already waits.
#[must_use]
pub(crate) fn frames_to_supply(reserve: FreeFrameReserve, free: u64, waiting: u64) -> u64 {
    (reserve.high + waiting).saturating_sub(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_to_four_frames_a_thread() {
        for threads in [4, 16, 64, 1000] {
            let r = free_frame_reserve(threads, 65_536);
            assert_eq!((r.low, r.high), (2 * threads, 4 * threads));
        }
        assert_eq!(free_frame_reserve(1, 65_536), FreeFrameReserve { low: 8, high: 16 });
    }

    #[test]
    fn a_tiny_pool_keeps_most_of_its_frames() {
        assert_eq!(free_frame_reserve(1000, 128), FreeFrameReserve { low: 8, high: 16 });
        assert_eq!(free_frame_reserve(1000, 4), FreeFrameReserve { low: 1, high: 1 });
    }

    #[test]
    fn waiting_threads_are_served_beyond_the_reserve() {
        let r = free_frame_reserve(16, 65_536);
        assert_eq!(frames_to_supply(r, 64, 0), 0);
        assert_eq!(frames_to_supply(r, 60, 0), 4);
        assert_eq!(frames_to_supply(r, 0, 16), 80);
        assert_eq!(frames_to_supply(r, 1000, 0), 0);
    }
}
