//! Which transactions had committed, and the version of a row that they left: from the
//! checkpoint's list, the undo files and the log, as far as each can be read.

use crate::checkpoint::list::{List, Stage};
use crate::error::{Error, Poison, Result};
use crate::inspect::db_dir::DbDir;
use crate::log::group::{Record, ids};
use crate::page::node::{DELETED, FRESH, Row, Version};
use crate::page::op::PageOp;
use crate::undo::journal::{Journal, JournalOptions};
use crate::undo::{HeldPiece, PieceCache, Streams, UndoAccess, UndoEntry};
use base::{Lsn, TreeId, TxnId};
use metrics::Metrics;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How a version that is not to be seen is taken back.
#[derive(Clone, Debug)]
enum Undone {
    /// There was no row.
    Absent,
    /// The row had the value `new[..front] + middle + new[len - back..]`.
    Older { version: Version, flags: u8, front: u16, back: u16, middle: Vec<u8> },
}

impl Undone {
    fn of(entry: &UndoEntry<'_>) -> Option<Undone> {
        match *entry {
            UndoEntry::Insert { .. } => Some(Undone::Absent),
            UndoEntry::Replace { before, old_flags, front, back, old_middle, .. } => Some(Undone::Older {
                version: before,
                flags: old_flags,
                front,
                back,
                middle: old_middle.to_vec(),
            }),
            UndoEntry::Chain { .. } | UndoEntry::Rewind { .. } => None,
        }
    }
}

/// The newest committed version of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Committed {
    pub(super) flags: u8,
    pub(super) value: Vec<u8>,
    /// Whether its transaction had committed is not known.
    pub(super) is_uncertain: bool,
}

/// The transactions of the last run, and the counters of its tables.
#[derive(Default)]
pub(super) struct Transactions {
    /// Those that have not committed. All others have.
    stages: BTreeMap<TxnId, Stage>,
    /// Those that were open where a hole of the log begins, and of which nothing is heard later.
    uncertain: BTreeSet<TxnId>,
    /// Those that the checkpoint's list names, and the position up to which it says all.
    listed: BTreeSet<TxnId>,
    listed_to: Option<Lsn>,
    /// The undo that the log has, by transaction and address.
    undo: BTreeMap<TxnId, BTreeMap<u64, Undone>>,
    pub(super) counters: BTreeMap<TreeId, u64>,
    /// The undo that the files have.
    streams: Streams,
    cache: PieceCache,
}

impl Transactions {
    /// Begins with the checkpoint's list, which says all about the log below `to`.
    pub(super) fn begin(&mut self, list: &List, to: Lsn) {
        for listed in list.txns.iter().filter(|listed| !matches!(listed.stage, Stage::Committed(_))) {
            self.listed.insert(listed.txn);
            self.stages.insert(listed.txn, listed.stage.clone());
        }
        self.listed_to = Some(to);
        self.counters.extend(list.counters.iter().copied());
    }

    /// Opens the undo files that the list names.
    pub(super) fn open_undo(&mut self, db: &DbDir, db_id: u64, list: &List) -> Result {
        let hardened = list.txns.iter().map(|listed| (listed.txn, listed.hardened)).collect();
        let (metrics, poison) = (Arc::new(Metrics::new()), Arc::new(Poison::default()));
        let options = JournalOptions {
            vfs: &db.vfs,
            dir: &db.paths.undo,
            db_id,
            listed: &list.files,
            hardened: &hardened,
            // Only its place is kept.
            memory: 0,
            metrics: &metrics,
            poison: &poison,
        };
        Journal::open(&options, &self.streams).map(drop)
    }

    /// Processes a record of the group at `lsn`. Groups come in order.
    pub(super) fn record(&mut self, lsn: Lsn, record: &Record<'_>) {
        self.end_unlisted(lsn);
        match *record {
            Record::Page { op, .. } => match PageOp::decode(op) {
                Ok(PageOp::Row(row)) => {
                    let Version { txn, undo_at } = row.version;
                    self.works(txn);
                    let undone = Undone::of(&UndoEntry::of(&row));
                    let undo = self.undo.entry(txn).or_default();
                    undone.map(|undone| undo.insert(undo_at, undone));
                }
                Ok(PageOp::InitOverflow { owner, .. }) => self.works(owner.txn),
                Ok(_) | Err(_) => {}
            },
            Record::Undo { txn, .. } => self.works(txn),
            Record::Commit { txn } => self.has_committed(txn),
            Record::Prepare { txn, xid } => self.set(txn, Stage::Prepared(xid.to_vec())),
            // A page that lacks its last changes may show versions that were reverted since.
            Record::Abort { txn } | Record::Reverted { txn } => self.set(txn, Stage::Aborted),
            Record::Purged { txns } => ids(txns).flatten().for_each(|txn| self.has_committed(txn)),
            Record::Counter { tree, next } => {
                let counter = self.counters.entry(tree).or_default();
                *counter = (*counter).max(next);
            }
            // The new database is another one: what a program has noted in this one says nothing of
            // it.
            Record::Checkpoint { .. }
            | Record::DirtyPages { .. }
            | Record::Filler { .. }
            | Record::Bookmark { .. } => {}
        }
    }

