//! The metrics of the engine. One table ([`catalog`]) names each metric with its unit, kind and
//! meaning. Counters, JSON, text, Prometheus output, status variables and `docs/metrics.md` all
//! follow from it.
//!
//! A [`Metrics`] belongs to one open database. Recording is one relaxed atomic operation and never
//! waits. A [`Snapshot`] is a plain copy of all numbers. Two snapshots can be subtracted.

pub mod catalog;
pub mod histogram;
pub mod labels;
#[cfg(test)]
mod page;
pub mod recording;
mod registry;
mod render;
mod snapshot;

pub use catalog::{CatalogEntry, M, MetricKind, Unit};
pub use labels::{FileKind, Force, Latency, SyncReason};
pub use registry::Metrics;
pub use snapshot::{FsyncRow, LatencyRow, Snapshot};

#[cfg(test)]
mod tests;
