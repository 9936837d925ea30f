//! Group commit: when another flush of the log may start, and when it should seal its range.
//!
//! One flush takes about a device round trip. Several flushes in flight overlap their round trips.
//! But each sync costs 15–19 µs of CPU, and each seal pads a block. So it is better to share the
//! waiting committers between two flushes than to spread them over many. The rule has no timer: it
//! depends only on the committers that wait now.

use crate::constants::{LOG_FLUSH_SLOW_TIMES, LOG_FLUSHES_OVERLAP};

/// The state of the log when a committer asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushView {
    /// Flushes in flight.
    pub in_flight: u32,
    /// The most flushes that may be in flight at the same time.
    pub depth_max: u32,
    /// Waiting committers that no flush in flight covers, the asking one included.
    pub waiting: u32,
    /// Threads inside a commit, the asking one included.
    pub busy_committers: u32,
    /// Microseconds since the latest flush in flight began.
    pub elapsed_of_running_us: u64,
    /// The usual duration of a flush, microseconds; 0 while unknown.
    pub usual_us: u64,
}

/// Whether a flush may start now.
///
/// With no flush in flight: always. Beside one: when the waiting committers are a fair share of all
/// committers, so that they share the sync, the padding and the wake-up. It is worth waiting for
/// committers that have not reached the log yet. More than `LOG_FLUSHES_OVERLAP` flushes only while
/// the latest one takes more than twice its usual time.
#[must_use]
pub fn may_start(v: &FlushView) -> bool {
    if v.in_flight == 0 {
        return true;
    }
    if v.in_flight >= v.depth_max {
        return false;
    }
    let slow = v.usual_us > 0 && v.elapsed_of_running_us > LOG_FLUSH_SLOW_TIMES * v.usual_us;
    let fair_share = v.waiting * LOG_FLUSHES_OVERLAP >= v.busy_committers;
    slow || (v.in_flight < LOG_FLUSHES_OVERLAP && fair_share)
}

/// Whether a flush that could rewrite the tail block should seal instead. Only if there is another
/// committer, whose flush could then run beside this one. For a single committer a seal would only
/// waste a padded block.
#[must_use]
pub fn should_seal(v: &FlushView) -> bool {
    v.in_flight > 0 || (v.depth_max > 1 && v.busy_committers > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(in_flight: u32, waiting: u32, busy: u32) -> FlushView {
        FlushView {
            in_flight,
            depth_max: 4,
            waiting,
            busy_committers: busy,
            elapsed_of_running_us: 50,
            usual_us: 90,
        }
    }

    #[test]
    fn the_rule_as_a_table() {
        let slow = |in_flight| FlushView { elapsed_of_running_us: 181, ..view(in_flight, 1, 64) };
        let table = [
            ("alone", view(0, 1, 1), true, false),
            ("two, nothing in flight", view(0, 1, 2), true, true),
            ("two, the other in flight", view(1, 1, 2), true, true),
            ("four, one waits beside a flush", view(1, 1, 4), false, true),
            ("four, two wait beside a flush", view(1, 2, 4), true, true),
            ("four, two in flight", view(2, 2, 4), false, true),
            ("sixty-four, first to wait", view(1, 1, 64), false, true),
            ("sixty-four, half of them wait", view(1, 32, 64), true, true),
            ("slow device", slow(1), true, true),
            ("slow device, two in flight", slow(2), true, true),
            ("slow device, depth used up", slow(4), false, true),
        ];
        for (name, v, start, seal) in table {
            assert_eq!((may_start(&v), should_seal(&v)), (start, seal), "{name}");
        }
    }
}
