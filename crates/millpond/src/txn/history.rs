//! Keeps history within its limits (Un9). When memory is short, the undo of committed transactions
//! goes to history batches and the undo of large transactions to files. When there is no space in
//! files, the oldest snapshot expires. [`pace::history`] decides what is to be done; here it is
//! done.

use super::undo_space::UndoSpace;
use super::versions::Versions;
use crate::error::{Error, Result};
use crate::lock::LockTable;
use crate::mvcc::PurgeQueue;
use crate::mvcc::purge::EndedTxn;
use crate::planted::{Bug, planted};
use crate::tree_store::Store;
use crate::undo::journal::Journal;
use crate::undo::{BATCH_MEMBER_BYTES_MAX, BatchMember, HISTORY_BATCH_BYTES, HISTORY_BATCH_TXNS, spill};
use base::Lsn;
use metrics::M;
use pace::constants::UNDO_WRITE_BYTES;
use pace::history::{HistoryPlan, HistorySample, Step, plan};

/// Transactions that are taken from the purge queue at once: commits wait for so long.
const RUN_TXNS: usize = 1024;
const _: () =
    assert!(RUN_TXNS >= HISTORY_BATCH_TXNS && UNDO_WRITE_BYTES >= HISTORY_BATCH_BYTES, "one fills a batch");

/// Keeps memory and files within the limits, with what that needs of a database.
#[derive(Clone, Copy)]
pub(crate) struct HistoryKeeper<'a> {
    pub(super) store: &'a Store,
    pub(super) versions: &'a Versions,
    /// Committed transactions, whose undo can go to history batches.
    pub(super) purge_queue: &'a PurgeQueue,
    pub(super) undo_space: &'a UndoSpace,
    /// Their memory is within the limits too.
    pub(super) locks: &'a LockTable,
}

