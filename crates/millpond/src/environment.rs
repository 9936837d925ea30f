//! What every part of an open database is given.

use crate::error::Poison;
use metrics::Metrics;
use std::sync::Arc;
use vfs::Vfs;

/// The files and the clock of a database, its metrics, and its first fatal failure.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    pub(crate) vfs: Vfs,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) poison: Arc<Poison>,
}

#[cfg(test)]
impl Environment {
    /// The environment of a database that uses these files and this clock.
    pub(crate) fn new(vfs: Vfs) -> Environment {
        Environment { vfs, metrics: Arc::new(Metrics::new()), poison: Arc::new(Poison::default()) }
    }
}
