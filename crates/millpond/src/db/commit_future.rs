//! [`CommitFuture`]: the durability of an asynchronous commit, as a future.

use super::Receipt;
use super::core_ref::CoreRef;
use crate::error::{Error, Result};
use crate::log::waiters::Ticket;
use crate::planted::{Bug, planted};
use base::Lsn;
use metrics::SyncReason;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

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
    core: CoreRef,
    state: CommitState,
}

/// What a commit still needs. Nothing is shared with whoever flushes the log: it moves one LSN for all, and the future
/// compares.
#[derive(Debug)]
enum CommitState {
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
    Taken,
}

fn taken_error() -> Error {
    Error::Misuse("a commit's future was polled after its end".into())
}

impl CommitFuture {
    /// A commit that needs nothing more.
    pub(super) fn ready(core: &CoreRef, receipt: Receipt) -> CommitFuture {
        CommitFuture { core: core.clone(), state: CommitState::Done(receipt) }
    }

    /// A commit that is done when the log is durable beyond `lsn`, for which it waits since `since_us`.
    pub(super) fn pending(core: &CoreRef, lsn: Lsn, receipt: Receipt, since_us: u64) -> CommitFuture {
        core.engine.store.log.flush_soon(SyncReason::Commit);
        CommitFuture {
            core: core.clone(),
            state: CommitState::Pending { lsn, receipt, since_us, ticket: None },
        }
    }

    /// Waits for the commit's durability.
    ///
    /// # Errors
    /// A failed write or sync of the log: whether the commit survives is known after the next open.
    pub fn wait(self) -> Result<Receipt> {
        match self.state {
            CommitState::Pending { lsn, receipt, since_us, .. } => {
                let log = &self.core.engine.store.log;
                if log.durable_lsn() <= lsn && !planted(Bug::CommitNotAwaited) {
                    // As `Transaction::commit` does: it counts among those for whom a leader looks, and may lead.
                    let _committing = log.committing();
                    log.flush_to(lsn, SyncReason::Commit)?;
                }
                Ok(flushed(&self.core, lsn, receipt, since_us))
            }
            CommitState::Done(receipt) => Ok(receipt),
            CommitState::Taken => Err(taken_error()),
        }
    }
}

/// The receipt of a commit whose position `lsn` is durable.
fn flushed(core: &CoreRef, lsn: Lsn, receipt: Receipt, since_us: u64) -> Receipt {
    let info = core.engine.store.log.flush_info(lsn);
    receipt.flushed(info, info.done_us.saturating_sub(since_us), core.engine.ephemeral)
}

impl Future for CommitFuture {
    type Output = Result<Receipt>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let result = match &mut this.state {
            CommitState::Pending { lsn, receipt, since_us, ticket } => {
                let log = &this.core.engine.store.log;
                match log.poll_durable(*lsn, ticket, cx.waker()) {
                    Poll::Pending if planted(Bug::CommitNotAwaited) => Ok(*receipt),
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(done) => done.map(|()| flushed(&this.core, *lsn, *receipt, *since_us)),
                }
            }
            CommitState::Done(receipt) => Ok(*receipt),
            // A caller's mistake, answered without a panic.
            CommitState::Taken => Err(taken_error()),
        };
        this.state = CommitState::Taken;
        Poll::Ready(result)
    }
}
