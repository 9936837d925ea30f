//! When another flush of the log may start, and when it should seal its range.
//!
//! A flush alone takes about a device round trip; several in flight overlap it. But a sync also costs 15–19 µs of CPU,
//! so with few cores depth pays for a handful of committers and large groups pay for many. The rule has no timer: it
//! looks at who waits now.

/// What the log knows when a committer asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushView {
    /// Flushes under way.
    pub in_flight: u32,
    /// Most flushes that may be under way at once.
    pub depth_max: u32,
    /// Committers that no flight covers, the asking one included.
    pub waiting: u32,
    /// Cores that the process may use.
    pub cores: u32,
    /// Threads between the start of a commit and its return, the asking one included.
    pub busy_committers: u32,
    /// Microseconds since the latest flight began.
    pub elapsed_of_running_us: u64,
    /// Usual duration of a flight, microseconds; 0 while unknown.
    pub usual_us: u64,
}

/// Committers for which overlapping flushes pay, for each core: beyond them the cores are better spent on larger groups.
const OVERLAPPED_PER_CORE: u32 = 4;

/// Whether a flush may start now.
///
/// None in flight: always. Otherwise while there is depth left and either few commit (each flight then carries about
/// one commit, and cores idle while the device works), or a fair share of those who commit waits already, or the
/// latest flight takes twice its usual time.
#[must_use]
pub fn may_start(v: &FlushView) -> bool {
    if v.in_flight == 0 {
        return true;
    }
    if v.in_flight >= v.depth_max {
        return false;
    }
    let few = v.busy_committers <= OVERLAPPED_PER_CORE * v.cores;
    let fair_share = v.waiting * v.depth_max >= v.busy_committers;
    let slow = v.usual_us > 0 && v.elapsed_of_running_us > 2 * v.usual_us;
    few || fair_share || slow
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
            cores: 2,
            busy_committers: busy,
            elapsed_of_running_us: 50,
            usual_us: 90,
        }
    }

    #[test]
    fn the_rule_as_a_table() {
        let table = [
            ("alone", view(0, 1, 1), true, false),
            ("two, nothing in flight", view(0, 1, 2), true, true),
            ("four, one in flight", view(1, 1, 4), true, true),
            ("four, depth used up", view(4, 1, 8), false, true),
            ("sixty-four, first to wait", view(1, 1, 64), false, true),
            ("sixty-four, a quarter waits", view(1, 16, 64), true, true),
            ("slow device", FlushView { elapsed_of_running_us: 181, ..view(1, 1, 64) }, true, true),
        ];
        for (name, v, start, seal) in table {
            assert_eq!((may_start(&v), should_seal(&v)), (start, seal), "{name}");
        }
    }
}
