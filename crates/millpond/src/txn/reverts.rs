//! The aborted transactions that are not wholly reverted, and how far each of them is.

use crate::undo::Stream;
use base::TxnId;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

/// An aborted transaction, and how far it is reverted.
#[derive(Clone, Debug)]
pub(super) struct Reverting {
    pub(super) stream: Arc<Stream>,
    /// The newest record that is not processed yet.
    pub(super) next: Option<u64>,
}

impl Reverting {
    pub(super) fn new(stream: &Arc<Stream>) -> Reverting {
        Reverting { stream: Arc::clone(stream), next: stream.position().last }
    }
}

/// The aborted transactions that the background thread reverts.
#[derive(Debug)]
pub(super) struct Reverts {
    queue: Mutex<VecDeque<Reverting>>,
    /// The number of transactions in the queue, of those that are being reverted and of those in
    /// quarantine.
    left: AtomicU64,
    /// The number of those that an earlier run began: recovery found them aborted, or prepared and
    /// they were rolled back since.
    losers: AtomicU64,
    /// The least transaction id of this run.
    first_txn: TxnId,
}

impl Reverts {
    /// The aborted transactions that recovery found. All transactions of this run have the id
    /// `first_txn` or one above it.
    pub(super) fn recovered(streams: impl Iterator<Item = Arc<Stream>>, first_txn: TxnId) -> Reverts {
        let queue: VecDeque<_> = streams.map(|stream| Reverting::new(&stream)).collect();
        let found = || AtomicU64::new(queue.len() as u64);
        Reverts { left: found(), losers: found(), first_txn, queue: Mutex::new(queue) }
    }

    /// Adds an aborted transaction.
    pub(super) fn add(&self, job: Reverting) {
        self.left.fetch_add(1, Ordering::AcqRel);
        if job.stream.owner() < self.first_txn {
            self.losers.fetch_add(1, Ordering::AcqRel);
        }
        self.queue.lock().push_back(job);
    }

    /// Takes the next transaction. It counts as left until [`Reverts::is_reverted`].
    pub(super) fn take(&self) -> Option<Reverting> {
        self.queue.lock().pop_front()
    }

    /// Puts back a transaction that was taken and is not wholly reverted.
    pub(super) fn put_back(&self, job: Reverting) {
        self.queue.lock().push_front(job);
    }

    /// Counts down for a transaction that is wholly reverted.
    pub(super) fn is_reverted(&self, stream: &Stream) {
        let left = self.left.fetch_sub(1, Ordering::AcqRel);
        base::check!(left > 0, "{} is reverted, and no aborted transaction was left", stream.owner());
        if stream.owner() < self.first_txn {
            let losers = self.losers.fetch_sub(1, Ordering::AcqRel);
            base::check!(losers > 0, "{} is reverted, and none of an earlier run was left", stream.owner());
        }
    }

    /// Returns how many aborted transactions are not wholly reverted.
    pub(super) fn left(&self) -> u64 {
        self.left.load(Ordering::Acquire)
    }

    /// Returns how many of them an earlier run began.
    pub(super) fn losers(&self) -> u64 {
        self.losers.load(Ordering::Acquire)
    }

    /// Returns the least transaction id of this run.
    pub(super) fn first_txn(&self) -> TxnId {
        self.first_txn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::Streams;

    /// Recovery found it prepared, so it was no loser at first.
    #[test]
    fn a_transaction_of_an_earlier_run_that_is_rolled_back_later_counts_until_it_is_reverted() {
        let streams = Streams::default();
        let reverts = Reverts::recovered([streams.begin(TxnId(3))].into_iter(), TxnId(10));
        let prepared = streams.begin(TxnId(5));
        reverts.add(Reverting::new(&prepared));
        assert_eq!((reverts.left(), reverts.losers()), (2, 2));
        reverts.is_reverted(&prepared);
        reverts.is_reverted(&reverts.take().expect("the loser").stream);
        assert_eq!((reverts.left(), reverts.losers()), (0, 0));
    }
}
