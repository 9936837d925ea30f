//! Work that is in quarantine: what could not be reverted, purged or given back, because a page or
//! its undo cannot be read or a full disk has no space. It holds up no other work, and is tried
//! again after a pause that doubles.
//!
//! A transaction in quarantine looks to others as before: an aborted one stays aborted and a
//! committed one stays committed, with its undo, and checkpoints list it. So the next open tries it
//! again.

use super::reverts::Reverting;
use crate::checkpoint::list::ListedBatches;
use crate::error::Error;
use crate::mvcc::purge::EndedTxn;
use crate::undo::{HistoryBatch, HistoryBatchRange};
use base::sync::Mutex;
use base::{TreeId, TxnId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first pause, microseconds.
const AGAIN_US: u64 = 1_000_000;
/// How often the pause doubles: up to a quarter of an hour.
const DOUBLINGS: u32 = 10;
/// The pause after a full disk, microseconds.
const FULL_AGAIN_US: u64 = 500_000;
/// The most purge tasks that are kept. If there are more, pages that cannot be read lose space:
/// delete marks and long values that no reader sees stay in them.
const PURGES_MOST: usize = 1024;

/// A task that waits in quarantine.
#[derive(Clone, Debug)]
pub(super) enum QuarantineTask {
    /// An aborted transaction that is not wholly reverted.
    Revert(Reverting),
    /// An ended transaction that is not wholly purged.
    Purge(EndedTxn),
    /// A history batch that is not wholly purged.
    HistoryBatch(Arc<HistoryBatch>),
    /// History batches of the last run.
    Left(HistoryBatchRange),
    /// A tree that no table has and that still has pages.
    Release(TreeId),
}

impl QuarantineTask {
    /// Returns whether the task may be dropped. A revert may not: an aborted version would be taken
    /// for a committed one. A release takes little memory.
    fn is_purge(&self) -> bool {
        matches!(self, QuarantineTask::Purge(_) | QuarantineTask::HistoryBatch(_) | QuarantineTask::Left(_))
    }

    fn name(&self) -> String {
        match self {
            QuarantineTask::Revert(job) => format!("{} cannot be reverted", job.stream.owner()),
            QuarantineTask::Purge(ended) => format!("{} cannot be purged", ended.txn),
            QuarantineTask::Release(tree) => {
                format!("the pages of {tree:?}, which no table has, cannot be given back")
            }
            QuarantineTask::HistoryBatch(_) | QuarantineTask::Left(_) => {
                "a history batch cannot be purged".to_owned()
            }
        }
    }
}

#[derive(Debug)]
struct QuarantineEntry {
    task: QuarantineTask,
    error: Error,
    tries: u32,
    again_us: u64,
}

impl QuarantineEntry {
    fn failed(&mut self, error: Error, now_us: u64) {
        let pause_us = if lacks_room(&error) { FULL_AGAIN_US } else { AGAIN_US << self.tries.min(DOUBLINGS) };
        (self.error, self.again_us) = (error, now_us + pause_us);
        self.tries += 1;
    }

    fn is_unreadable(&self) -> bool {
        !lacks_room(&self.error)
    }
}

/// Returns whether the data can be read, but disk space or a descriptor is missing, or a limit is
/// reached.
fn lacks_room(error: &Error) -> bool {
    error.may_pass() || matches!(error, Error::Limit { .. })
}

/// All tasks in quarantine, by a number.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    mu: Mutex<(u64, BTreeMap<u64, QuarantineEntry>)>,
}

/// Returns whether a task that failed with this error may go into quarantine: the error does not
/// concern other work.
pub(super) fn is_local(error: &Error) -> bool {
    use Error::{Corrupt, DiskFull, Io, Limit};
    matches!(error, Corrupt { .. } | Io { .. } | DiskFull { .. } | Limit { .. })
}

impl Quarantine {
    /// Puts a task that has failed with `error` into quarantine. Returns false if there is no room
    /// for it.
    pub(super) fn put(&self, task: QuarantineTask, error: Error, now_us: u64) -> bool {
        let mut mu = self.mu.lock();
        if task.is_purge() && mu.1.values().filter(|entry| entry.task.is_purge()).count() >= PURGES_MOST {
            return false;
        }
        let mut entry = QuarantineEntry { task, error: error.clone(), tries: 0, again_us: 0 };
        entry.failed(error, now_us);
        mu.0 += 1;
        let id = mu.0;
        let before = mu.1.insert(id, entry);
        base::check!(before.is_none(), "two tasks of the quarantine have the number {id}");
        true
    }

    /// Returns a task whose pause is over. It stays here until [`Quarantine::done`] or
    /// [`Quarantine::again`].
    pub(super) fn due(&self, now_us: u64) -> Option<(u64, QuarantineTask)> {
        let mu = self.mu.lock();
        let due = mu.1.iter().filter(|(_, entry)| entry.again_us <= now_us);
        let longest = due.min_by_key(|(_, entry)| entry.again_us);
        longest.map(|(id, entry)| (*id, entry.task.clone()))
    }

    /// Removes a task that is done.
    pub(super) fn done(&self, id: u64) {
        let _task = self.mu.lock().1.remove(&id);
    }

    /// Keeps a task that has failed again. Perhaps less of it is left.
    pub(super) fn again(&self, id: u64, task: QuarantineTask, error: Error, now_us: u64) {
        if let Some(entry) = self.mu.lock().1.get_mut(&id) {
            entry.task = task;
            entry.failed(error, now_us);
        }
    }

