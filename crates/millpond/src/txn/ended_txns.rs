//! [`EndedTxns`]: the transactions that have ended and left work behind.

use super::quarantine::{Quarantine, QuarantineTask};
use super::reverts::{Reverting, Reverts};
use crate::error::Error;
use crate::mvcc::PurgeQueue;
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use base::sync::{Mutex, Unparker};
use base::{Lsn, TxnId};
use std::sync::Arc;
use vfs::Clock;

/// How many transactions one record reports as purged. If the engine stops before a record is full,
/// its transactions are purged once more, which changes nothing.
pub(super) const PURGED_TOGETHER: usize = 64;

/// The transactions that have ended and wait to be reverted or purged, and how far the background
/// thread is with them.
#[derive(Debug)]
pub(crate) struct EndedTxns {
    /// Those that wait for purge.
    pub(super) purge_queue: PurgeQueue,
    /// Transactions that committed below it are due for purge. An old value is safe: it only grows.
    known_due: AtomicU64,
    /// Aborted transactions that the background thread reverts.
    pub(super) reverts: Reverts,
    /// What could not be reverted, purged or given back.
    pub(super) quarantine: Quarantine,
    /// Purged transactions that the log does not report as purged yet.
    purged: Mutex<Vec<TxnId>>,
    /// A step of the background thread is in progress.
    in_step: AtomicBool,
    /// Wakes the thread that reverts and purges.
    background: Unparker,
    /// For the pauses of the quarantine.
    clock: Arc<dyn Clock>,
}

impl EndedTxns {
    /// The ended transactions that recovery has found.
    pub(super) fn recovered(
        purge_queue: PurgeQueue,
        reverts: Reverts,
        background: Unparker,
        clock: &Arc<dyn Clock>,
    ) -> EndedTxns {
        EndedTxns {
            purge_queue,
            known_due: AtomicU64::new(0),
            reverts,
            quarantine: Quarantine::default(),
            purged: Mutex::default(),
            in_step: AtomicBool::new(false),
            background,
            clock: Arc::clone(clock),
        }
    }

    /// Returns an LSN below which committed transactions are due for purge.
    pub(super) fn known_due(&self) -> Lsn {
        Lsn(self.known_due.load(Ordering::Acquire))
    }

    /// Remembers that transactions that committed below `due` are due for purge.
    pub(super) fn note_due(&self, due: Lsn) {
        self.known_due.fetch_max(due.0, Ordering::AcqRel);
    }

    /// Leaves an aborted transaction to the background.
    pub(super) fn revert_later(&self, job: Reverting) {
        self.reverts.add(job);
        self.background.unpark();
    }

    /// Puts into quarantine what could not be reverted, purged or given back. Returns false if
    /// there is no room for it.
    pub(super) fn set_aside(&self, task: QuarantineTask, error: Error) -> bool {
        self.quarantine.put(task, error, self.clock.now_us())
    }

    /// Returns a task of the quarantine whose pause is over. It stays there until
    /// [`Quarantine::done`] or [`EndedTxns::set_aside_again`].
    pub(super) fn due_in_quarantine(&self) -> Option<(u64, QuarantineTask)> {
        self.quarantine.due(self.clock.now_us())
    }

    /// Keeps a task of the quarantine that has failed again.
    pub(super) fn set_aside_again(&self, id: u64, task: QuarantineTask, error: Error) {
        self.quarantine.again(id, task, error, self.clock.now_us());
    }

    /// Adds a transaction of which nothing is left to purge. Returns those that the log is to
    /// report, once there are `together` of them.
    pub(super) fn add_purged(&self, txn: TxnId, together: usize) -> Option<Vec<TxnId>> {
        let mut purged = self.purged.lock();
        purged.push(txn);
        (purged.len() >= together).then(|| std::mem::take(&mut *purged))
    }

    /// Does a step of the background thread, which counts as work left meanwhile.
    pub(super) fn in_step<R>(&self, step: impl FnOnce() -> R) -> R {
        self.in_step.store(true, Ordering::Release);
        let done = step();
        self.in_step.store(false, Ordering::Release);
        done
    }

    /// Returns how much the background has to do: transactions to revert or to purge, those
    /// `in_batches` too, and one for the step that it does now.
    pub(super) fn left(&self, in_batches: u64) -> usize {
        let waiting = self.aborted() + self.purge_queue.len() + in_batches as usize;
        // Read last: what a step works on is in no queue, and the step was noted before it took it.
        waiting + usize::from(self.in_step.load(Ordering::Acquire))
    }

    /// Returns how many aborted transactions are not wholly reverted.
    pub(crate) fn aborted(&self) -> usize {
        self.reverts.left() as usize
    }

    /// Returns how many ended transactions wait for purge in memory.
    pub(crate) fn to_purge(&self) -> usize {
        self.purge_queue.len()
    }

    /// Returns how many ended transactions, or pieces of their history, wait because something of
    /// them cannot be read.
    pub(crate) fn unreadable(&self) -> usize {
        self.quarantine.unreadable()
    }

    /// Returns what cannot be read, a sentence each, at most `most`.
    pub(crate) fn unreadable_sentences(&self, most: usize) -> Vec<String> {
        self.quarantine.sentences(most)
    }
}
