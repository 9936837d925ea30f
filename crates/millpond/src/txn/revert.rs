//! Reverting (undo of rows): restores older versions of the rows of aborted transactions, and of an
//! active one that rolls back to a savepoint.
//!
//! A row is reverted by what its page shows, not by what an undo record says: undone versions are
//! removed one after the other until the newest version is one that stays. So it changes nothing
//! more if it is done twice, or from two sides, or again after a crash. No version is ever put on
//! top of an aborted one (Un6).

use super::admission::{UndoAdmission, UndoWait};
use super::lock_wait::denied;
use super::quarantine::SkippedRecords;
use super::trees::Trees;
use super::versions::Versions;
use crate::btree::{FREED_TOGETHER, Tree, chain_to_free, free_last, row_bytes};
use crate::error::{Error, Result};
use crate::lock::{LockTable, Owner};
use crate::mtr::Mtr;
use crate::mvcc::{TxnState, WalkPosition};
use crate::page::node::{FRESH, Leaf, Row, Version};
use crate::page::op::{PageOp, common_ends};
use crate::tree_store::Store;
use crate::undo::{HeldPiece, Stream, UndoAccess, UndoEntry, UndoPiece, UndoPosition};
use base::{PageNo, TreeId};
use metrics::M;
use std::sync::Arc;

/// About what a record of a rollback or purge logs beside the bytes of its row.
pub(super) const RECORD_REDO: u64 = 160;

/// How a transaction's undo is reverted.
pub(super) struct RevertOptions<'a> {
    /// It is reverted back to this point.
    pub(super) position: UndoPosition,
    /// The stream's owner, if it goes on and keeps the locks.
    pub(super) keeps_locks: Option<&'a Arc<Owner>>,
    pub(super) wait: UndoWait,
    /// What cannot be read is skipped, so that the rest is reverted.
    pub(super) skip_unreadable: bool,
}

/// What a record tells a rollback to do.
enum UndoTask {
    Row(TreeId, Vec<u8>),
    Chain(TreeId, PageNo),
    Nothing,
}

/// The version that a row is restored to.
struct OlderVersion {
    /// The newest version of the row when the search began; the row must still have it.
    newest: Version,
    /// The version that stays, and its flags; none if there was no row.
    stays: Option<(Version, u8)>,
    value: Vec<u8>,
    /// How many versions are removed.
    steps: u64,
}

/// A search for the version that stays, which has come to undo that is not in memory.
struct VersionSearch {
    older: OlderVersion,
    at: WalkPosition,
    piece: UndoPiece,
}

/// Reverts rows, with what it needs of a database.
#[derive(Clone, Copy)]
pub(super) struct Reverter<'a> {
    pub(super) store: &'a Store,
    pub(super) versions: &'a Versions,
    pub(super) locks: &'a LockTable,
    pub(super) trees: &'a Trees,
    pub(super) admission: &'a dyn UndoAdmission,
}