    /// Returns how many tasks wait.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.mu.lock().1.len()
    }

    /// Returns how many transactions, or pieces of their history, wait because something cannot be
    /// read.
    pub(super) fn unreadable(&self) -> usize {
        let of_txns = |entry: &&QuarantineEntry| {
            entry.is_unreadable() && !matches!(entry.task, QuarantineTask::Release(_))
        };
        self.mu.lock().1.values().filter(of_txns).count()
    }

    /// Returns whether an aborted transaction waits for disk space.
    pub(super) fn wants_space(&self) -> bool {
        let wants = |entry: &QuarantineEntry| {
            matches!(entry.task, QuarantineTask::Revert(_)) && lacks_room(&entry.error)
        };
        self.mu.lock().1.values().any(wants)
    }

    /// Returns how many aborted transactions below `below` wait.
    pub(super) fn reverts(&self, below: TxnId) -> usize {
        let is_older = |entry: &&QuarantineEntry| match &entry.task {
            QuarantineTask::Revert(job) => job.stream.owner() < below,
            _ => false,
        };
        self.mu.lock().1.values().filter(is_older).count()
    }

    /// Returns what cannot be read, a sentence each, at most `most`.
    pub(super) fn sentences(&self, most: usize) -> Vec<String> {
        let mu = self.mu.lock();
        let unreadable = mu.1.values().filter(|entry| entry.is_unreadable());
        unreadable.take(most).map(|entry| format!("{}: {}", entry.task.name(), entry.error)).collect()
    }

    /// Adds the history batches in quarantine to those that a checkpoint lists.
    pub(super) fn list(&self, listed: &mut Vec<ListedBatches>) {
        for entry in self.mu.lock().1.values() {
            match &entry.task {
                QuarantineTask::HistoryBatch(batch) => batch.list(listed),
                QuarantineTask::Left(extent) => extent.list(listed),
                QuarantineTask::Revert(_) | QuarantineTask::Purge(_) | QuarantineTask::Release(_) => {}
            }
        }
    }
}

/// The records of one transaction's undo that a pass over it had to skip.
#[derive(Debug, Default)]
pub(super) struct SkippedRecords {
    first: Option<Error>,
    count: u32,
}

/// After this many records of one transaction the rest is left to the next try: a device may take
/// seconds to report that it cannot read.
const SKIPPED_MOST: u32 = 64;

impl SkippedRecords {
    /// Skips a record that failed with `error`. Returns the error if it concerns other work too, or
    /// if too many records were skipped.
    pub(super) fn skip(&mut self, error: Error) -> Result<(), Error> {
        if !is_local(&error) || self.count >= SKIPPED_MOST {
            return Err(error);
        }
        self.count += 1;
        self.first.get_or_insert(error);
        Ok(())
    }

    /// Returns the first failure, if there was one.
    pub(super) fn finish(self) -> Result<(), Error> {
        self.first.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::Streams;
    use std::path::Path;

    fn bad() -> Error {
        Error::corrupt(Path::new("/db/pages"), "page 7 fails its checksum")
    }

    #[test]
    fn the_pause_doubles_but_stays_short_for_a_full_disk() {
        let (quarantine, streams) = (Quarantine::default(), Streams::default());
        assert!(quarantine.put(QuarantineTask::Revert(Reverting::new(&streams.begin(TxnId(3)))), bad(), 0));
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..13 {
            let mut pause = 0;
            while quarantine.due(now + pause).is_none() {
                pause += FULL_AGAIN_US;
            }
            now += pause;
            pauses.push(pause / FULL_AGAIN_US);
            let (id, task) = quarantine.due(now).unwrap();
            quarantine.again(id, task, bad(), now);
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 2048, 2048]);
        assert_eq!(
            (
                quarantine.len(),
                quarantine.unreadable(),
                quarantine.reverts(TxnId(4)),
                quarantine.reverts(TxnId(3))
            ),
            (1, 1, 1, 0)
        );
        assert_eq!(quarantine.sentences(9).len(), 1);
        let (id, task) = quarantine.due(u64::MAX).unwrap();
        quarantine.again(id, task, Error::DiskFull { file: "/db/pages".into() }, now);
        assert!(quarantine.due(now).is_none() && quarantine.due(now + FULL_AGAIN_US).is_some());
        assert_eq!((quarantine.len(), quarantine.unreadable(), quarantine.sentences(9).len()), (1, 0, 0));
        quarantine.done(id);
        assert_eq!(quarantine.len(), 0);
    }

    #[test]
    fn purge_tasks_are_limited_and_revert_tasks_are_not() {
        let (quarantine, streams) = (Quarantine::default(), Streams::default());
        for n in 1..=PURGES_MOST as u64 + 10 {
            let ended = EndedTxn { txn: TxnId(n), stream: streams.begin(TxnId(n)), committed: true };
            assert_eq!(quarantine.put(QuarantineTask::Purge(ended), bad(), 0), n <= PURGES_MOST as u64);
        }
        assert!(quarantine.put(
            QuarantineTask::Revert(Reverting::new(&streams.begin(TxnId(9999)))),
            bad(),
            0
        ));
        assert_eq!(quarantine.len(), PURGES_MOST + 1);
    }

    #[test]
    fn a_record_is_skipped_only_for_an_error_that_concerns_no_other_work() {
        let mut skipped = SkippedRecords::default();
        assert!(skipped.skip(Error::Closed).is_err());
        for _ in 0..SKIPPED_MOST {
            skipped.skip(bad()).unwrap();
        }
        assert!(skipped.skip(bad()).is_err());
        assert!(matches!(skipped.finish(), Err(Error::Corrupt { .. })));
    }
}
