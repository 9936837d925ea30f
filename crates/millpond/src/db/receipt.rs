//! [`Receipt`]: the result of a commit and the time of each stage.

use crate::log::completed::FlushInfo;

/// What a commit came to, and where its time went. The times are microseconds; `locks_us + admission_us + log_us + sync_us =
/// total_us`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// Where the commit stands in the order of all commits; 0 if the transaction changed nothing.
    pub lsn: u64,
    /// Whether the log is synced beyond it, so that it survives the process, and a power cut where
    /// [`Db::is_durable`](crate::Db::is_durable): on a memory file system it can be true and the commit is gone with the power. Never
    /// in a database [in memory](crate::Db::open_in_memory).
    pub durable: bool,
    /// Commits that became durable by the same flush of the log; 0 if none was waited for, or if hundreds of flushes were made
    /// before a [`CommitFuture`] was looked at.
    pub batch_commits: u64,
    /// Flushes that were in flight when that one began, itself included; 0 as above.
    pub flush_depth: u64,
    /// Waiting for locks, over the whole transaction.
    pub locks_us: u64,
    /// Held by admission, over the whole transaction.
    pub admission_us: u64,
    /// Making the commit record and handing it to the log. With [`Durability::None`](crate::Durability::None) it is measured only
    /// if the log has no room for the record at once, for else it is about one microsecond; then 0 stands here.
    pub log_us: u64,
    /// Waiting for the log to become durable.
    pub sync_us: u64,
    /// All of these.
    pub total_us: u64,
}

impl Receipt {
    /// After the flush that was waited for; in an `ephemeral` database that made nothing durable.
    pub(super) fn flushed(mut self, info: FlushInfo, sync_us: u64, ephemeral: bool) -> Receipt {
        self.durable = !ephemeral;
        self.batch_commits = info.batch_commits;
        self.flush_depth = info.flush_depth;
        self.sync_us = sync_us;
        self.total_us += sync_us;
        self
    }
}
