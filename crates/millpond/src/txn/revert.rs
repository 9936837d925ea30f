//! Putting older versions back: the rows of aborted transactions, and of an active one that rolls back to a savepoint.
//!
//! A row is reverted by looking at it, not by believing a record: versions that are to go are taken off one after the
//! other until one stands that stays. So doing it twice, or from two sides, or again after a crash, changes nothing more,
//! and nobody ever puts a version on top of an aborted one (Un6).

use super::system::Txns;
use crate::btree::{Tree, free_chain, row_bytes};
use crate::error::Result;
use crate::lock::Owner;
use crate::mtr::Mtr;
use crate::mvcc::{State, Step};
use crate::page::node::{Leaf, Row, Version};
use crate::page::op::{PageOp, common_ends};
use crate::undo::{Access, Entry, Held, Mark, Piece, Stream};
use base::sync::atomic::Ordering;
use base::{PageNo, TreeId};
use metrics::M;
use std::sync::Arc;

/// What a record asks a rollback to do.
enum Task {
    Row(TreeId, Vec<u8>),
    Chain(TreeId, PageNo),
    Nothing,
}

/// What a row is to become.
struct Older {
    /// The version that it must still have.
    instead_of: Version,
    /// The version that stays, and its flags; `None` if there was no row.
    stays: Option<(Version, u8)>,
    value: Vec<u8>,
    /// Versions that are taken off.
    steps: u64,
}

/// A search for what a row is to become that has come to undo which is not in memory.
struct Search {
    older: Older,
    at: Step,
    piece: Piece,
}

impl Txns {
    /// Whether a version was made by an aborted transaction.
    fn is_aborted(&self, version: Version) -> bool {
        self.status.state(version.txn) == State::Aborted
    }

    /// Takes the aborted versions off a row. REQUIRES: no latch held.
    pub(super) fn revert_aborted_row(&self, tree: TreeId, key: &[u8]) -> Result {
        self.revert_row(tree, key, &|version| self.is_aborted(version), None, &mut Held::default())
    }

    /// Looks for the version of a row that stays, as [`Txns::search_on`]. REQUIRES: the row's leaf is latched.
    fn search(
        &self,
        tree: Tree,
        row: Row<'_>,
        goes: &dyn Fn(Version) -> bool,
        held: &Held,
    ) -> Result<Result<Older, Search>> {
        let older = Older { instead_of: row.version, stays: None, value: row.value.to_vec(), steps: 0 };
        self.search_on(tree, older, Step::begin(self.undo(), row.version), goes, held)
    }

    /// Goes back from `at`, a version that goes, to the first that stays, as far as undo is in memory or `held`.
    fn search_on(
        &self,
        tree: Tree,
        mut older: Older,
        mut at: Step,
        goes: &dyn Fn(Version) -> bool,
        held: &Held,
    ) -> Result<Result<Older, Search>> {
        loop {
            let back = at.back(self.undo(), held, &mut older.value);
            match back.map_err(|damage| self.damage(tree, damage))? {
                Access::Away(piece) => return Ok(Err(Search { older, at, piece })),
                Access::Here(flags) => {
                    older.steps += 1;
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
        let (mut room, mut known) = (0, None::<Older>);
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
                self.locks.keep_written(keeper, tree.id, key);
            }
            let mut mtr = Mtr::begin(&self.store.log, &self.store.pool);
            let held = mtr.add(page);
            mtr.apply(held, &op);
            mtr.commit();
            self.store.metrics.add(M::RowReverts, older.steps);
            return Ok(());
        }
    }

    /// Undoes the records of a stream from its end back to `mark`, newest first: every version for which `goes` holds.
    /// `keeper`, if the stream's owner goes on and keeps the locks. REQUIRES: no latch held; one caller at a time for a stream.
    pub(super) fn revert_stream(
        &self,
        stream: &Arc<Stream>,
        mark: Mark,
        goes: impl Fn(Version) -> bool,
        keeper: Option<&Arc<Owner>>,
    ) -> Result {
        let owner = stream.owner();
        let goes = |version: Version| version.txn == owner && goes(version);
        let (mut next, mut held) = (stream.mark().last, Held::default());
        while let Some(at) = next.filter(|&at| at >= mark.end) {
            let read = stream.read(at, &held, |record| {
                let task = match record.entry {
                    Entry::Insert { tree, key } | Entry::Replace { tree, key, .. } => {
                        Task::Row(tree, key.to_vec())
                    }
                    Entry::Chain { tree, head } => Task::Chain(tree, head),
                    Entry::Rewind { .. } => Task::Nothing,
                };
                (task, record.prev)
            });
            let (task, prev) = match read.map_err(|damage| self.undo_damage(damage))? {
                Access::Here(read) => read,
                Access::Away(piece) => {
                    self.fetched.fetch(&piece, &mut held)?;
                    continue;
                }
            };
            match task {
                Task::Row(tree, key) => self.revert_row(tree, &key, &goes, keeper, &mut held)?,
                Task::Chain(tree, head) => {
                    self.free_chain_of(tree, head, Version { txn: owner, undo_at: at })?;
                }
                Task::Nothing => {}
            }
            next = prev;
        }
        Ok(())
    }

    /// Frees a chain that no version needs any more; its pages went with the tree if that was dropped.
    pub(super) fn free_chain_of(&self, tree: TreeId, head: PageNo, owner: Version) -> Result {
        let Some(_live) = self.trees.get(tree) else { return Ok(()) };
        free_chain(&self.store, head, owner, &mut || self.store.log.make_room())
    }

    /// Reverts one aborted transaction of the queue. Whether there was one.
    pub(super) fn revert_next(&self) -> Result<bool> {
        // It stays in the queue until it is done; nobody else takes from there.
        let Some(stream) = self.reverts.lock().front().cloned() else { return Ok(false) };
        self.finish_abort(&stream)?;
        self.reverts.lock().pop_front();
        if stream.owner() < self.first_txn {
            self.losers.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(true)
    }
}
