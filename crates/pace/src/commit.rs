//! When another flush of the log may start, and when it should seal its range.
//!
//! A flush alone takes about a device round trip; several in flight overlap it. But each sync costs 15–19 µs of CPU and
//! each seal pads a block, so the committers of one moment are better shared between two flights than spread over many.
//! The rule has no timer: it looks at who waits now.

/// What the log knows when a committer asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushView {
    /// Flushes under way.
    pub in_flight: u32,
    /// Most flushes that may be under way at once.
    pub depth_max: u32,
    /// Committers that no flight covers, the asking one included.
    pub waiting: u32,
    /// Threads between the start of a commit and its return, the asking one included.
    pub busy_committers: u32,
    /// Microseconds since the latest flight began.
    pub elapsed_of_running_us: u64,
    /// Usual duration of a flight, microseconds; 0 while unknown.
    pub usual_us: u64,
}

/// Flushes that usually overlap. A second one uses the time that the first spends in the device; a third finds too few
/// committers left to carry, and costs a sync and a padded block (decision 0020).
const OVERLAP: u32 = 2;

/// Whether a flush may start now.
///
/// None in flight: always. Beside one: when as many wait as its fair share of all who commit, so that they share the
/// sync, the padding and the wake-up; whoever is still on the way to the log is worth waiting for. More than
/// `OVERLAP` only while the latest flight takes twice its usual time.
#[must_use]
pub fn may_start(v: &FlushView) -> bool {
    if v.in_flight == 0 {
        return true;
    }
    if v.in_flight >= v.depth_max {
        return false;
    }
    let slow = v.usual_us > 0 && v.elapsed_of_running_us > 2 * v.usual_us;
    let fair_share = v.waiting * OVERLAP >= v.busy_committers;
    slow || (v.in_flight < OVERLAP && fair_share)
}

/// Whether a flush that could rewrite the tail block should seal instead: only if another committer is about, who could
/// then fly beside it. Alone, sealing would only pad.
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
            ("two, the other flies", view(1, 1, 2), true, true),
            ("four, one waits beside a flight", view(1, 1, 4), false, true),
            ("four, two wait beside a flight", view(1, 2, 4), true, true),
            ("four, two fly", view(2, 2, 4), false, true),
            ("sixty-four, first to wait", view(1, 1, 64), false, true),
            ("sixty-four, half of them wait", view(1, 32, 64), true, true),
            ("slow device", slow(1), true, true),
            ("slow device, two fly", slow(2), true, true),
            ("slow device, depth used up", slow(4), false, true),
        ];
        for (name, v, start, seal) in table {
            assert_eq!((may_start(&v), should_seal(&v)), (start, seal), "{name}");
        }
    }
}
