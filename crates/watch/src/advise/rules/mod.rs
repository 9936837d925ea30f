//! The rules: each is a pure function from the facts to advice, or to nothing. A rule speaks only
//! of what this target has shown.

mod binlog;
mod device;
mod dirty_share;
mod io_capacity;
mod log_buffer;
mod log_place;
mod log_size;
mod lru;
mod measure;
mod overall;
mod pond;

use super::advice::{Advice, Urgency};
use super::facts::Facts;

/// All rules. Of two that are equally urgent the first one is shown first.
const RULES: [fn(&Facts) -> Option<Advice>; 14] = [
    pond::safety,
    log_size::decide,
    pond::log,
    pond::pool,
    lru::decide,
    log_buffer::decide,
    io_capacity::decide,
    measure::decide,
    dirty_share::decide,
    log_place::decide,
    device::doublewrite,
    device::neighbours,
    device::flush_method,
    binlog::decide,
];

/// The names of the rules that may propose a change.
pub(super) const NAMES: [&str; 13] = [
    "log size",
    "io capacity",
    "free pages",
    "log buffer",
    "dirty pages",
    "log place",
    "doublewrite",
    "neighbours",
    "flush method",
    "binlog",
    "measure",
    "millpond log",
    "millpond pool",
];

/// No more pieces of advice are given at once: after a few changes it is time to look again.
const MOST: usize = 5;

/// Returns the advice, the most urgent first. If there is nothing to change, the first one says so.
pub(super) fn decide(facts: &Facts) -> Vec<Advice> {
    let mut advice = all(facts);
    if advice.iter().all(|advice| advice.urgency == Urgency::None) {
        advice.insert(0, overall::nothing_to_change(facts));
    }
    advice.sort_by_key(|advice| advice.urgency);
    advice.truncate(MOST);
    advice
}

/// Returns what every rule says, in the order of the rules.
pub(super) fn all(facts: &Facts) -> Vec<Advice> {
    RULES.iter().filter_map(|rule| rule(facts)).collect()
}
