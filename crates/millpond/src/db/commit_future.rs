//! [`CommitFuture`]: waits for the durability of an asynchronous commit.

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

/// A commit that becomes durable: `.await` it or call [`CommitFuture::wait`] to get its
/// [`Receipt`]. The transaction is already committed, and others see its changes; only its
/// durability is awaited. Dropping the future does not stop the commit from becoming durable.
///
/// A thread of the database calls the task's waker. It holds no lock or latch then, so the waker
/// may use the database and even close it. The waker should return quickly: other commits are told
/// after it.
#[derive(Debug)]
#[must_use = "until it is done a power cut may lose the commit"]
pub struct CommitFuture {
    /// Keeps the engine alive.
    core: CoreRef,
    state: CommitState,
}

/// What a commit still waits for. It shares nothing with the thread that flushes the log: that
/// thread moves one durable LSN for all commits, and the future compares.
#[derive(Debug)]
enum CommitState {
    Pending {
        /// The log must be durable beyond this LSN.
        lsn: Lsn,
        /// The receipt without the figures of the flush.
        receipt: Receipt,
        /// When the wait began, in microseconds of the clock.
        since_us: u64,
        /// The registration for a wake; `None` before the first poll.
        ticket: Option<Ticket>,
    },
    Done(Receipt),
    Taken,
}

fn taken_error() -> Error {
    Error::Misuse("a commit's future was polled after its end".into())
}

impl CommitFuture {
    /// Makes a future that is ready at once.
    pub(super) fn ready(core: &CoreRef, receipt: Receipt) -> CommitFuture {
        CommitFuture { core: core.clone(), state: CommitState::Done(receipt) }
    }

    /// Makes a future that is ready when the log is durable beyond `lsn`. `since_us` is when the
    /// wait began.
    pub(super) fn pending(core: &CoreRef, lsn: Lsn, receipt: Receipt, since_us: u64) -> CommitFuture {
        core.engine.store.log.flush_soon(SyncReason::Commit);
        CommitFuture {
            core: core.clone(),
            state: CommitState::Pending { lsn, receipt, since_us, ticket: None },
        }
    }

    /// Blocks until the commit is as durable as the transaction's [`Durability`](crate::Durability)
    /// asks for, and returns its receipt.
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failed write or sync of the log: only the next open shows
    /// whether the commit survived.
    pub fn wait(self) -> Result<Receipt> {
        self.core.gate.check_process()?;
        match self.state {
            CommitState::Pending { lsn, receipt, since_us, .. } => {
                let log = &self.core.engine.store.log;
                if log.durable_lsn() <= lsn && !planted(Bug::CommitNotAwaited) {
                    // As in `Transaction::commit`: the leader of a flush counts this commit, and
                    // this thread may lead the flush itself.
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

/// Returns the receipt of a commit whose position `lsn` is durable.
fn flushed(core: &CoreRef, lsn: Lsn, receipt: Receipt, since_us: u64) -> Receipt {
    let info = core.engine.store.log.flush_info(lsn);
    receipt.flushed(info, info.done_us.saturating_sub(since_us), core.engine.ephemeral)
}

impl Future for CommitFuture {
    type Output = Result<Receipt>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Err(error) = this.core.gate.check_process() {
            return Poll::Ready(Err(error));
        }
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
            // A caller's mistake; it gets an error and no panic.
            CommitState::Taken => Err(taken_error()),
        };
        this.state = CommitState::Taken;
        Poll::Ready(result)
    }
}
