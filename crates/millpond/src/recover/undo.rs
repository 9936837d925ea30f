//! Rebuilds transactions after a crash, their undo and how they ended, from the checkpoint's list,
//! the hardened undo and the redo.
//!
//! Replay gives every stream the bytes it had, because a record's undo is part of the redo record.
//! A transaction may be missing in the list and appear in the redo from the middle on. It had
//! ended, and been purged, before the list was made. Only its last steps are above the checkpoint,
//! and its undo is not needed.
//!
//! Undo that exceeds the memory limit is spilled to undo files while the log is still being read
//! (Un9). No list names these files. If this opening fails they are ignored: the next opening
//! starts again, and its first checkpoint removes them.

use super::lists::{damaged_list, read_parts};
use crate::checkpoint::list::{List, Stage};
use crate::checkpoint::root::Root;
use crate::error::{Error, Result};
use crate::log::group::{Record, ids};
use crate::log::segment::Segments;
use crate::page::map::SHARED;
use crate::page::op::PageOp;
use crate::txn::Recovered;
use crate::undo::journal::Journal;
use crate::undo::spill::spill;
use crate::undo::{
    BATCH_MEMBER_BYTES_MAX, BatchMember, HISTORY_BATCH_BYTES, HISTORY_BATCH_TXNS, HistoryBatchRange, Stream,
    Streams, UndoEntry, decode_rewind,
};
use base::{Lsn, TreeId, TxnId};
use pace::constants::UNDO_WRITE_BYTES;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads the checkpoint's list that the root names. Returns an empty one for a database without a
/// checkpoint.
pub(crate) fn read_list(segments: &Segments, root: &Root) -> Result<List> {
    if root.record == Lsn::MAX {
        return Ok(List { next_txn: TxnId(1), next_tree: TreeId(1), ..List::default() });
    }
    let body = read_parts(segments, &root.epochs, root.record, |record| match *record {
        Record::Checkpoint { body } => Some(body),
        _ => None,
    })?;
    List::decode(&body).map_err(|_| damaged_list(segments, root.record, "it is malformed"))
}

/// Builds the state of all transactions while the log is read.
#[derive(Debug)]
pub(crate) struct Rebuild {
    redo_dir: PathBuf,
    /// The LSN of the list. A transaction that the list does not name had ended before it.
    list_at: Lsn,
    next_txn: TxnId,
    next_tree: TreeId,
    counters: BTreeMap<TreeId, u64>,
    bookmark: Vec<u8>,
    streams: Streams,
    stages: BTreeMap<TxnId, Stage>,
    /// Transactions that had ended and been purged before the list was made.
    ended: BTreeSet<TxnId>,
    /// Streams that were used last, at their transaction's id modulo the length. Most records find
    /// their stream here.
    recent: Vec<Option<Arc<Stream>>>,
    undo_memory: Option<UndoMemory>,
    /// The LSN of the last record.
    at: Lsn,
}

/// The number of places for streams that were used last. Transactions that run at the same time
/// have ids close to each other, so they seldom share a place.
const RECENT: usize = 256;

/// Splits off the first members: at least one, at most `most`, with at most `bytes` of undo.
fn take_prefix<'m>(left: &mut &'m mut [BatchMember], most: usize, bytes: usize) -> &'m mut [BatchMember] {
    let mut sum = 0;
    let fit = left.iter().take(most).take_while(|member| {
        sum += member.len;
        sum <= bytes
    });
    let fit = fit.count().max(1);
    let (first, others) = std::mem::take(left).split_at_mut(fit);
    *left = others;
    first
}

/// How much undo may be in memory, and where the rest goes.
#[derive(Debug)]
struct UndoMemory {
    journal: Journal,
    /// Bytes.
    memory: u64,
    /// The most that was in memory between two calls of [`Rebuild::make_room`], bytes.
    most: u64,
    /// Bytes that were written to files.
    spilled: u64,
    /// Committed transactions that were written to history batches, to be purged.
    moved: Vec<HistoryBatchRange>,
}

impl Rebuild {
    /// Begins with the checkpoint's list and the hardened undo of its transactions.
    pub(crate) fn begin(redo_dir: &Path, list_at: Lsn, list: List, streams: Streams) -> Rebuild {
        let mut rebuild = Rebuild {
            redo_dir: redo_dir.to_owned(),
            list_at: if list_at == Lsn::MAX { Lsn::ZERO } else { list_at },
            next_txn: list.next_txn.max(TxnId(1)),
            next_tree: list.next_tree.max(TreeId(1)),
            counters: list.counters.into_iter().collect(),
            bookmark: list.bookmark,
            streams,
            stages: BTreeMap::new(),
            ended: BTreeSet::new(),
            recent: vec![None; RECENT],
            undo_memory: None,
            at: Lsn::ZERO,
        };
        rebuild.stages.extend(list.txns.into_iter().map(|listed| (listed.txn, listed.stage)));
        rebuild
    }