impl HistoryKeeper<'_> {
    /// Frees memory, as undo is `above` the threshold, bytes, and a transaction will add to it.
    /// REQUIRES: no latch held.
    #[cold]
    pub(super) fn over_threshold(&self, above: u64) -> Result {
        self.undo_space.limits.wake_thread();
        // The background thread has an eighth of the budget to get ahead in. A writer that finds it
        // used up does the work itself. The other eighth above the threshold is for what all
        // writers add before they check again.
        if above <= self.undo_space.limits.memory / 8 {
            return Ok(());
        }
        match self.step() {
            // Memory exceeds its budget a little before it refuses: an expired snapshot may free
            // enough.
            Err(Error::DiskFull { .. }) if above <= self.undo_space.limits.memory => Ok(()),
            other => other.map(drop),
        }
    }

    /// Returns the memory of everything that the budget covers, in parts.
    pub(crate) fn past(&self) -> HistorySample {
        HistorySample {
            budget: self.undo_space.limits.memory,
            undo: self.versions.streams.bytes(),
            status: self.versions.status.bytes() + self.versions.history_batches.memory(),
            locks: self.locks.bytes(),
            files: 0,
            files_most: self.undo_space.limits.files,
            waiting: self.purge_queue.len() as u64,
            held: false,
            cannot_spill: false,
        }
    }

    /// Checks the limits, and moves undo to files or lets a snapshot expire to keep them. Returns
    /// whether it did. REQUIRES: no latch held.
    pub(crate) fn step(&self) -> Result<bool> {
        let mut journal = self.undo_space.journal.lock();
        journal.sweep()?;
        let horizon = self.versions.horizon();
        // Undo that a snapshot holds lies at or above the horizon; below the horizon purge is at
        // work.
        let oldest =
            [self.purge_queue.oldest(), self.versions.history_batches.oldest()].into_iter().flatten().min();
        let held = oldest.is_some_and(|oldest| oldest >= horizon)
            && self.versions.history_batches.oldest_left_by_crash().is_none();
        let sample = HistorySample { files: journal.bytes_in_use(), held, ..self.past() };
        self.undo_space.limits.set_threshold(&sample);
        let HistoryPlan { transactions, bytes, .. } = plan(&sample);
        let wanted = transactions > 0 || bytes > 0;
        let moved = if wanted { self.move_to_files(&mut journal, transactions, bytes) } else { Ok(false) };
        let step = match &moved {
            _ if !wanted => Step::Idle,
            Ok(true) => Step::Moved,
            Ok(false) => Step::Nothing,
            Err(_) => Step::Failed,
        };
        let (end, durable) = (self.store.log.reserved_lsn(), self.store.log.durable_lsn());
        let cannot_spill = self.undo_space.limits.count_step(step, end.0, durable.0);
        let after = HistorySample { files: journal.bytes_in_use(), held, cannot_spill, ..self.past() };
        let expire = plan(&after).expire_oldest;
        if expire && oldest.is_some_and(|oldest| self.versions.expire_oldest(oldest)) {
            self.store.metrics.add(M::SnapshotsTooOld, 1);
            return moved.map(|_| true);
        }
        moved
    }

    /// Moves to files this many transactions, and this many bytes of memory. Returns whether any
    /// moved.
    fn move_to_files(&self, journal: &mut Journal, transactions: u64, bytes: u64) -> Result<bool> {
        self.store.space.hold_ballast()?;
        let (batched, mut freed) = self.write_batches(journal, transactions, bytes)?;
        for tail in [false, true] {
            if freed < bytes {
                freed += self.spill(journal, bytes - freed, tail)?;
            }
        }
        Ok(batched > 0 || freed > 0)
    }

    /// Moves committed transactions that wait for purge to history batches, until they were
    /// `transactions` and `bytes` of memory, or none is left. Returns how many they were, and how
    /// much memory they took.
    fn write_batches(&self, journal: &mut Journal, transactions: u64, bytes: u64) -> Result<(u64, u64)> {
        let (mut count, mut freed) = (0, 0);
        // First those that a snapshot holds; purge will soon take the others.
        for all in [false, true] {
            while count < transactions || freed < bytes {
                let run = self.next_run(all);
                let (txns, memory) = self.write_run(journal, run)?;
                if txns == 0 {
                    break;
                }
                (count, freed) = (count + txns, freed + memory);
            }
        }
        Ok((count, freed))
    }

    /// Takes from the purge queue what can go to history batches: the oldest that purge may not
    /// touch yet, or `all` that are durable.
    fn next_run(&self, all: bool) -> Vec<(Lsn, EndedTxn)> {
        let from = if all { Lsn::ZERO } else { self.versions.horizon() };
        let durable = self.store.log.durable_lsn();
        let (mut txns, mut bytes) = (0, 0);
        self.purge_queue.take_run(from, durable, |ended| {
            if txns >= RUN_TXNS || bytes >= UNDO_WRITE_BYTES {
                return None;
            }
            let in_memory = if ended.committed { ended.stream.in_memory() } else { None };
            let fits = in_memory.filter(|len| *len <= BATCH_MEMBER_BYTES_MAX);
            txns += usize::from(fits.is_some());
            bytes += fits.map_or(0, |len| len as usize);
            Some(fits.is_some())
        })
    }

    /// Writes a run to history batches. Returns how many transactions they hold, and how much
    /// memory that frees.
    fn write_run(&self, journal: &mut Journal, mut run: Vec<(Lsn, EndedTxn)>) -> Result<(u64, u64)> {
        // They were durable before the reservation point is read. So no snapshot that is drawn
        // after this look lies below them.
        let (mut cuts, below) = self.versions.snapshot_cuts();
        if planted(Bug::BatchedAcross) {
            cuts.clear();
        }
        let later = run.split_off(run.partition_point(|(lsn, _)| *lsn < below));
        later.into_iter().for_each(|(lsn, ended)| self.purge_queue.put_back(lsn, ended));
        let (mut members, mut groups) = (Vec::with_capacity(run.len()), Vec::new());
        let (mut first, mut bytes, mut cut_at) = (0, 0, 0);
        for (lsn, ended) in run {
            let Some((len, purge)) = ended.stream.whole() else {
                self.purge_queue.put_back(lsn, ended);
                continue;
            };
            let at = members.len();
            // A snapshot sees what lies below it.
            let cut = cuts.partition_point(|cut| *cut <= lsn);
            let full = at - first >= HISTORY_BATCH_TXNS || bytes + len as usize > HISTORY_BATCH_BYTES;
            if at > first && (cut != cut_at || full) {
                groups.push(at - first);
                (first, bytes) = (at, 0);
            }
            (cut_at, bytes) = (cut, bytes + len as usize);
            members.push(BatchMember { txn: ended.txn, lsn, purge, stream: ended.stream, len: len as usize });
        }
        if members.is_empty() {
            return Ok((0, 0));
        }
        groups.push(members.len() - first);
        base::check!(
            groups.iter().sum::<usize>() == members.len(),
            "history batches of {groups:?} for {} transactions",
            members.len()
        );
        base::verify!(
            members.is_sorted_by_key(|member| member.lsn),
            "the members of history batches are not in the order of their commits"
        );
        self.note_shortcuts(&members, &cuts)?;
        let mut rest = &mut members[..];
        let groups = groups.into_iter().map(|count| {
            let (group, others) = std::mem::take(&mut rest).split_at_mut(count);
            rest = others;
            group
        });
        match journal.append_history_batches(groups) {
            Ok(batches) => self.versions.history_batches.insert(batches),
            Err(error) => {
                for BatchMember { txn, lsn, stream, .. } in members {
                    self.purge_queue.put_back(lsn, EndedTxn { txn, stream, committed: true });
                }
                return Err(error);
            }
        }
        let (count, bytes) = (members.len(), members.iter().map(|member| member.len).sum::<usize>());
        // A reader that did not find one of them in the other places finds it in the history
        // batches.
        for member in &members {
            self.versions.settle(member.txn);
        }
        let freed = self.versions.streams.give_back(members.into_iter().map(|member| member.stream));
        self.store.metrics.add(M::UndoSpilledBytes, bytes as u64);
        Ok((count as u64, freed))
    }

    /// Notes which versions of these transactions readers may skip together. The members are in the
    /// order of their commits. `cuts` names each snapshot that may lie between them.
    fn note_shortcuts(&self, members: &[BatchMember], cuts: &[Lsn]) -> Result {
        // A snapshot sees what lies below it.
        let seeing = |lsn: Lsn| cuts.partition_point(|cut| *cut <= lsn);
        let apart = |first: Lsn, last: Lsn| seeing(first) != seeing(last) && !planted(Bug::PassedAcross);
        let mut damage = None;
        self.versions.history_batches.add_shortcuts(self.versions.horizon(), apart, |note| {
            for BatchMember { lsn, stream, .. } in members {
                damage = damage.or(stream.each(|at, record| note(*lsn, at, record)).err());
            }
        });
        damage.map_or(Ok(()), |damage| Err(self.versions.undo_damage(damage)))
    }

    /// Writes undo of the largest streams to files, see [`spill::spill`].
    fn spill(&self, journal: &mut Journal, bytes: u64, tail: bool) -> Result<u64> {
        spill::spill(&self.versions.streams, journal, bytes, tail, &mut |written| {
            self.store.metrics.add(M::UndoHardenedBytes, written);
            self.store.metrics.add(M::UndoSpilledBytes, written);
        })
    }
}
