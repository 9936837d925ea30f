//! How many free frames are kept ready (Bp5): as many as the threads can take before the cleaner's next batch ends.
//!
//! A thread takes two to four frames in that time (a leaf and an inner node read, a split's new pages). The number of
//! threads is known, so nobody has to size this.

/// Levels of free frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// Below it the cleaner steps at once.
    pub low: u64,
    /// Up to it the cleaner supplies.
    pub high: u64,
}

/// The levels for so many threads inside the engine and a pool of so many frames. Never more than an eighth of the
/// pool: a reserve is memory that caches nothing.
#[must_use]
pub fn reserve(threads: u64, frames: u64) -> Reserve {
    let high = (threads.max(4) * 4).min(frames / 8).max(1);
    Reserve { low: high.div_ceil(2), high }
}

/// Frames to supply now: what is missing to the upper level, and one for each thread that waits already.
#[must_use]
pub fn missing(reserve: Reserve, free: u64, waiting: u64) -> u64 {
    (reserve.high + waiting).saturating_sub(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_to_four_frames_a_thread() {
        for threads in [4, 16, 64, 1000] {
            let r = reserve(threads, 65_536);
            assert_eq!((r.low, r.high), (2 * threads, 4 * threads));
        }
        assert_eq!(reserve(1, 65_536), Reserve { low: 8, high: 16 });
    }

    #[test]
    fn a_tiny_pool_keeps_most_of_its_frames() {
        assert_eq!(reserve(1000, 128), Reserve { low: 8, high: 16 });
        assert_eq!(reserve(1000, 4), Reserve { low: 1, high: 1 });
    }

    #[test]
    fn waiting_threads_are_served_beyond_the_reserve() {
        let r = reserve(16, 65_536);
        assert_eq!(missing(r, 64, 0), 0);
        assert_eq!(missing(r, 60, 0), 4);
        assert_eq!(missing(r, 0, 16), 80);
        assert_eq!(missing(r, 1000, 0), 0);
    }
}
