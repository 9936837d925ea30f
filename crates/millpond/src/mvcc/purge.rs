//! The purge queue: transactions that have ended, in the order of their commit LSNs, until no
//! snapshot needs their undo. (The history list.)
//!
//! A committed transaction is due when every snapshot sees it and it is durable. From then on no
//! reader follows an address into its undo, its delete marks and the values that it replaced may
//! go, and no reader of its rows needs to wait for durability (Co10). A reverted transaction waits
//! in the same queue at the LSN of its last change, until every reader that may still hold one of
//! its undo addresses has finished. The purge thread takes what is due, does the work in pages, and
//! tells [`crate::mvcc::StatusTable`] and [`crate::undo::Streams`] to forget the transaction.

use crate::undo::Stream;
use base::sync::Mutex;
use base::{Lsn, Striped, TxnId};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// A transaction that has ended and waits for its purge.
#[derive(Clone, Debug)]
pub(crate) struct EndedTxn {
    /// Its id.
    pub(crate) txn: TxnId,
    /// Its undo.
    pub(crate) stream: Arc<Stream>,
    /// Whether it committed. Else it is reverted, and only its undo remains to be dropped.
    pub(crate) committed: bool,
}

impl EndedTxn {
    /// Returns whether nothing of it is left but its undo and its state: purge changes no page for
    /// it.
    fn is_mere_memory(&self) -> bool {
        self.committed && !self.stream.needs_purge()
    }
}

/// The LSNs below which transactions are due for purge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PurgeDue {
    /// All snapshots see the commits below it, those held now and those drawn later.
    pub(crate) seen: Lsn,
    /// The log is durable below it.
    pub(crate) durable: Lsn,
}

impl PurgeDue {
    fn covers(self, lsn: Lsn, ended: &EndedTxn) -> bool {
        // An abort need not be durable.
        lsn < self.seen && (lsn < self.durable || !ended.committed)
    }
}

/// Ended transactions that a commit takes out of its stripe: more than it adds, so the stripe gets
/// shorter.
const TAKEN_AT_COMMIT: usize = 2;
/// If a transaction has been due for this much log, purge has fallen behind. Bytes.
const OVERDUE_BYTES: u64 = if cfg!(loom) { 0 } else { 1 << 20 };

/// How many transactions ahead the processor fetches undo from memory.
const AHEAD: usize = 8;

/// Transactions by the LSN of their end, ascending.
type EndedQueue = VecDeque<(Lsn, EndedTxn)>;

/// The queue, keyed by commit LSN. Two transactions never share one.
///
/// Each stripe is in order; the purge thread merges the stripes. Where many threads commit, it gets
/// too little processor time to follow them. So when purge has fallen behind, each commit takes
/// transactions out of its own stripe that need no work in pages, a few more than it adds.
#[derive(Debug, Default)]
pub(crate) struct PurgeQueue {
    stripes: Striped<Mutex<EndedQueue>>,
    /// Transactions taken out of the stripes, ascending.
    sorted: Mutex<EndedQueue>,
}

impl PurgeQueue {
    /// Adds a transaction that ended at `lsn`.
    pub(crate) fn push(&self, lsn: Lsn, ended: EndedTxn) {
        enter(&mut self.stripes.own().lock(), lsn, ended);
    }

    /// Adds a transaction that committed at `lsn`. If purge has fallen behind, returns a few from
    /// the same stripe that committed far below `due`, where all transactions are due, and that
    /// need no work in pages.
    pub(crate) fn exchange(
        &self,
        lsn: Lsn,
        ended: EndedTxn,
        due: Lsn,
    ) -> SmallVec<[EndedTxn; TAKEN_AT_COMMIT]> {
        let mut stripe = self.stripes.own().lock();
        let mut taken = SmallVec::new();
        while taken.len() < TAKEN_AT_COMMIT
            && stripe
                .front()
                .is_some_and(|(lsn, ended)| due.since(*lsn) > OVERDUE_BYTES && ended.is_mere_memory())
        {
            let (lsn, ended) = stripe.pop_front().expect("just seen");
            base::verify!(lsn < due, "{} ended at {lsn} and is not due before {due}", ended.txn);
            taken.push(ended);
        }
        enter(&mut stripe, lsn, ended);
        taken
    }

