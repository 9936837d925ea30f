//! Putting older versions back: the rows of aborted transactions, and of an active one that rolls back to a savepoint.
//!
//! A row is reverted by looking at it, not by believing a record: versions that are to go are taken off one after the
//! other until one stands that stays. So doing it twice, or from two sides, or again after a crash, changes nothing more,
//! and nobody ever puts a version on top of an aborted one (Un6).

use super::admission::UndoWait;
use super::quarantine::{QuarantineTask, SkippedRecords, is_local};
use super::system::{Txns, denied};
use crate::btree::{FREED_TOGETHER, Tree, chain_to_free, free_last, row_bytes};
use crate::error::{Error, Result};
use crate::lock::Owner;
use crate::mtr::Mtr;
use crate::mvcc::{TxnState, WalkPosition};
use crate::page::node::{FRESH, Leaf, Row, Version};
use crate::page::op::{PageOp, common_ends};
use crate::planted::{Bug, planted};
use crate::undo::{Access, Entry, Held, Mark, Piece, Stream};
use base::sync::atomic::Ordering;
use base::{PageNo, TreeId};
use metrics::M;
use std::sync::Arc;

/// What a record of a rollback or purge logs beside the bytes of its row, about.
pub(super) const RECORD_REDO: u64 = 160;

/// An aborted transaction, and how far it is reverted.
#[derive(Clone, Debug)]
pub(super) struct Reverting {
    pub(super) stream: Arc<Stream>,
    /// The newest record that is still to be looked at.
    pub(super) next: Option<u64>,
}

impl Reverting {
    pub(super) fn new(stream: &Arc<Stream>) -> Reverting {
        Reverting { stream: Arc::clone(stream), next: stream.mark().last }
    }
}

/// Who has a transaction's undo reverted, and how.
pub(super) struct RevertOptions<'a> {
    /// Back to here.
    pub(super) mark: Mark,
    /// The stream's owner, if it goes on and keeps the locks.
    pub(super) keeper: Option<&'a Arc<Owner>>,
    pub(super) wait: UndoWait,
    /// What cannot be read is passed over, so that the rest goes on.
    pub(super) passing: bool,
}

/// What a record asks a rollback to do.
enum UndoTask {
    Row(TreeId, Vec<u8>),
    Chain(TreeId, PageNo),
    Nothing,
}

/// What a row is to become.
struct OlderVersion {
    /// The version that it must still have.
    instead_of: Version,
    /// The version that stays, and its flags; `None` if there was no row.
    stays: Option<(Version, u8)>,
    value: Vec<u8>,
    /// Versions that are taken off.
    steps: u64,
}

/// A search for what a row is to become that has come to undo which is not in memory.
struct VersionSearch {
    older: OlderVersion,
    at: WalkPosition,
    piece: Piece,
}

impl Txns {
    /// Whether a version was made by an aborted transaction.
    fn is_aborted(&self, version: Version) -> bool {
        self.status.state(version.txn) == TxnState::Aborted
    }

    /// Takes the aborted versions off a row. REQUIRES: no latch held.
    pub(super) fn revert_aborted_row(&self, tree: TreeId, key: &[u8], held: &mut Held) -> Result {
        // Whoever locks rows on his way through a range may come by any number of them.
        let redo = RECORD_REDO + (key.len() + crate::page::inline_limit(self.store.pool.page_bytes())) as u64;
        self.undo_admission.admit_undo(redo, UndoWait::AsCaller)?;
        self.revert_row(tree, key, &|version| self.is_aborted(version), None, held)
    }

    /// Looks for the version of a row that stays, as [`Txns::search_on`]. REQUIRES: the row's leaf is latched.
    fn search(
        &self,
        tree: Tree,
        row: Row<'_>,
        goes: &dyn Fn(Version) -> bool,
        held: &Held,
    ) -> Result<Result<OlderVersion, VersionSearch>> {
        let mut older = OlderVersion { instead_of: row.version, stays: None, value: Vec::new(), steps: 0 };
        if row.flags & FRESH != 0 {
            older.steps = 1;
            return Ok(Ok(older));
        }
        older.value.extend_from_slice(row.value);
        self.search_on(tree, older, WalkPosition::begin(self.undo(), row.version), goes, held)
    }