impl Reverter<'_> {
    /// Returns whether a version was made by an aborted transaction.
    fn is_aborted(&self, version: Version) -> bool {
        self.versions.status.state(version.txn) == TxnState::Aborted
    }

    /// Removes the aborted versions from a row. REQUIRES: no latch held.
    pub(super) fn revert_aborted_row(&self, tree: TreeId, key: &[u8], held: &mut HeldPiece) -> Result {
        // A transaction that locks the rows of a range may find any number of them.
        let redo = RECORD_REDO + (key.len() + crate::page::inline_limit(self.store.pool.page_bytes())) as u64;
        self.admission.admit_undo(redo, UndoWait::AsCaller)?;
        self.revert_row(tree, key, &|version| self.is_aborted(version), None, held)
    }

    /// Searches the version of a row that stays, as [`Reverter::search_on`]. REQUIRES: the row's
    /// leaf is latched.
    fn search(
        &self,
        tree: Tree,
        row: Row<'_>,
        is_undone: &dyn Fn(Version) -> bool,
        held: &HeldPiece,
    ) -> Result<Result<OlderVersion, VersionSearch>> {
        let mut older = OlderVersion { newest: row.version, stays: None, value: Vec::new(), steps: 0 };
        if row.flags & FRESH != 0 {
            older.steps = 1;
            return Ok(Ok(older));
        }
        older.value.extend_from_slice(row.value);
        self.search_on(tree, older, WalkPosition::begin(self.versions.undo(), row.version), is_undone, held)
    }

    /// Goes back from `at`, an undone version, to the first that stays, with undo in memory or in
    /// `held`.
    fn search_on(
        &self,
        tree: Tree,
        mut older: OlderVersion,
        mut at: WalkPosition,
        is_undone: &dyn Fn(Version) -> bool,
        held: &HeldPiece,
    ) -> Result<Result<OlderVersion, VersionSearch>> {
        loop {
            let back = at.back(self.versions.undo(), held, &mut older.value);
            match back.map_err(|damage| self.versions.damage(tree, damage))? {
                UndoAccess::Away(piece) => return Ok(Err(VersionSearch { older, at, piece })),
                UndoAccess::Here(flags) => {
                    older.steps += 1;
                    let flags = match flags {
                        Some(flags) if flags & FRESH != 0 && is_undone(at.version()) => {
                            older.steps += 1;
                            None
                        }
                        flags => flags,
                    };
                    if flags.is_none() || !is_undone(at.version()) {
                        older.stays = flags.map(|flags| (at.version(), flags));
                        return Ok(Ok(older));
                    }
                }
            }
        }
    }

    /// Removes versions from a row as long as the newest one is undone. The transaction
    /// `keeps_locks` gets a lock in place of its versions.
    fn revert_row(
        &self,
        tree: TreeId,
        key: &[u8],
        is_undone: &dyn Fn(Version) -> bool,
        keeps_locks: Option<&Arc<Owner>>,
        held: &mut HeldPiece,
    ) -> Result {
        let Some(tree) = self.trees.get(tree) else { return Ok(()) };
        let (mut room, mut known) = (0, None::<OlderVersion>);
        loop {
            self.store.log.make_room()?;
            let page = tree.leaf_write(self.store, key, room)?;
            let leaf = Leaf::new(&page);
            let Ok(slot) = leaf.search(key) else { return Ok(()) };
            let row = leaf.row(slot);
            if !is_undone(row.version) {
                return Ok(());
            }
            let older = match known.take().filter(|older| older.newest == row.version) {
                Some(older) => older,
                None => match self.search(*tree, row, is_undone, held)? {
                    Ok(older) => older,
                    Err(mut search) => {
                        // The thread does not wait under the latch. A row with the same newest
                        // version is the same row.
                        drop(page);
                        known = loop {
                            self.versions.fetch(&search.piece, held)?;
                            match self.search_on(*tree, search.older, search.at, is_undone, held)? {
                                Ok(older) => break Some(older),
                                Err(more) => search = more,
                            }
                        };
                        continue;
                    }
                },
            };
            let op = match older.stays {
                None => PageOp::Remove { slot },
                Some((version, flags)) => {
                    let needed = row_bytes(key.len(), older.value.len());
                    if room < needed && older.value.len() > row.value.len() {
                        // The older value is longer: try again with room for it.
                        room = needed;
                        known = Some(older);
                        continue;
                    }
                    let (front, back) = common_ends(row.value, &older.value);
                    let middle = &older.value[usize::from(front)..older.value.len() - usize::from(back)];
                    PageOp::Restore { slot, version, flags, front, back, middle }
                }
            };
            let Some(mut mtr) = Mtr::try_begin(&self.store.log, &self.store.pool) else {
                drop(page);
                self.store.log.await_credit()?;
                continue;
            };
            if let Some(keeps_locks) = keeps_locks {
                self.locks.keep_written(keeps_locks, tree.id, key).map_err(denied)?;
            }
            let held = mtr.add(page);
            mtr.apply(held, &op);
            mtr.commit();
            self.store.metrics.add(M::RowReverts, older.steps);
            return Ok(());
        }
    }

    /// Undoes the records of a stream from `next` on, newest first: every version for which
    /// `is_undone` holds. Leaves in `next` how far it came. Returns false if the log had no room to
    /// go on. REQUIRES: no latch held; one caller at a time for a stream.
    pub(super) fn revert_stream(
        &self,
        stream: &Arc<Stream>,
        next: &mut Option<u64>,
        options: &RevertOptions<'_>,
        is_undone: impl Fn(Version) -> bool,
    ) -> Result<bool> {
        let owner = stream.owner();
        let is_undone = |version: Version| version.txn == owner && is_undone(version);
        let (mut skipped, mut first) = (SkippedRecords::default(), None);
        let mut skip = |error: Error, at: u64| {
            first.get_or_insert(at);
            skipped.skip(error)
        };
        let done = self.revert_on(stream, next, options, &is_undone, &mut skip);
        if first.is_some() {
            // The next try begins with the first record that was skipped.
            *next = first;
        }
        let whole = done?;
        skipped.finish()?;
        Ok(whole)
    }

    fn revert_on(
        &self,
        stream: &Arc<Stream>,
        next: &mut Option<u64>,
        options: &RevertOptions<'_>,
        is_undone: &dyn Fn(Version) -> bool,
        skip: &mut dyn FnMut(Error, u64) -> Result,
    ) -> Result<bool> {
        let (owner, mut held, mut skipped_row) = (stream.owner(), HeldPiece::default(), false);
        while let Some(at) = next.filter(|&at| at >= options.position.end) {
            let read = stream.read(at, &held, |record| {
                let (task, bytes) = match record.entry {
                    UndoEntry::Insert { tree, key } => (UndoTask::Row(tree, key.to_vec()), key.len()),
                    UndoEntry::Replace { tree, key, old_middle, .. } => {
                        (UndoTask::Row(tree, key.to_vec()), key.len() + old_middle.len())
                    }
                    UndoEntry::Chain { tree, head } => (UndoTask::Chain(tree, head), 0),
                    UndoEntry::Rewind { .. } => (UndoTask::Nothing, 0),
                };
                (task, bytes as u64, record.prev)
            });
            let (task, bytes, prev) = match read.map_err(|damage| self.versions.undo_damage(damage))? {
                UndoAccess::Here(read) => read,
                UndoAccess::Away(piece) => {
                    self.versions.fetch(&piece, &mut held)?;
                    continue;
                }
            };
            let done = match task {
                UndoTask::Row(tree, key) => {
                    if !self.admission.admit_undo(RECORD_REDO + bytes, options.wait)? {
                        return Ok(false);
                    }
                    self.revert_row(tree, &key, is_undone, options.keeps_locks, &mut held)
                }
                // A row that was skipped may still name the chain.
                UndoTask::Chain(..) if skipped_row => Ok(()),
                UndoTask::Chain(tree, head) => {
                    let version = Version { txn: owner, undo_at: at };
                    match self.free_chain_of(tree, head, version, options.wait) {
                        Ok(false) => return Ok(false),
                        done => done.map(drop),
                    }
                }
                UndoTask::Nothing => Ok(()),
            };
            match done {
                Err(error) if options.skip_unreadable => {
                    skip(error, at)?;
                    skipped_row = true;
                }
                done => done?,
            }
            *next = prev;
        }
        Ok(true)
    }

    /// Frees a chain that no version needs any more. If the tree was dropped, its pages went with
    /// the tree. Returns false if the log had no room to go on.
    pub(super) fn free_chain_of(
        &self,
        tree: TreeId,
        head: PageNo,
        owner: Version,
        wait: UndoWait,
    ) -> Result<bool> {
        let Some(live) = self.trees.get(tree) else { return Ok(true) };
        let mut pages = chain_to_free(self.store, head, owner)?;
        drop(live);
        while !pages.is_empty() {
            if !self.admission.admit_undo(RECORD_REDO * FREED_TOGETHER as u64, wait)? {
                return Ok(false);
            }
            // While the tree exists, no other thread frees these pages.
            let Some(_live) = self.trees.get(tree) else { return Ok(true) };
            free_last(self.store, &mut pages, FREED_TOGETHER)?;
        }
        Ok(true)
    }
}