    /// Sorts in what the stripes have that is `due`.
    fn gather(&self, sorted: &mut EndedQueue, due: PurgeDue) {
        let before = sorted.len();
        for stripe in self.stripes.iter() {
            let mut stripe = stripe.lock();
            while stripe.front().is_some_and(|(lsn, ended)| due.covers(*lsn, ended)) {
                sorted.extend(stripe.pop_front());
            }
        }
        sort_in(sorted, before);
    }

    /// Returns up to `most` committed transactions that [`PurgeQueue::take`] will return next and
    /// that need work in pages. They stay in the queue.
    pub(crate) fn next_with_work(&self, due: PurgeDue, most: usize) -> Vec<Arc<Stream>> {
        let mut sorted = self.sorted.lock();
        if sorted.len() < most {
            self.gather(&mut sorted, due);
        }
        let next = sorted.iter().take(most).filter(|(lsn, ended)| due.covers(*lsn, ended));
        let work = next.filter(|(_, ended)| ended.committed && !ended.is_mere_memory());
        work.map(|(_, ended)| Arc::clone(&ended.stream)).collect()
    }

    /// Takes the oldest transaction that is `due`.
    pub(crate) fn take(&self, due: PurgeDue) -> Option<(Lsn, EndedTxn)> {
        let mut sorted = self.sorted.lock();
        if !sorted.front().is_some_and(|(lsn, ended)| due.covers(*lsn, ended)) {
            self.gather(&mut sorted, due);
        }
        let taken = sorted.pop_front_if(|(lsn, ended)| due.covers(*lsn, ended));
        base::check!(
            taken.iter().zip(sorted.front()).all(|((lsn, _), (next, _))| lsn <= next),
            "purge leaves behind a transaction that ended before {:?}",
            taken.as_ref().map(|(lsn, _)| lsn)
        );
        if taken.is_none() {
            // Many threads may have just stopped committing.
            shrink(&mut sorted);
            self.stripes.iter().for_each(|stripe| shrink(&mut stripe.lock()));
        }
        taken
    }

    /// Returns for how many transactions the queue has memory.
    #[cfg(test)]
    fn capacity(&self) -> usize {
        let stripes = self.stripes.iter().map(|stripe| stripe.lock().capacity());
        stripes.sum::<usize>() + self.sorted.lock().capacity()
    }

    /// Takes the transactions that ended at or above `from` and below `below` and that `wanted`
    /// accepts, oldest first, until `wanted` returns none.
    pub(crate) fn take_run(
        &self,
        from: Lsn,
        below: Lsn,
        mut wanted: impl FnMut(&EndedTxn) -> Option<bool>,
    ) -> Vec<(Lsn, EndedTxn)> {
        let mut sorted = self.sorted.lock();
        let before = sorted.len();
        for stripe in self.stripes.iter() {
            let mut stripe = stripe.lock();
            let first = stripe.partition_point(|(lsn, _)| *lsn < from);
            let end = stripe.partition_point(|(lsn, _)| *lsn < below);
            sorted.extend(stripe.drain(first..end.max(first)));
        }
        sort_in(&mut sorted, before);
        let first = sorted.partition_point(|(lsn, _)| *lsn < from);
        // Empty if all that ended below `below` ended below `from`.
        let end = sorted.partition_point(|(lsn, _)| *lsn < below).max(first);
        // The transactions that stay move to the front of those that were looked at.
        let (mut next, mut stay) = (first, first);
        while next < end
            && let Some(wanted) = wanted(&sorted[next].1)
        {
            if let Some((_, ended)) = sorted.get(next + AHEAD) {
                ended.stream.prefetch();
            }
            if !wanted {
                sorted.swap(stay, next);
                stay += 1;
            }
            next += 1;
        }
        base::check!(first <= stay && stay <= next && next <= end, "a run {stay}..{next} of {first}..{end}");
        let mut run: Vec<_> = sorted.drain(stay..next).collect();
        if stay > first {
            run.sort_by_key(|(lsn, _)| *lsn);
        }
        run
    }

