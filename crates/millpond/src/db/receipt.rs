//! What a commit tells: where it stands in the log, with whom it became durable, and where its time went.

use super::share::Share;
use crate::error::{Error, Result};
use crate::log::commit::FlushInfo;
use base::Lsn;
use base::sync::{Condvar, Mutex};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// What a commit came to, and where its time went. The times are microseconds; `locks_us + admission_us + log_us + sync_us =
/// total_us`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// Where the commit stands in the order of all commits; 0 if the transaction changed nothing.
    pub lsn: u64,
    /// Whether it survives a power cut: the log is synced beyond it. Never in a database
    /// [in memory](crate::Db::open_in_memory). Whether the device under the files keeps what is synced,
    /// [`Db::is_durable`](crate::Db::is_durable) says.
    pub durable: bool,
    /// Commits that became durable by the same flush of the log; 0 if none was waited for.
    pub batch_commits: u64,
    /// Flushes that were in flight when that one began, itself included.
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

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    result: Option<Result<Receipt>>,
    waker: Option<Waker>,
}

/// A commit under way: a future of its [`Receipt`], or [`CommitFuture::wait`] for it. The transaction is committed
/// already and others see it; what is awaited is its durability. Dropping the future detaches it: the commit becomes
/// durable all the same.
#[derive(Debug)]
#[must_use = "until it is done a power cut may lose the commit"]
pub struct CommitFuture {
    shared: Arc<Shared>,
    /// Keeps the engine alive.
    _core: Share,
}

impl CommitFuture {
    /// A commit that needs nothing more.
    pub(super) fn ready(core: &Share, receipt: Receipt) -> CommitFuture {
        let shared = Arc::new(Shared::default());
        shared.state.lock().result = Some(Ok(receipt));
        CommitFuture { shared, _core: core.clone() }
    }

    /// A commit that is done when the log is durable beyond `lsn`.
    pub(super) fn pending(core: &Share, lsn: Lsn, receipt: Receipt) -> CommitFuture {
        let shared = Arc::new(Shared::default());
        let (clock, start_us) = {
            let clock = Arc::clone(&core.engine.txns.vfs.clock);
            let now = clock.now_us();
            (clock, now)
        };
        let (told, ephemeral) = (Arc::clone(&shared), core.engine.ephemeral);
        let call = Box::new(move |info: Result<FlushInfo>| {
            let waited_us = clock.now_us().saturating_sub(start_us);
            let mut state = told.state.lock();
            state.result = Some(info.map(|info| receipt.flushed(info, waited_us, ephemeral)));
            let waker = state.waker.take();
            drop(state);
            told.done.notify_all();
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        core.engine.store.log.when_durable(lsn, call);
        CommitFuture { shared, _core: core.clone() }
    }

    /// Waits for the commit's durability.
    ///
    /// # Errors
    /// A failed write or sync of the log: whether the commit survives is known after the next open.
    pub fn wait(self) -> Result<Receipt> {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(result) = state.result.take() {
                return result;
            }
            self.shared.done.wait(&mut state);
        }
    }
}

impl Future for CommitFuture {
    type Output = Result<Receipt>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.shared.state.lock();
        match state.result.take() {
            Some(result) => {
                // Polled again after this it is a caller's mistake, answered without a panic.
                state.result = Some(Err(Error::Misuse("a commit's future was polled after its end".into())));
                Poll::Ready(result)
            }
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
