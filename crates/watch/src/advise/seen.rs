//! What a target gave: its samples, its settings, and what it does not tell.

use super::facts::Place;
use crate::sources::is_of_schema;
use output::samples::Samples;
use std::collections::BTreeMap;

/// A target over a time.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// What was looked at.
    pub(crate) target: String,
    /// Whose server and which version.
    pub(crate) version: String,
    /// The samples.
    pub(crate) samples: Samples,
    /// The settings.
    pub(crate) settings: BTreeMap<String, String>,
    /// Figures that the target does not have, with the reason.
    pub(crate) absent: BTreeMap<String, String>,
    /// Where the data directory is, if it is on this machine.
    pub(super) place: Option<Place>,
}

/// Figures of servers that rules need, and that the schema does not have.
const OWN: [&str; 4] = [
    "binlog_commits",
    "binlog_group_commits",
    "metric.buffer_lru_single_flush_num_scan",
    "metric.buffer_lru_single_flush_scanned",
];
/// Figures of Millpond that rules need, and that the schema does not have.
const OF_MILLPOND: [&str; 6] =
    ["buffer_pool_bytes", "doublewrite_off", "durable", "poisoned", "redo_helpful_bytes", "replay_rate"];

/// Returns whether rules need a figure.
pub(super) fn is_wanted(name: &str) -> bool {
    let millpond = name.strip_prefix(MILLPOND);
    let of_millpond = millpond.unwrap_or(name);
    is_of_schema(of_millpond) || OWN.contains(&name) || OF_MILLPOND.contains(&of_millpond)
}

/// How the names of Millpond's figures begin in a server.
pub(super) const MILLPOND: &str = "millpond_";