    /// Goes back from `at`, a version that goes, to the first that stays, as far as undo is in memory or `held`.
    fn search_on(
        &self,
        tree: Tree,
        mut older: OlderVersion,
        mut at: WalkPosition,
        goes: &dyn Fn(Version) -> bool,
        held: &Held,
    ) -> Result<Result<OlderVersion, VersionSearch>> {
        loop {
            let back = at.back(self.undo(), held, &mut older.value);
            match back.map_err(|damage| self.damage(tree, damage))? {
                Access::Away(piece) => return Ok(Err(VersionSearch { older, at, piece })),
                Access::Here(flags) => {
                    older.steps += 1;
                    let flags = match flags {
                        Some(flags) if flags & FRESH != 0 && goes(at.version()) => {
                            older.steps += 1;
                            None
                        }
                        flags => flags,
                    };
                    if flags.is_none() || !goes(at.version()) {
                        older.stays = flags.map(|flags| (at.version(), flags));
                        return Ok(Ok(older));
                    }
                }
            }
        }
    }

    /// Takes versions off a row for as long as `goes` says so of the newest one. `keeper` keeps the lock that its versions
    /// are.
    fn revert_row(
        &self,
        tree: TreeId,
        key: &[u8],
        goes: &dyn Fn(Version) -> bool,
        keeper: Option<&Arc<Owner>>,
        held: &mut Held,
    ) -> Result {
        let Some(tree) = self.trees.get(tree) else { return Ok(()) };
        let (mut room, mut known) = (0, None::<OlderVersion>);
        loop {
            self.store.log.make_room()?;
            let page = tree.leaf_write(&self.store, key, room)?;
            let leaf = Leaf::new(&page);
            let Ok(slot) = leaf.search(key) else { return Ok(()) };
            let row = leaf.row(slot);
            if !goes(row.version) {
                return Ok(());
            }
            let older = match known.take().filter(|older| older.instead_of == row.version) {
                Some(older) => older,
                None => match self.search(*tree, row, goes, held)? {
                    Ok(older) => older,
                    Err(mut search) => {
                        // Nothing is waited for under the latch. A row with the same newest version is the same row.
                        drop(page);
                        known = loop {
                            self.fetched.fetch(&search.piece, held)?;
                            match self.search_on(*tree, search.older, search.at, goes, held)? {
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
                        // The older value is longer: come again with room for it.
                        room = needed;
                        known = Some(older);
                        continue;
                    }
                    let (front, back) = common_ends(row.value, &older.value);
                    let middle = &older.value[usize::from(front)..older.value.len() - usize::from(back)];
                    PageOp::Restore { slot, version, flags, front, back, middle }
                }
            };
            if let Some(keeper) = keeper {
                self.locks.keep_written(keeper, tree.id, key).map_err(denied)?;
            }
            let mut mtr = Mtr::begin(&self.store.log, &self.store.pool);
            let held = mtr.add(page);
            mtr.apply(held, &op);
            mtr.commit();
            self.store.metrics.add(M::RowReverts, older.steps);
            return Ok(());
        }
    }

    /// Undoes the records of a stream from `next` on, newest first: every version for which `goes` holds. `next` tells how far it came;
    /// false if it found no room to go on. REQUIRES: no latch held; one caller at a time for a stream.
    pub(super) fn revert_stream(
        &self,
        stream: &Arc<Stream>,
        next: &mut Option<u64>,
        options: &RevertOptions<'_>,
        goes: impl Fn(Version) -> bool,
    ) -> Result<bool> {
        let owner = stream.owner();
        let goes = |version: Version| version.txn == owner && goes(version);
        let (mut passed, mut first) = (SkippedRecords::default(), None);
        let mut pass = |error: Error, at: u64| {
            first.get_or_insert(at);
            passed.over(error)
        };
        let done = self.revert_on(stream, next, options, &goes, &mut pass);
        if first.is_some() {
            // Whoever comes again begins with what was passed over.
            *next = first;
        }
        let whole = done?;
        passed.end()?;
        Ok(whole)
    }

    fn revert_on(
        &self,
        stream: &Arc<Stream>,
        next: &mut Option<u64>,
        options: &RevertOptions<'_>,
        goes: &dyn Fn(Version) -> bool,
        pass: &mut dyn FnMut(Error, u64) -> Result,
    ) -> Result<bool> {
        let (owner, mut held, mut passed) = (stream.owner(), Held::default(), false);
        while let Some(at) = next.filter(|&at| at >= options.mark.end) {
            let read = stream.read(at, &held, |record| {
                let (task, bytes) = match record.entry {
                    Entry::Insert { tree, key } => (UndoTask::Row(tree, key.to_vec()), key.len()),
                    Entry::Replace { tree, key, old_middle, .. } => {
                        (UndoTask::Row(tree, key.to_vec()), key.len() + old_middle.len())
                    }
                    Entry::Chain { tree, head } => (UndoTask::Chain(tree, head), 0),
                    Entry::Rewind { .. } => (UndoTask::Nothing, 0),
                };
                (task, bytes as u64, record.prev)
            });
            let (task, bytes, prev) = match read.map_err(|damage| self.undo_damage(damage))? {
                Access::Here(read) => read,
                Access::Away(piece) => {
                    self.fetched.fetch(&piece, &mut held)?;
                    continue;
                }
            };
            let done = match task {
                UndoTask::Row(tree, key) => {
                    if !self.undo_admission.admit_undo(RECORD_REDO + bytes, options.wait)? {
                        return Ok(false);
                    }
                    self.revert_row(tree, &key, goes, options.keeper, &mut held)
                }
                // A row that was passed over may still lead there.
                UndoTask::Chain(..) if passed => Ok(()),
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
                Err(error) if options.passing => {
                    pass(error, at)?;
                    passed = true;
                }
                done => done?,
            }
            *next = prev;
        }
        Ok(true)
    }

    /// Frees a chain that no version needs any more; its pages went with the tree if that was dropped. False if it found no
    /// room to go on.
    pub(super) fn free_chain_of(
        &self,
        tree: TreeId,
        head: PageNo,
        owner: Version,
        wait: UndoWait,
    ) -> Result<bool> {
        let Some(live) = self.trees.get(tree) else { return Ok(true) };
        let mut pages = chain_to_free(&self.store, head, owner)?;
        drop(live);
        while !pages.is_empty() {
            if !self.undo_admission.admit_undo(RECORD_REDO * FREED_TOGETHER as u64, wait)? {
                return Ok(false);
            }
            // As long as there is the tree, nobody else frees these pages.
            let Some(_live) = self.trees.get(tree) else { return Ok(true) };
            free_last(&self.store, &mut pages, FREED_TOGETHER)?;
        }
        Ok(true)
    }

    /// Leaves an aborted transaction to the background.
    pub(super) fn revert_later(&self, job: Reverting) {
        self.reverting.fetch_add(1, Ordering::AcqRel);
        self.reverts.lock().push_back(job);
        self.background.unpark();
    }

    /// Reverts one aborted transaction of the queue, or sets it aside. Whether there was one.
    pub(super) fn revert_next(&self, wait: UndoWait) -> Result<bool> {
        // Nobody else takes from there.
        let Some(mut job) = self.reverts.lock().pop_front() else { return Ok(false) };
        match self.finish_abort(&mut job, wait, true) {
            Ok(true) => self.is_reverted(&job.stream),
            Ok(false) => self.reverts.lock().push_front(job),
            Err(error) if is_local(&error) && !planted(Bug::StuckAtUnreadable) => {
                self.quarantine_task(QuarantineTask::Revert(job), error);
            }
            Err(error) => {
                self.reverts.lock().push_front(job);
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Counts an aborted transaction that is wholly reverted.
    pub(super) fn is_reverted(&self, stream: &Stream) {
        self.reverting.fetch_sub(1, Ordering::AcqRel);
        if stream.owner() < self.first_txn {
            self.losers.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Reverts what recovery has found aborted, but for what must wait.
    pub(crate) fn revert_losers(&self) -> Result {
        while self.losers() > self.quarantine.reverts(self.first_txn) as u64 {
            if !self.revert_next(UndoWait::AsCaller)? {
                break;
            }
        }
        Ok(())
    }
}