    /// Returns the LSN at which the oldest transaction ended.
    pub(crate) fn oldest(&self) -> Option<Lsn> {
        let in_stripes =
            self.stripes.iter().filter_map(|stripe| stripe.lock().front().map(|(lsn, _)| *lsn)).min();
        let sorted = self.sorted.lock().front().map(|(lsn, _)| *lsn);
        in_stripes.into_iter().chain(sorted).min()
    }

    /// Puts back a transaction whose purge could not be finished.
    pub(crate) fn put_back(&self, lsn: Lsn, ended: EndedTxn) {
        let mut sorted = self.sorted.lock();
        let at = sorted.partition_point(|(other, _)| *other < lsn);
        sorted.insert(at, (lsn, ended));
    }

    /// Returns how many transactions wait: the history length.
    pub(crate) fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.lock().len()).sum::<usize>() + self.sorted.lock().len()
    }
}

/// The queue always keeps memory for this many transactions.
const ROOMY: usize = 4096;

/// Frees memory that many ended transactions have left behind.
fn shrink(queue: &mut EndedQueue) {
    if queue.capacity() > ROOMY && queue.capacity() > 8 * queue.len() {
        queue.shrink_to(2 * queue.len());
    }
}

/// Sorts in what was added after the first `before`. It was added stripe by stripe and usually
/// lies above the others. So there are a few ascending runs to merge.
fn sort_in(sorted: &mut EndedQueue, before: usize) {
    let Some(least) = sorted.range(before..).map(|(lsn, _)| *lsn).min() else { return };
    let all = sorted.make_contiguous();
    let from = all[..before].partition_point(|(lsn, _)| *lsn < least);
    all[from..].sort_by_key(|(lsn, _)| *lsn);
    base::verify!(all.is_sorted_by_key(|(lsn, _)| *lsn), "the queue of purge is out of order");
}

