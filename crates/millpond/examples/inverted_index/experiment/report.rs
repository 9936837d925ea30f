//! What the experiment has measured.

use super::query::Query;
use super::setup::Setup;
use super::timing::Timing;

/// All that was measured.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) setup: Setup,
    /// How many of Millpond's blocks are bitmaps, and how many are packed ids.
    pub(crate) blocks: [usize; 2],
    /// Those who answer, in the order of the timings: first the two loops, then Millpond in memory
    /// and from the pool.
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
}

/// Someone who answers.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Bytes of the stored lists.
    pub(crate) list_bytes: Option<u64>,
}

/// How long a query takes.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) query: Query,
    /// Ids of the result.
    pub(crate) ids: usize,
    /// `None` for those who cannot answer it.
    pub(crate) timings: Vec<Option<Timing>>,
    /// The bytes that any way to answer it from these blocks reads and writes at least.
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// How long one pass over so many bytes takes on this machine.
    pub(crate) bound: Timing,
}

impl Row {
    /// Returns how many times as long as the bound someone takes.
    pub(crate) fn gap(&self, column: usize) -> Option<f64> {
        let timing = self.timings.get(column)?.as_ref()?;
        Some(timing.median_ms / self.bound.median_ms)
    }
}
