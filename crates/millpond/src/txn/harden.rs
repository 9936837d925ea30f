//! Hardening for a checkpoint: copies to the undo files the undo of unfinished transactions that
//! redo below the checkpoint could have rebuilt, then lists these transactions in the log (INV-16).

use super::bookmark::Bookmark;
use super::log_record::log_record;
use super::prepared::PreparedList;
use super::quarantine::Quarantine;
use super::table_trees::TableTrees;
use super::undo_space::UndoSpace;
use super::versions::Versions;
use crate::checkpoint::Hardened;
use crate::checkpoint::list::{List, Listed, Stage};
use crate::error::Result;
use crate::log::group::Record;
use crate::mvcc::TxnState;
use crate::planted::{Bug, planted};
use crate::tree_store::Store;
use crate::undo::journal::Journal;
use crate::undo::{ChunkCopy, Stream, spill};
use base::{Lsn, TxnId};
use metrics::M;
use pace::constants::UNDO_WRITE_BYTES;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Hardens undo and lists transactions, with what that needs of a database.
pub(super) struct Hardener<'a> {
    pub(super) store: &'a Store,
    pub(super) versions: &'a Versions,
    pub(super) undo_space: &'a UndoSpace,
    pub(super) prepared: &'a PreparedList,
    pub(super) quarantine: &'a Quarantine,
    pub(super) trees: &'a TableTrees,
    pub(super) bookmark: &'a Bookmark,
}

impl Hardener<'_> {
    /// Returns the stage at which a checkpoint lists a transaction with undo. None: what it left
    /// behind needs no undo after a crash.
    fn stage_of(&self, txn: TxnId, xids: &BTreeMap<TxnId, Vec<u8>>, needs_purge: bool) -> Option<Stage> {
        match self.versions.status.state(txn) {
            // The commit record of a transaction that is committing lies above the checkpoint,
            // where recovery finds it.
            TxnState::Active | TxnState::Committing => Some(Stage::Active),
            TxnState::Prepared => Some(match xids.get(&txn) {
                Some(xid) => Stage::Prepared(xid.clone()),
                // It is just being decided or prepared; the record of that lies above the
                // checkpoint.
                None => Stage::Active,
            }),
            TxnState::Aborted => Some(Stage::Aborted),
            TxnState::Committed(lsn) => needs_purge.then_some(Stage::Committed(lsn)),
            TxnState::Settled => None,
        }
    }

    /// Writes all undo of the streams that is not in the files yet.
    fn to_files<'s>(&self, journal: &mut Journal, streams: impl Iterator<Item = &'s Arc<Stream>>) -> Result {
        let (mut chunks, mut gathered) = (Vec::new(), 0);
        for stream in streams.filter(|_| !planted(Bug::NoHardening)) {
            loop {
                let more = stream.unplaced(true, UNDO_WRITE_BYTES);
                let bytes: usize = more.iter().map(|chunk| chunk.bytes.len()).sum();
                let whole = bytes < UNDO_WRITE_BYTES;
                gathered += bytes;
                chunks.push((stream, more));
                if gathered >= UNDO_WRITE_BYTES {
                    self.append(journal, std::mem::take(&mut chunks))?;
                    gathered = 0;
                }
                if whole {
                    break;
                }
            }
        }
        self.append(journal, chunks)
    }

    /// Writes chunks in one batch.
    fn append(&self, journal: &mut Journal, chunks: Vec<(&Arc<Stream>, Vec<ChunkCopy>)>) -> Result {
        let written = spill::append(journal, chunks)?;
        self.store.metrics.add(M::UndoHardenedBytes, written);
        Ok(())
    }

    /// Hardens and lists what a checkpoint with this sequence number needs.
    pub(super) fn harden(&self, sequence: u64) -> Result<Hardened> {
        let listed = |claimed| !(claimed && planted(Bug::HeldUnlisted));
        let xids = self.prepared.by_txn(listed);
        // The ids are read first: a transaction that begins from here on has all its redo above the
        // checkpoint.
        let mut list = List {
            next_txn: self.versions.status.next(),
            next_tree: self.trees.next_id(),
            ..List::default()
        };
        let mut journal = self.undo_space.journal.lock();
        journal.retire()?;
        let mut streams = Vec::new();
        for stream in self.versions.streams.list() {
            if !stream.is_empty()
                && let Some(stage) = self.stage_of(stream.owner(), &xids, stream.needs_purge())
            {
                streams.push((stream, stage));
            }
        }
        let idle = xids.iter().filter(|(txn, _)| {
            self.versions.status.state(**txn) == TxnState::Prepared
                && self.versions.streams.get(**txn).is_none_or(|s| s.is_empty())
        });
        for (txn, xid) in idle {
            let stage = Stage::Prepared(xid.clone());
            list.txns.push(Listed { txn: *txn, stage, hardened: 0 });
        }
        let mut files = Vec::new();
        journal.may_spend_ballast(true);
        let written = self.to_files(&mut journal, streams.iter().map(|(stream, _)| stream));
        journal.may_spend_ballast(false);
        written?;
        for (stream, stage) in &streams {
            stream.files(&mut files);
            let (txn, stage) = (stream.owner(), stage.clone());
            list.txns.push(Listed { txn, stage, hardened: stream.in_files() });
        }
        list.files = journal.sync(&files.into_iter().collect())?;
        list.history_batches = self.versions.history_batches.list();
        self.quarantine.list(&mut list.history_batches);
        journal.sync(&list.history_batches.iter().map(|range| range.file).collect())?;
        // Until here the streams have kept their files, even if they were purged meanwhile.
        drop(streams);
        if planted(Bug::UnlistedLosers) {
            list.txns.clear();
        }
        drop(journal);
        // A counter's record below the checkpoint was logged before the checkpoint was chosen.
        list.counters = self.trees.list_counters();
        // So was a bookmark's.
        if !planted(Bug::BookmarkUnlisted) {
            list.bookmark = self.bookmark.get();
        }
        let parts = list.encode(sequence);
        let mut hardened = Hardened { first: Lsn::MAX, last: Lsn::ZERO };
        for part in parts {
            self.store.log.make_room()?;
            let lsn = log_record(&self.store.log, &Record::Checkpoint { body: &part }, |_| {});
            base::check!(
                hardened.last <= lsn,
                "a list's part is logged at {lsn}, before one at {}",
                hardened.last
            );
            hardened.first = hardened.first.min(lsn);
            hardened.last = lsn;
        }
        base::check!(hardened.first <= hardened.last, "the list of checkpoint {sequence} has no part");
        Ok(hardened)
    }
}