/// Inserts a transaction in order, which is at the end or near it.
fn enter(stripe: &mut EndedQueue, lsn: Lsn, ended: EndedTxn) {
    let later = stripe.iter().rev().take_while(|(other, _)| *other > lsn).count();
    let at = stripe.len() - later;
    stripe.insert(at, (lsn, ended));
    base::verify!(at == 0 || stripe[at - 1].0 <= lsn, "a stripe is out of order at {lsn}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::node::{DELETED, Version};
    use crate::page::op::{RowChange, RowOp};
    use crate::undo::Streams;
    use base::TreeId;

    #[test]
    fn the_oldest_is_taken_first_and_not_before_all_snapshots_see_it() {
        let (queue, streams) = (PurgeQueue::default(), Streams::default());
        for (txn, lsn) in [(1, 30), (2, 10), (3, 20)] {
            let stream = streams.begin(TxnId(txn));
            queue.push(Lsn(lsn), EndedTxn { txn: TxnId(txn), stream, committed: true });
        }
        let take = |seen, durable| {
            queue.take(PurgeDue { seen: Lsn(seen), durable: Lsn(durable) }).map(|(_, e)| e.txn.0)
        };
        assert_eq!(queue.oldest(), Some(Lsn(10)));
        assert_eq!([take(10, 99), take(99, 10), take(21, 99), take(99, 21)], [None, None, Some(2), Some(3)]);
        assert_eq!([take(21, 99), take(31, 31)], [None, Some(1)]);
        let stream = streams.begin(TxnId(4));
        queue.push(Lsn(40), EndedTxn { txn: TxnId(4), stream, committed: false });
        assert_eq!(take(41, 0), Some(4), "an abort need not be durable");
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn many_ended_transactions_leave_no_memory_behind() {
        let (queue, streams) = (PurgeQueue::default(), Streams::default());
        let many = 20 * ROOMY as u64;
        for n in 1..=many {
            queue.push(Lsn(n), EndedTxn { txn: TxnId(n), stream: streams.begin(TxnId(n)), committed: true });
        }
        let most = queue.capacity();
        let due = PurgeDue { seen: Lsn::MAX, durable: Lsn::MAX };
        assert_eq!(std::iter::from_fn(|| queue.take(due)).count() as u64, many);
        assert!(most as u64 >= many && queue.capacity() <= ROOMY, "{most}, then {}", queue.capacity());
    }

    /// Adds undo that purge must look at when its transaction has committed.
    fn leaves_work(stream: &Stream) {
        let version = Version { txn: stream.owner(), undo_at: 0 };
        let change = RowChange::Replace {
            before: Version::default(),
            old_flags: 0,
            new_flags: DELETED,
            front: 0,
            back: 0,
            old_middle: b"v",
            new_middle: b"",
        };
        stream.append_row(&RowOp { slot: 0, tree: TreeId(1), key: b"k", version, change });
    }

    #[test]
    fn a_run_holds_the_oldest_wanted_transactions_and_the_others_keep_their_order() {
        let (queue, streams) = (PurgeQueue::default(), Streams::default());
        let ended = |txn| EndedTxn { txn: TxnId(txn), stream: streams.begin(TxnId(txn)), committed: true };
        for n in 1..=60 {
            // Three threads, each with its own stripe.
            let stripe = queue.stripes.iter().nth(n as usize % 3).unwrap();
            enter(&mut stripe.lock(), Lsn(10 * n), ended(n));
        }
        let ids = |run: &[(Lsn, EndedTxn)]| run.iter().map(|(_, ended)| ended.txn.0).collect::<Vec<_>>();
        let mut left = 10;
        let run = queue.take_run(Lsn(50), Lsn(400), |ended| {
            let wanted = ended.txn.0 % 4 != 0;
            left -= u32::from(wanted);
            (left > 0).then_some(wanted)
        });
        assert_eq!(ids(&run), [5, 6, 7, 9, 10, 11, 13, 14, 15]);
        queue.put_back(run[8].0, run[8].1.clone());
        let run = queue.take_run(Lsn(50), Lsn(200), |_| Some(true));
        assert_eq!(ids(&run), [8, 12, 15, 16, 17, 18, 19]);
        assert_eq!(ids(&queue.take_run(Lsn(300), Lsn(300), |_| Some(true))), [0; 0]);
        assert_eq!((queue.oldest(), queue.len()), (Some(Lsn(10)), 60 - 8 - 7));
        let rest = queue.take_run(Lsn::ZERO, Lsn::MAX, |_| Some(true));
        assert_eq!(ids(&rest), (1..=4).chain(20..=60).collect::<Vec<_>>());
    }

    #[test]
    fn a_commit_takes_overdue_transactions_that_need_no_page() {
        let (queue, streams) = (PurgeQueue::default(), Streams::default());
        let step = OVERDUE_BYTES;
        let exchange = |n: u64, due: u64, work: bool| {
            let stream = streams.begin(TxnId(n));
            if work {
                leaves_work(&stream);
            }
            let ended = EndedTxn { txn: TxnId(n), stream, committed: true };
            let taken = queue.exchange(Lsn(n * step), ended, Lsn(due));
            taken.iter().map(|ended| ended.txn.0).collect::<Vec<_>>()
        };
        assert_eq!(exchange(1, u64::MAX, false), [0; 0], "never its own");
        assert_eq!(exchange(2, 2 * step, false), [0; 0], "due, and not for long");
        assert_eq!(exchange(3, 2 * step + 1, false), [1]);
        assert_eq!(exchange(4, 2 * step + 1, true), [0; 0]);
        assert_eq!(exchange(5, 9 * step, false), [2, 3]);
        assert_eq!(exchange(6, 9 * step, false), [0; 0], "4 is before 5 and needs its page");
        let due = PurgeDue { seen: Lsn::MAX, durable: Lsn::MAX };
        let rest: Vec<u64> = std::iter::from_fn(|| queue.take(due)).map(|(_, ended)| ended.txn.0).collect();
        assert_eq!(rest, [4, 5, 6]);
    }
}