    /// A part of the log is missing: any open transaction may have ended in it. A prepared one is
    /// its coordinator's to decide.
    pub(super) fn hole(&mut self) {
        let open = self.stages.iter().filter(|(_, stage)| matches!(stage, Stage::Active));
        self.uncertain.extend(open.map(|(txn, _)| *txn));
    }

    /// Where the list begins to lack transactions, those that it does not name have ended.
    fn end_unlisted(&mut self, lsn: Lsn) {
        if self.listed_to.is_none_or(|to| lsn < to) {
            return;
        }
        self.listed_to = None;
        let uncertain = std::mem::take(&mut self.uncertain);
        for txn in uncertain.difference(&self.listed) {
            self.stages.remove(txn);
            self.undo.remove(txn);
        }
    }

    fn works(&mut self, txn: TxnId) {
        // The chains of a bulk load have no owner.
        if txn == TxnId::NONE {
            return;
        }
        self.uncertain.remove(&txn);
        self.stages.entry(txn).or_insert(Stage::Active);
    }

    fn set(&mut self, txn: TxnId, stage: Stage) {
        self.uncertain.remove(&txn);
        self.stages.insert(txn, stage);
    }

    fn has_committed(&mut self, txn: TxnId) {
        self.uncertain.remove(&txn);
        self.stages.remove(&txn);
        self.undo.remove(&txn);
    }

    /// Returns the ids of the prepared transactions, at the end of the log.
    pub(super) fn prepared(&self) -> Vec<Vec<u8>> {
        let prepared = |stage: &Stage| match stage {
            Stage::Prepared(xid) => Some(xid.clone()),
            Stage::Active | Stage::Aborted | Stage::Committed(_) => None,
        };
        self.stages.values().filter_map(prepared).collect()
    }

    /// Returns the newest committed version of a row that a page shows; none if the row was
    /// deleted, or not yet inserted. `Err`: why it cannot be told.
    pub(super) fn committed(
        &self,
        tree: TreeId,
        key: &[u8],
        row: Row<'_>,
    ) -> Result<Option<Committed>, String> {
        let (mut version, mut flags, mut value) = (row.version, row.flags, row.value.to_vec());
        while self.stages.contains_key(&version.txn) && !self.uncertain.contains(&version.txn) {
            if flags & FRESH != 0 {
                return Ok(None);
            }
            match self.undone(tree, key, version)? {
                Undone::Absent => return Ok(None),
                Undone::Older { version: older, flags: old_flags, front, back, middle } => {
                    let (front, back) = (usize::from(front), usize::from(back));
                    let Some(tail) = value.len().checked_sub(back).filter(|tail| *tail >= front) else {
                        return Err("its undo does not fit it".to_owned());
                    };
                    value = [&value[..front], &middle, &value[tail..]].concat();
                    (version, flags) = (older, old_flags);
                }
            }
        }
        let is_uncertain = self.uncertain.contains(&version.txn);
        Ok((flags & DELETED == 0).then_some(Committed { flags, value, is_uncertain }))
    }

    /// Returns the undo of a version.
    fn undone(&self, tree: TreeId, key: &[u8], version: Version) -> Result<Undone, String> {
        let Version { txn, undo_at } = version;
        if let Some(undone) = self.undo.get(&txn).and_then(|undo| undo.get(&undo_at)) {
            return Ok(undone.clone());
        }
        let gone = || {
            format!(
                "its newest version is of {txn:?}, which had not committed, and the version before cannot be read"
            )
        };
        let stream = self.streams.get(txn).ok_or_else(gone)?;
        let mut held = HeldPiece::default();
        loop {
            let read = stream.read(undo_at, &held, |record| match record.entry {
                UndoEntry::Insert { tree: of, key: its } | UndoEntry::Replace { tree: of, key: its, .. }
                    if of == tree && its == key =>
                {
                    Undone::of(&record.entry)
                }
                _ => None,
            });
            match read {
                Ok(UndoAccess::Here(undone)) => return undone.ok_or_else(gone),
                Ok(UndoAccess::Away(piece)) => {
                    let fetched = self.cache.fetch(&piece, &mut held);
                    fetched.map_err(|error: Error| format!("{}: {error}", gone()))?;
                }
                Err(damage) => return Err(format!("{}: {damage}", gone())),
            }
        }
    }
}
