//! What was seen of a target. What is not known is `None`, never 0.

use super::settings::Settings;
use client::Version;

/// Everything that rules decide from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facts {
    /// Whose server and which version; `None` for a database directory.
    pub(super) version: Option<Version>,
    /// The time between the first and the last sample.
    pub(super) seconds: f64,
    /// How many samples there are.
    pub(super) samples: usize,
    /// The server's settings.
    pub(super) settings: Settings,
    pub(super) log: LogFacts,
    pub(super) writes: WriteFacts,
    pub(super) pool: PoolFacts,
    pub(super) binlog: BinlogFacts,
    pub(super) missing: Missing,
    /// Where the data directory is, if it is on this machine.
    pub(super) place: Option<Place>,
    /// What is known of Millpond, where it is there.
    pub(super) pond: Option<PondFacts>,
}

/// InnoDB's redo log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LogFacts {
    /// The greatest checkpoint age, bytes.
    pub(super) age_peak: Option<f64>,
    /// By how much it grew, bytes a second, if it was still growing at the end.
    pub(super) age_growth: Option<f64>,
    /// The soft limit of the checkpoint age, bytes.
    pub(super) soft: Option<f64>,
    /// Its limit.
    pub(super) limit: Option<f64>,
    /// The share of the samples with the age at its soft limit or above.
    pub(super) above_soft: Option<f64>,
    /// The share of the samples with the age at its limit.
    pub(super) at_limit: Option<f64>,
    /// The size of the log, bytes.
    pub(super) capacity: Option<f64>,
    /// Redo by LSN, bytes a second.
    pub(super) redo_rate: Option<f64>,
    /// Bytes written to the files of the log in an hour at the rate of the samples.
    pub(super) hour: Option<f64>,
    /// Times that a writer waited at the limit, as far as it is counted.
    pub(super) hard_waits: Option<f64>,
    /// Times that the log buffer was full.
    pub(super) buffer_waits: Option<f64>,
}

/// What InnoDB writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct WriteFacts {
    /// Pages written a second, on average.
    pub(super) pages: Option<f64>,
    /// Pages written in the busiest second.
    pub(super) pages_peak: Option<f64>,
    /// Pages written with full force, a second.
    pub(super) sync_pages: Option<f64>,
    /// Pages written because they lie beside others, a second.
    pub(super) neighbours: Option<f64>,
    /// Pages written to the doublewrite, a second.
    pub(super) doublewrite: Option<f64>,
    /// Bytes written to all files a second.
    pub(super) device_bytes: Option<f64>,
    /// Dirty pages, on average.
    pub(super) dirty_pages: Option<f64>,
    /// The share of dirty pages on average, percent.
    pub(super) dirty_percent: Option<f64>,
    /// Syncs a second.
    pub(super) syncs: Option<f64>,
    /// Syncs in flight, on average.
    pub(super) syncs_in_flight: Option<f64>,
}

/// InnoDB's buffer pool and who uses it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PoolFacts {
    /// Times that a thread waited for a free page.
    pub(super) free_waits: Option<f64>,
    /// Pages written from the LRU list a second.
    pub(super) lru_pages: Option<f64>,
    /// Times that a thread wrote a page itself to get a free one.
    pub(super) single_flushes: Option<f64>,
    /// Pages read a second.
    pub(super) reads: Option<f64>,
    /// The most threads that ran a statement.
    pub(super) threads: Option<f64>,
}

/// The server's binary log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct BinlogFacts {
    /// Transactions.
    pub(super) commits: Option<f64>,
    /// Groups of them.
    pub(super) groups: Option<f64>,
}

/// What is not known, and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Missing {
    /// Metrics that are switched off, as the server names them.
    pub(super) switched_off: Vec<String>,
    /// Why the server does not tell its checkpoint age.
    pub(super) age: Option<String>,
}

/// Where a data directory is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Place {
    /// The file system, such as `ext4`.
    pub(super) file_system: Option<&'static str>,
    /// Whether the device rotates.
    pub(super) rotates: Option<bool>,
}

/// Millpond.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PondFacts {
    pub(super) log: PondLog,
    pub(super) pages: PondPages,
    /// The database takes no more work, because a write or a sync has failed.
    pub(super) poisoned: bool,
    /// Commits do not survive a power cut, whatever they ask for.
    pub(super) in_memory: bool,
    /// Pages are written without a copy.
    pub(super) doublewrite_off: bool,
}

/// Millpond's redo log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PondLog {
    /// The greatest checkpoint age, bytes.
    pub(super) age_peak: Option<f64>,
    /// The checkpoint age above which writers are delayed, bytes.
    pub(super) soft: Option<f64>,
    /// The limit, bytes.
    pub(super) limit: Option<f64>,
    /// The size of the log, bytes.
    pub(super) capacity: Option<f64>,
    /// The greatest useful size, bytes.
    pub(super) helpful: Option<f64>,
    /// The measured speed of replay, bytes a second.
    pub(super) replay_rate: Option<f64>,
    /// Redo, bytes a second.
    pub(super) redo_rate: Option<f64>,
    /// How long writers were delayed, microseconds a second.
    pub(super) delayed_us: Option<f64>,
    /// Times that an operation found the log at its limit.
    pub(super) hard_waits: Option<f64>,
}

/// Millpond's buffer pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PondPages {
    /// The size of the pool, bytes.
    pub(super) pool_bytes: Option<f64>,
    /// Times that a thread waited for a free frame.
    pub(super) free_waits: Option<f64>,
    /// Pages written a second.
    pub(super) written: Option<f64>,
    /// Of them those written because free frames were needed.
    pub(super) for_frames: Option<f64>,
    /// Pages read a second.
    pub(super) reads: Option<f64>,
}
