//! Keeping the past within its limits: committed history goes to segments and the undo of large transactions to files when memory has
//! no room for them, and the oldest snapshot is given up when there is no room in files (Un9). What is to be done says
//! [`pace::history`]; here it is done.

use super::system::Txns;
use crate::error::{Error, Result};
use crate::mvcc::TxnState;
use crate::mvcc::purge::EndedTxn;
use crate::planted::{Bug, planted};
use crate::undo::journal::Journal;
use crate::undo::{MEMBER_BYTES_MAX, Member, SEGMENT_BYTES, SEGMENT_TXNS, spill};
use base::Lsn;
use base::sync::Unparker;
use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use metrics::M;
use pace::history::{HistoryPlan, HistorySample, plan, spill_threshold};

/// Bytes of chunks that are written at once, about.
const WRITE_BYTES: usize = 4 << 20;
/// Transactions that are taken from the queue at once: committers wait for so long.
const RUN_TXNS: usize = 1024;

/// What the past may take, and how near to that it is.
#[derive(Debug)]
pub(crate) struct HistoryLimits {
    /// Memory, bytes.
    pub(crate) memory: u64,
    /// Memory that locks of rows and ranges may take, bytes.
    pub(crate) locks: u64,
    /// Files, bytes.
    pub(crate) files: u64,
    /// Undo bytes from which somebody should look.
    mark: AtomicU64,
    /// The last step found nothing to move, or no space.
    stuck: AtomicBool,
    /// Wakes the thread that looks.
    thread: Unparker,
}

/// Locks may take so much memory however small a budget was asked for, bytes.
const LOCK_BYTES_LEAST: u64 = 1 << 20;
/// And so much where none was: a million rows with short keys can be locked on a machine of any size.
const LOCK_BYTES_DEFAULT: u64 = 256 << 20;

impl HistoryLimits {
    /// As somebody asked for, or by the size of the buffer pool.
    pub(crate) fn new(asked: Option<u64>, pool_bytes: u64, files: u64, thread: Unparker) -> HistoryLimits {
        let memory = HistoryLimits::memory(asked, pool_bytes);
        let least = if asked.is_some() { LOCK_BYTES_LEAST } else { LOCK_BYTES_DEFAULT };
        let mark = AtomicU64::new(spill_threshold(memory, 0, 0));
        HistoryLimits {
            memory,
            locks: (memory / 2).max(least),
            files,
            mark,
            stuck: AtomicBool::new(false),
            thread,
        }
    }

    /// Memory that the past may take, bytes.
    pub(crate) fn memory(asked: Option<u64>, pool_bytes: u64) -> u64 {
        asked.unwrap_or_else(|| (pool_bytes / 4).max(64 << 20))
    }
}

impl Txns {
    /// Before a transaction adds to its undo: has room made for it if it must be. REQUIRES: no latch held.
    #[inline]
    pub(super) fn room_for_undo(&self) -> Result {
        let (bytes, mark) = (self.streams.bytes(), self.limits.mark.load(Ordering::Relaxed));
        if bytes <= mark { Ok(()) } else { self.crowded(bytes - mark) }
    }

    #[cold]
    fn crowded(&self, above: u64) -> Result {
        self.limits.thread.unpark();
        // The thread has an eighth of the budget to get ahead in; who finds that used up does its work. The other eighth above the mark
        // is for what all writers add before they come by here.
        if above <= self.limits.memory / 8 {
            return Ok(());
        }
        match self.history_step() {
            // Memory bends a little before it refuses: a snapshot given up may free enough.
            Err(Error::DiskFull { .. }) if above <= self.limits.memory => Ok(()),
            other => other.map(drop),
        }
    }

    /// Memory of everything that the budget is for, in parts.
    pub(crate) fn past(&self) -> HistorySample {
        HistorySample {
            budget: self.limits.memory,
            undo: self.streams.bytes(),
            status: self.status.bytes() + self.history.memory(),
            locks: self.locks.bytes(),
            files: 0,
            files_most: self.limits.files,
            waiting: self.purge_queue.len() as u64,
            held: false,
            cannot_spill: false,
        }
    }

    /// Looks at the limits, and does what keeps them. Whether something was moved or given up. REQUIRES: no latch held.
    pub(crate) fn history_step(&self) -> Result<bool> {
        let mut journal = self.journal.lock();
        journal.sweep()?;
        let horizon = self.horizon();
        // What a snapshot holds lies at or above it; below the horizon purge is at work.
        let oldest = [self.purge_queue.oldest(), self.history.oldest()].into_iter().flatten().min();
        let held = oldest.is_some_and(|oldest| oldest >= horizon) && self.history.left().is_none();
        let sample = HistorySample { files: journal.bytes_in_use(), held, ..self.past() };
        let mark = spill_threshold(sample.budget, sample.status, sample.locks);
        self.limits.mark.store(mark, Ordering::Relaxed);
        let HistoryPlan { transactions, bytes, .. } = plan(&sample);
        let wanted = transactions > 0 || bytes > 0;
        let moved = if wanted { self.move_to_files(&mut journal, transactions, bytes) } else { Ok(false) };
        let stuck = wanted && !matches!(moved, Ok(true));
        let before = self.limits.stuck.swap(stuck, Ordering::Relaxed);
        // What could not be moved a step ago, because it was not durable yet, may have been moved now: a snapshot is given up only
        // for what could not be moved twice.
        let after = HistorySample {
            files: journal.bytes_in_use(),
            held,
            cannot_spill: stuck && before,
            ..self.past()
        };
        let expire = plan(&after).expire_oldest;
        if expire && oldest.is_some_and(|oldest| self.snapshots.expire_oldest(oldest)) {
            self.store.metrics.add(M::SnapshotsTooOld, 1);
            return moved.map(|_| true);
        }
        moved
    }