    /// Limits the undo in memory to about `memory` bytes; see [`Rebuild::make_room`].
    pub(crate) fn within(mut self, memory: u64, journal: Journal) -> Rebuild {
        self.undo_memory = Some(UndoMemory { journal, memory, most: 0, spilled: 0, moved: Vec::new() });
        self
    }

    /// Moves undo to files if there is too much in memory. To be called every few hundred kilobytes
    /// of log. If the disk is full the undo stays in memory, because the database must open.
    pub(crate) fn make_room(&mut self) -> Result {
        let Some(UndoMemory { memory, most, .. }) = &mut self.undo_memory else { return Ok(()) };
        *most = self.streams.bytes().max(*most);
        // A quarter is kept for the undo of the log until the next call. Undo moves to files until
        // only half of the memory is used.
        if self.streams.bytes() <= *memory - *memory / 4 {
            return Ok(());
        }
        match self.move_committed() {
            Ok(()) | Err(Error::DiskFull { .. }) => {}
            Err(error) => return Err(error),
        }
        let Some(UndoMemory { journal, memory, spilled, .. }) = &mut self.undo_memory else { return Ok(()) };
        let most = *memory / 2;
        for tail in [false, true] {
            let above = self.streams.bytes().saturating_sub(most);
            match spill(&self.streams, journal, above, tail, &mut |written| *spilled += written) {
                Ok(_) => {}
                Err(Error::DiskFull { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the most undo that was in memory, bytes.
    pub(crate) fn memory_most(&self) -> u64 {
        self.undo_memory.as_ref().map_or(0, |undo| undo.most)
    }

    /// Moves the committed transactions to history batches, to be purged from there. Very many
    /// transactions may have deleted a row or two each: their undo takes less memory than the other
    /// things that are kept for them. A transaction whose `purged` record comes later is purged
    /// twice, which does no harm.
    fn move_committed(&mut self) -> Result {
        let Some(UndoMemory { journal, spilled, moved, .. }) = &mut self.undo_memory else { return Ok(()) };
        // Before the list, undo may follow of a transaction that the list calls committed.
        if self.at < self.list_at {
            return Ok(());
        }
        let committed = self.stages.iter().filter_map(|(&txn, stage)| {
            let &Stage::Committed(lsn) = stage else { return None };
            let stream = self.streams.get(txn)?;
            let (len, purge) = stream.whole().filter(|(len, _)| *len <= BATCH_MEMBER_BYTES_MAX)?;
            Some(BatchMember { txn, lsn, purge, stream, len: len as usize })
        });
        let mut members: Vec<_> = committed.collect();
        members.sort_by_key(|member| member.lsn);
        let mut left = &mut members[..];
        while !left.is_empty() {
            let run = take_prefix(&mut left, usize::MAX, UNDO_WRITE_BYTES);
            let (mut rest, mut batches) = (&mut *run, Vec::new());
            while !rest.is_empty() {
                batches.push(take_prefix(&mut rest, HISTORY_BATCH_TXNS, HISTORY_BATCH_BYTES));
            }
            HistoryBatchRange::of_batches(journal.append_history_batches(batches.into_iter())?, moved);
            for &mut BatchMember { txn, len, .. } in run {
                *spilled += len as u64;
                self.streams.remove(txn);
                self.stages.remove(&txn);
                self.recent[txn.0 as usize % RECENT].take_if(|stream| stream.owner() == txn);
            }
        }
        Ok(())
    }

    /// Processes one record of the log; `op` is the change of a page record.
    pub(crate) fn record(&mut self, lsn: Lsn, record: &Record<'_>, op: Option<&PageOp<'_>>) -> Result {
        self.at = lsn;
        match (*record, op) {
            (Record::Page { .. }, Some(PageOp::Row(row))) => {
                self.undo(lsn, row.version.txn, row.version.undo_at, UndoEntry::of(row))?;
            }
            (Record::Page { page, .. }, Some(&PageOp::InitOverflow { tree, owner, head: true, .. })) => {
                self.undo(lsn, owner.txn, owner.undo_at, UndoEntry::Chain { tree, head: page })?;
            }
            (Record::Page { .. }, Some(PageOp::MapOwn { tree, .. } | PageOp::OwnerSet { tree, .. }))
                if *tree != SHARED =>
            {
                self.next_tree = self.next_tree.max(TreeId(tree.0.saturating_add(1)));
            }
            (Record::Undo { txn, at, entry }, _) => {
                let entry = decode_rewind(entry).map_err(|damage| self.damaged(lsn, txn, damage.0))?;
                self.undo(lsn, txn, at, entry)?;
            }
            (Record::Commit { txn }, _) => self.committed(txn, lsn),
            (Record::Prepare { txn, xid }, _) => self.stage(txn, Stage::Prepared(xid.to_vec())),
            (Record::Abort { txn }, _) => self.stage(txn, Stage::Aborted),
            (Record::Reverted { txn }, _) => {
                self.note_id(txn);
                self.forget(txn);
                // No record of it follows. But before the list there may be one that began before
                // the log that is read.
                if lsn < self.list_at {
                    self.ended.insert(txn);
                }
            }
            (Record::Purged { txns }, _) => {
                for txn in ids(txns) {
                    let txn = txn.map_err(|_| {
                        self.damaged(lsn, TxnId::NONE, "a list of purged transactions is cut short")
                    })?;
                    self.note_id(txn);
                    self.forget(txn);
                }
            }
            (Record::Counter { tree, next }, _) => {
                let counter = self.counters.entry(tree).or_default();
                *counter = (*counter).max(next);
            }
            (Record::Bookmark { bookmark }, _) => {
                self.bookmark.clear();
                self.bookmark.extend_from_slice(bookmark);
            }
            (
                Record::Page { .. }
                | Record::Checkpoint { .. }
                | Record::DirtyPages { .. }
                | Record::Filler { .. },
                _,
            ) => {}
        }
        Ok(())
    }

    fn damaged(&self, lsn: Lsn, txn: TxnId, what: &str) -> Error {
        Error::corrupt(&self.redo_dir, format!("redo at LSN {lsn}, {txn:?}: {what}"))
    }

    fn note_id(&mut self, txn: TxnId) {
        self.next_txn = self.next_txn.max(TxnId(txn.0 + 1));
    }

    fn stage(&mut self, txn: TxnId, stage: Stage) {
        self.note_id(txn);
        if !self.ended.contains(&txn) {
            self.stages.insert(txn, stage);
        }
    }

    /// Forgets a transaction. No record with undo of it follows.
    fn forget(&mut self, txn: TxnId) {
        self.streams.remove(txn);
        self.stages.remove(&txn);
        self.recent[txn.0 as usize % RECENT].take_if(|stream| stream.owner() == txn);
    }

    /// A committed transaction is kept only for its purge, because no snapshot survives a crash.
    fn committed(&mut self, txn: TxnId, lsn: Lsn) {
        if self.streams.get(txn).is_some_and(|stream| stream.needs_purge()) {
            self.stage(txn, Stage::Committed(lsn));
        } else {
            self.note_id(txn);
            self.forget(txn);
        }
    }

    fn undo(&mut self, lsn: Lsn, txn: TxnId, at: u64, entry: UndoEntry<'_>) -> Result {
        let recent = txn.0 as usize % RECENT;
        if let Some(stream) = self.recent[recent].as_ref().filter(|stream| stream.owner() == txn) {
            return stream.replay(at, entry).map_err(|damage| self.damaged(lsn, txn, damage.0));
        }
        if txn == TxnId::NONE || self.ended.contains(&txn) {
            return Ok(());
        }
        self.note_id(txn);
        let stream: Arc<Stream> = match self.streams.get(txn) {
            Some(stream) => stream,
            None => self.streams.begin(txn),
        };
        if at > stream.end() && lsn < self.list_at && !self.stages.contains_key(&txn) {
            self.streams.remove(txn);
            self.ended.insert(txn);
            return Ok(());
        }
        self.stages.entry(txn).or_insert(Stage::Active);
        stream.replay(at, entry).map_err(|damage| self.damaged(lsn, txn, damage.0))?;
        self.recent[recent] = Some(stream);
        Ok(())
    }

    /// Returns the transactions at the log's end. REQUIRES: [`Rebuild::within`] has said where the
    /// undo files are.
    pub(crate) fn finish(self, history_batches: Vec<HistoryBatchRange>) -> Recovered {
        let UndoMemory { journal, spilled, moved, .. } =
            self.undo_memory.expect("it was told where the undo files are");
        let mut recovered = Recovered {
            next_txn: self.next_txn,
            next_tree: self.next_tree,
            counters: self.counters,
            bookmark: self.bookmark,
            streams: self.streams,
            committed: Vec::new(),
            history_batches: history_batches.into_iter().chain(moved).collect(),
            aborted: Vec::new(),
            prepared: Vec::new(),
            journal,
            spilled,
        };
        for (txn, stage) in self.stages {
            let has_undo = recovered.streams.get(txn).is_some();
            match stage {
                Stage::Committed(lsn) if has_undo => recovered.committed.push((lsn, txn)),
                Stage::Active | Stage::Aborted if has_undo => recovered.aborted.push(txn),
                Stage::Prepared(xid) => recovered.prepared.push((txn, xid)),
                Stage::Committed(_) | Stage::Active | Stage::Aborted => {}
            }
        }
        recovered
    }
}
