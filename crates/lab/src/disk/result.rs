//! All that a run of `millpond disk` found: one JSON object.

use super::consequences::Consequences;
use super::durable_writes::DurableWriteResult;
use super::flush_cost::FlushCost;
use super::tested_dir::TestedDir;
use super::transfers::TransferResult;
use super::verdict::Verdict;
use crate::others::Others;
use crate::result::to_json;
use serde::Serialize;
use std::collections::BTreeMap;

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DiskResult {
    pub(super) version: &'static str,
    pub(super) directory: String,
    pub(super) conditions: Conditions,
    pub(super) machine: BTreeMap<&'static str, String>,
    pub(super) disk: TestedDir,
    pub(super) transfers: Vec<TransferResult>,
    pub(super) durable_writes: Vec<DurableWriteResult>,
    pub(super) flush: Option<FlushCost>,
    pub(super) cache: Cache,
    pub(super) consequences: Consequences,
}

/// How it was measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Conditions {
    /// How long each measurement took.
    pub(super) seconds_each: f64,
    pub(super) file_bytes: u64,
    /// Whether reads and writes bypassed the page cache.
    pub(super) direct_io: bool,
    /// What others used just before.
    pub(super) others: Others,
}

/// What follows about the device's cache.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Cache {
    pub(super) verdict: Verdict,
    pub(super) sentence: String,
}

impl DiskResult {
    /// Returns the JSON object.
    pub(crate) fn json(&self) -> String {
        to_json(self)
    }
}
