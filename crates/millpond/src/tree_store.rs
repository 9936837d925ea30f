//! The storage that a tree works on: the log, the buffer pool and the space map of one database.

use crate::buffer::Pool;
use crate::log::Log;
use crate::space::Space;
use metrics::Metrics;
use std::path::Path;
use std::sync::Arc;

/// Pages and the log that protects them.
#[derive(Debug)]
pub(crate) struct Store {
    /// The redo log.
    pub(crate) log: Arc<Log>,
    /// Pages in memory.
    pub(crate) pool: Arc<Pool>,
    /// Pages in the file.
    pub(crate) space: Space,
    /// Counters.
    pub(crate) metrics: Arc<Metrics>,
}

impl Store {
    /// Returns the path of the `pages` file, for errors.
    pub(crate) fn pages_path(&self) -> &Path {
        self.space.path()
    }
}