    /// Has so many transactions, and so many bytes of memory, go to files. Whether any did.
    fn move_to_files(&self, journal: &mut Journal, transactions: u64, bytes: u64) -> Result<bool> {
        self.store.space.hold_reserve()?;
        let (sealed, mut freed) = self.seal(journal, transactions, bytes)?;
        for tail in [false, true] {
            if freed < bytes {
                freed += self.spill(journal, bytes - freed, tail)?;
            }
        }
        Ok(sealed > 0 || freed > 0)
    }

    /// Has committed transactions that wait for purge go to segments, until they were `transactions` and `bytes` in memory, or
    /// none is left. How many they were, and how much memory they took.
    fn seal(&self, journal: &mut Journal, transactions: u64, bytes: u64) -> Result<(u64, u64)> {
        let (mut count, mut freed) = (0, 0);
        // Those that a snapshot holds first; purge will soon come to the others.
        for all in [false, true] {
            while count < transactions || freed < bytes {
                let run = self.next_run(all);
                let (sealed, memory) = self.seal_run(journal, run)?;
                if sealed == 0 {
                    break;
                }
                (count, freed) = (count + sealed, freed + memory);
            }
        }
        Ok((count, freed))
    }

    /// Takes from the queue what can go to segments: the oldest that purge may not touch yet, or `all` that are durable.
    fn next_run(&self, all: bool) -> Vec<(Lsn, EndedTxn)> {
        let from = if all { Lsn::ZERO } else { self.horizon() };
        let durable = self.store.log.durable_lsn();
        let (mut txns, mut bytes) = (0, 0);
        self.purge_queue.take_run(from, durable, |ended| {
            if txns >= RUN_TXNS || bytes >= WRITE_BYTES {
                return None;
            }
            let in_memory = if ended.committed { ended.stream.in_memory() } else { None };
            let fits = in_memory.filter(|len| *len <= MEMBER_BYTES_MAX);
            txns += usize::from(fits.is_some());
            bytes += fits.map_or(0, |len| len as usize);
            Some(fits.is_some())
        })
    }

    /// Writes a run to segments. How many transactions they hold, and how much memory that frees.
    fn seal_run(&self, journal: &mut Journal, mut run: Vec<(Lsn, EndedTxn)>) -> Result<(u64, u64)> {
        // Durable before the reservation point is read: of the snapshots that this look misses none lies below them.
        let (mut cuts, below) = self.snapshots.cuts(|| self.store.log.reserved_lsn());
        if planted(Bug::SealedAcross) {
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
            let full = at - first >= SEGMENT_TXNS || bytes + len as usize > SEGMENT_BYTES;
            if at > first && (cut != cut_at || full) {
                groups.push(at - first);
                (first, bytes) = (at, 0);
            }
            (cut_at, bytes) = (cut, bytes + len as usize);
            members.push(Member { txn: ended.txn, lsn, purge, stream: ended.stream, len: len as usize });
        }
        if members.is_empty() {
            return Ok((0, 0));
        }
        groups.push(members.len() - first);
        self.put_together(&members, &cuts)?;
        let mut rest = &mut members[..];
        let groups = groups.into_iter().map(|count| {
            let (group, others) = std::mem::take(&mut rest).split_at_mut(count);
            rest = others;
            group
        });
        match journal.append_segments(groups) {
            Ok(segments) => self.history.insert(segments),
            Err(error) => {
                for Member { txn, lsn, stream, .. } in members {
                    self.purge_queue.put_back(lsn, EndedTxn { txn, stream, committed: true });
                }
                return Err(error);
            }
        }
        let (count, bytes) = (members.len(), members.iter().map(|member| member.len).sum::<usize>());
        // Whoever looked for one of them in the other places in vain finds it in the segments.
        for member in &members {
            self.status.set(member.txn, TxnState::Settled);
            self.streams.remove(member.txn);
        }
        let freed = self.streams.give_back(members.into_iter().map(|member| member.stream));
        self.store.metrics.add(M::UndoSpilledBytes, bytes as u64);
        Ok((count as u64, freed))
    }

    /// Notes which versions of these transactions readers may go past together. The members are in the order of their commits, and of
    /// the snapshots that may lie between them `cuts` names each.
    fn put_together(&self, members: &[Member], cuts: &[Lsn]) -> Result {
        // A snapshot sees what lies below it.
        let seeing = |lsn: Lsn| cuts.partition_point(|cut| *cut <= lsn);
        let apart = |first: Lsn, last: Lsn| seeing(first) != seeing(last) && !planted(Bug::PassedAcross);
        let mut damage = None;
        self.history.put_together(self.horizon(), apart, |take_in| {
            for Member { lsn, stream, .. } in members {
                damage = damage.or(stream.each(|at, record| take_in(*lsn, at, record)).err());
            }
        });
        damage.map_or(Ok(()), |damage| Err(self.undo_damage(damage)))
    }

    /// Has undo of the largest streams go to files, see [`spill::spill`].
    fn spill(&self, journal: &mut Journal, bytes: u64, tail: bool) -> Result<u64> {
        spill::spill(&self.streams, journal, bytes, tail, &mut |written| {
            self.store.metrics.add(M::UndoHardenedBytes, written);
            self.store.metrics.add(M::UndoSpilledBytes, written);
        })
    }
}
