//! Transactions that have ended, in the order of their commit LSNs, until nobody needs their undo.
//!
//! A committed transaction is due when every snapshot sees it and it is durable: then no reader follows an address into its undo, its
//! delete marks may go, and so may the values that it replaced, and nobody who is shown its rows need wait (Co10). A reverted one waits in the same queue at the LSN of its
//! last change, until who may still hold one of its addresses has finished. Who purges takes what is due, does the work
//! in pages, and calls [`crate::mvcc::Status`] and [`crate::undo::Streams`] to forget the transaction.

use crate::undo::Stream;
use base::sync::Mutex;
use base::{Lsn, TxnId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One transaction that waits for its purge.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// Which.
    pub(crate) txn: TxnId,
    /// Its undo.
    pub(crate) stream: Arc<Stream>,
    /// Whether it committed; else it is reverted, and only its undo remains to be dropped.
    pub(crate) committed: bool,
}

/// The queue, keyed by commit LSN. Two transactions never share one.
#[derive(Debug, Default)]
pub(crate) struct PurgeQueue {
    mu: Mutex<BTreeMap<Lsn, Ended>>,
}

impl PurgeQueue {
    /// Enters a transaction that ended at `lsn`.
    pub(crate) fn push(&self, lsn: Lsn, ended: Ended) {
        let before = self.mu.lock().insert(lsn, ended);
        base::check!(before.is_none(), "two transactions ended at {lsn:?}");
    }

    /// Takes the oldest transaction if it ended below `horizon` ([`crate::mvcc::Snapshots::horizon`]) and, if it committed,
    /// below `durable`.
    pub(crate) fn take(&self, horizon: Lsn, durable: Lsn) -> Option<(Lsn, Ended)> {
        let mut mu = self.mu.lock();
        let due = |lsn: Lsn, ended: &Ended| lsn < horizon && (lsn < durable || !ended.committed);
        let first = mu.first_entry().filter(|e| due(*e.key(), e.get()))?;
        Some(first.remove_entry())
    }

    /// Takes the transactions that ended at or above `from` and below `below`, oldest first, for which `wanted` says so, until it
    /// says `None`.
    pub(crate) fn take_run(
        &self,
        from: Lsn,
        below: Lsn,
        mut wanted: impl FnMut(&Ended) -> Option<bool>,
    ) -> Vec<(Lsn, Ended)> {
        let mut mu = self.mu.lock();
        let mut run = Vec::new();
        if from < below {
            for (lsn, ended) in mu.range(from..below) {
                match wanted(ended) {
                    Some(true) => run.push((*lsn, ended.clone())),
                    Some(false) => {}
                    None => break,
                }
            }
        }
        for (lsn, _) in &run {
            mu.remove(lsn);
        }
        run
    }

    /// When the oldest transaction ended.
    pub(crate) fn oldest(&self) -> Option<Lsn> {
        self.mu.lock().keys().next().copied()
    }

    /// Gives back a transaction whose purge could not be finished.
    pub(crate) fn put_back(&self, lsn: Lsn, ended: Ended) {
        self.push(lsn, ended);
    }

    /// How many transactions wait: the history length.
    pub(crate) fn len(&self) -> usize {
        self.mu.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::Streams;

    #[test]
    fn the_oldest_goes_first_and_not_before_all_see_it() {
        let (queue, streams) = (PurgeQueue::default(), Streams::default());
        for (txn, lsn) in [(1, 30), (2, 10), (3, 20)] {
            let stream = streams.begin(TxnId(txn));
            queue.push(Lsn(lsn), Ended { txn: TxnId(txn), stream, committed: true });
        }
        let take = |horizon, durable| queue.take(Lsn(horizon), Lsn(durable)).map(|(_, e)| e.txn.0);
        assert_eq!(queue.oldest(), Some(Lsn(10)));
        assert_eq!([take(10, 99), take(99, 10), take(21, 99), take(99, 21)], [None, None, Some(2), Some(3)]);
        assert_eq!([take(21, 99), take(31, 31)], [None, Some(1)]);
        let stream = streams.begin(TxnId(4));
        queue.push(Lsn(40), Ended { txn: TxnId(4), stream, committed: false });
        assert_eq!(take(41, 0), Some(4), "that an abort is durable matters to nobody");
        assert_eq!(queue.len(), 0);
    }
}
