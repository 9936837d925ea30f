//! Whether a flight recorder is written now. Its times are those of a clock that may have been
//! wrong, so they decide nothing: the database's lock does, and then that samples come.

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use std::path::Path;

/// A recorder that has written nothing for so long, and for two of its intervals, has stopped.
const SILENT_US: u64 = 5_000_000;
/// The times of a recorder are exact to a second, and a sample may be late.
const NEAR_US: u64 = 2_000_000;

/// The newest sample, as its recorder dates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Newest {
    /// Its time, microseconds since 1970.
    pub(super) recorded_us: u64,
    /// The time since the sample before.
    pub(super) interval_us: u64,
}

impl Newest {
    /// Returns for how long a recorder that goes on may write nothing.
    pub(super) fn silence_us(&self) -> u64 {
        SILENT_US.saturating_add(self.interval_us.saturating_mul(2))
    }

    /// Returns how long to wait for the next sample of a recorder that may have stopped.
    pub(super) fn patience_us(&self) -> u64 {
        NEAR_US.saturating_add(self.interval_us)
    }

    /// Whether the sample is of now, if the clocks are right.
    pub(super) fn is_of_now(&self, now_us: u64) -> bool {
        self.recorded_us <= now_us.saturating_add(NEAR_US)
            && self.recorded_us.saturating_add(self.silence_us()) >= now_us
    }
}

/// What was seen of a recorder that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watched {
    recorded_us: u64,
    /// The time that its sample was given.
    given_us: u64,
    /// When it was seen first, on a clock that only measures.
    seen_us: u64,
}

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A sample, with its time: a new one, or that of the look before.
    Sample(u64),
    /// Nothing new for so many microseconds.
    Silent(u64),
}

impl Watched {
    /// Begins with a sample of a recorder that is written.
    pub(super) fn begin(newest: &Newest, now_us: u64, measured_us: u64) -> Watched {
        let given_us = if newest.is_of_now(now_us) { newest.recorded_us } else { now_us };
        Watched { recorded_us: newest.recorded_us, given_us, seen_us: measured_us }
    }

    /// Returns the time of the last sample.
    pub(super) fn given_us(&self) -> u64 {
        self.given_us
    }

    /// Looks at the newest sample. The distance of two samples is that of their recorder, unless
    /// its clock was set in between. Then, and if its clock is wrong, a sample has the time of the
    /// look.
    pub(super) fn look(&mut self, newest: &Newest, now_us: u64, measured_us: u64) -> Look {
        if newest.recorded_us == self.recorded_us {
            let silent = measured_us.saturating_sub(self.seen_us);
            let live = silent <= newest.silence_us();
            return if live { Look::Sample(self.given_us) } else { Look::Silent(silent) };
        }
        let moved = newest.recorded_us.checked_sub(self.recorded_us);
        let passed = measured_us.saturating_sub(self.seen_us);
        let by_recorder = moved.filter(|moved| moved.abs_diff(passed) <= NEAR_US);
        let steady = by_recorder.map(|moved| self.given_us.saturating_add(moved));
        let given_us = steady.unwrap_or(now_us).max(self.given_us + 1);
        *self = Watched { recorded_us: newest.recorded_us, given_us, seen_us: measured_us };
        Look::Sample(given_us)
    }
}

/// Returns whether a process holds the lock of a database; `None` if it cannot be tried. It is
/// released at once, so a process that opens the database meanwhile is refused only for that time.
pub(super) fn is_locked(dir: &Path) -> Option<bool> {
    let lock =
        match open(dir.join("LOCK"), OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(lock) => lock,
            Err(Errno::NOENT) => return Some(false),
            Err(_) => return None,
        };
    match flock(&lock, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Some(false),
        Err(Errno::WOULDBLOCK) => Some(true),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;
    const HOUR: u64 = 3600 * S;

    fn newest(recorded_us: u64) -> Newest {
        Newest { recorded_us, interval_us: S }
    }

    #[test]
    fn the_clocks_agree_or_they_do_not() {
        let now = 10 * HOUR;
        for (recorded, of_now) in [
            (now, true),
            (now + S, true),
            (now - 7 * S, true),
            (now - 8 * S, false),
            (now + HOUR, false),
            (0, false),
        ] {
            assert_eq!(newest(recorded).is_of_now(now), of_now, "{recorded}");
        }
    }

    /// A collection of a recorder whose clock went back wrote nothing more; one of a recorder that
    /// had stopped, with its last sample in the future, waited for ever.
    #[test]
    fn a_recorder_is_followed_whatever_its_clock_says() {
        let now = 10 * HOUR;
        // The recorder's date, time of day and measured time of the look, what is found.
        let table = [
            (now + S, now + S, 1, Look::Sample(now + S)),
            // The same sample.
            (now + S, now + S + S / 2, 1, Look::Sample(now + S)),
            // The distance is that of the recorder.
            (now + 2 * S + 3, now + 2 * S + 900, 2, Look::Sample(now + 2 * S + 3)),
            // Its clock goes an hour back, and on from there.
            (now - HOUR, now + 3 * S, 3, Look::Sample(now + 3 * S)),
            (now - HOUR + S, now + 4 * S + 70, 4, Look::Sample(now + 4 * S)),
            // It is set right again.
            (now + 5 * S, now + 5 * S, 5, Look::Sample(now + 5 * S)),
            // A year ahead.
            (now + 9000 * HOUR, now + 6 * S, 6, Look::Sample(now + 6 * S)),
            (now + 9000 * HOUR, now + 12 * S, 12, Look::Sample(now + 6 * S)),
            (now + 9000 * HOUR, now + 14 * S, 14, Look::Silent(8 * S)),
        ];
        let mut watched = Watched::begin(&newest(now), now, 0);
        assert_eq!(watched.given_us(), now);
        for (recorded, now_us, measured_s, found) in table {
            assert_eq!(watched.look(&newest(recorded), now_us, measured_s * S), found, "{measured_s}");
        }
        assert_eq!(
            Watched::begin(&newest(now + HOUR), now, 0).given_us(),
            now,
            "an hour ahead from the start"
        );
    }
}
