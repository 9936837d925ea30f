//! [`Receipt`]: the result of a commit and the time of each stage.

use crate::log::completed::FlushInfo;

/// The result of a commit, and its time by stage. Times are microseconds; `locks_us + admission_us
/// + log_us + sync_us = total_us`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// The commit's position in the order of all commits. 0 if the transaction changed nothing.
    pub lsn: u64,
    /// Whether the commit was durable when the receipt was made: the log is synced beyond it, so it
    /// survives the end of the process. It survives a power cut too if
    /// [`Db::is_durable`](crate::Db::is_durable); on a memory file system it does not. Always false
    /// in a database [in memory](crate::Db::open_in_memory).
    pub durable: bool,
    /// Commits that became durable by the same flush of the log (group commit). 0 if the call
    /// waited for no flush, or if hundreds of flushes ended before a
    /// [`CommitFuture`](crate::CommitFuture) was polled.
    pub batch_commits: u64,
    /// Flushes in flight when that flush began, itself included. 0 in the same cases.
    pub flush_depth: u64,
    /// Time spent waiting for locks, over the whole transaction.
    pub locks_us: u64,
    /// Time for which admission delayed the transaction's writes, over the whole transaction.
    pub admission_us: u64,
    /// Time to make the commit record and append it to the log. With
    /// [`Durability::None`](crate::Durability::None) it takes about one microsecond and is not
    /// measured: it is 0, unless the log had no room for the record at once.
    pub log_us: u64,
    /// Time spent waiting until the log was durable.
    pub sync_us: u64,
    /// The sum of the four times.
    pub total_us: u64,
}

impl Receipt {
    /// Adds what the awaited flush reports. In an `ephemeral` database that flush made nothing
    /// durable.
    pub(super) fn flushed(mut self, info: FlushInfo, sync_us: u64, ephemeral: bool) -> Receipt {
        self.durable = !ephemeral;
        self.batch_commits = info.batch_commits;
        self.flush_depth = info.flush_depth;
        self.sync_us = sync_us;
        self.total_us += sync_us;
        self
    }
}
