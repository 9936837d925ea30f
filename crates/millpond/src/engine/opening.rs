//! [`Opening`]: what every step of opening needs.

use super::paths::Paths;
use super::pool_size;
use crate::environment::Environment;
use crate::options::Options;
use crate::txn::HistoryLimits;
use vfs::Vfs;
use vfs::descriptor_cache::CachedDirs;

/// An opening that is under way.
pub(super) struct Opening<'o> {
    /// Its files write nothing after the first failure, and few are open at once.
    pub(super) environment: Environment,
    pub(super) paths: Paths,
    /// The directories of which few files are open.
    pub(super) cached: CachedDirs,
    pub(super) options: &'o Options,
    /// The same files as the caller gave them, for the flight recorder.
    pub(super) unlatched: &'o Vfs,
    /// When opening began, microseconds of the clock.
    pub(super) opened_us: u64,
}

impl Opening<'_> {
    /// Size of the buffer pool, bytes.
    pub(super) fn pool_bytes(&self) -> u64 {
        let by_default = || pool_size::default_bytes(self.environment.vfs.clock.memory_bytes());
        self.options.buffer_pool_bytes.unwrap_or_else(by_default)
    }

    /// Memory for undo, transaction states and locks, bytes.
    pub(super) fn history_bytes(&self) -> u64 {
        HistoryLimits::memory(self.options.history_memory_bytes, self.pool_bytes())
    }
}
