//! What a commit tells: where it stands in the log, with whom it became durable, and where its time went.

use super::share::Share;
use crate::error::{Error, Result};
use crate::log::completed::FlushInfo;
use crate::log::waiters::Ticket;
use crate::planted::{Bug, planted};
use base::Lsn;
use metrics::SyncReason;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

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

/// A commit under way: a future of its [`Receipt`], or [`CommitFuture::wait`] for it. The transaction is committed
/// already and others see it; what is awaited is its durability. Dropping the future detaches it: the commit becomes
/// durable all the same.
///
/// The task's waker is called by a thread of the database that holds nothing then: it may use the database, and close it. It should not
/// take long, for others are told after it.
#[derive(Debug)]
#[must_use = "until it is done a power cut may lose the commit"]
pub struct CommitFuture {
    /// Keeps the engine alive.
    core: Share,
    state: State,
}

/// What a commit still needs. Nothing is shared with whoever flushes the log: it moves one LSN for all, and the future
/// compares.
#[derive(Debug)]
enum State {
    Pending {
        /// The log must be durable beyond it.
        lsn: Lsn,
        /// Without what the flush will tell.
        receipt: Receipt,
        /// When the wait began, microseconds of the clock.
        since_us: u64,
        /// The place among those who are told, once it was polled.
        ticket: Option<Ticket>,
    },
    Done(Receipt),
    Told,
}

fn told() -> Error {
    Error::Misuse("a commit's future was polled after its end".into())
}

impl CommitFuture {
    /// A commit that needs nothing more.
    pub(super) fn ready(core: &Share, receipt: Receipt) -> CommitFuture {
        CommitFuture { core: core.clone(), state: State::Done(receipt) }
    }

    /// A commit that is done when the log is durable beyond `lsn`, for which it waits since `since_us`.
    pub(super) fn pending(core: &Share, lsn: Lsn, receipt: Receipt, since_us: u64) -> CommitFuture {
        core.engine.store.log.flush_soon(SyncReason::Commit);
        CommitFuture { core: core.clone(), state: State::Pending { lsn, receipt, since_us, ticket: None } }
    }

    /// Waits for the commit's durability.
    ///
    /// # Errors
    /// A failed write or sync of the log: whether the commit survives is known after the next open.
    pub fn wait(self) -> Result<Receipt> {
        match self.state {
            State::Pending { lsn, receipt, since_us, .. } => {
                let log = &self.core.engine.store.log;
                if log.durable_lsn() <= lsn && !planted(Bug::CommitNotAwaited) {
                    // As `Transaction::commit` does: it counts among those for whom a leader looks, and may lead.
                    let _committing = log.committing();
                    log.flush_to(lsn, SyncReason::Commit)?;
                }
                Ok(flushed(&self.core, lsn, receipt, since_us))
            }
            State::Done(receipt) => Ok(receipt),
            State::Told => Err(told()),
        }
    }
}

/// The receipt of a commit whose position `lsn` is durable.
fn flushed(core: &Share, lsn: Lsn, receipt: Receipt, since_us: u64) -> Receipt {
    let info = core.engine.store.log.flush_info(lsn);
    receipt.flushed(info, info.done_us.saturating_sub(since_us), core.engine.ephemeral)
}

impl Future for CommitFuture {
    type Output = Result<Receipt>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let result = match &mut this.state {
            State::Pending { lsn, receipt, since_us, ticket } => {
                let log = &this.core.engine.store.log;
                match log.poll_durable(*lsn, ticket, cx.waker()) {
                    Poll::Pending if planted(Bug::CommitNotAwaited) => Ok(*receipt),
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(done) => done.map(|()| flushed(&this.core, *lsn, *receipt, *since_us)),
                }
            }
            State::Done(receipt) => Ok(*receipt),
            // A caller's mistake, answered without a panic.
            State::Told => Err(told()),
        };
        this.state = State::Told;
        Poll::Ready(result)
    }
}
