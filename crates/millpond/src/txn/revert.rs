//! Putting older versions back: the rows of aborted transactions, and of an active one that rolls back to a savepoint.
//!
//! A row is reverted by looking at it, not by believing a record: versions that are to go are taken off one after the
//! other until one stands that stays. So doing it twice, or from two sides, or again after a crash, changes nothing more,
//! and nobody ever puts a version on top of an aborted one (Un6).

use super::system::Txns;
use crate::btree::{free_chain, row_bytes};
use crate::error::Result;
use crate::lock::Owner;
use crate::mtr::Mtr;
use crate::mvcc::State;
use crate::mvcc::version::step_back;
use crate::page::node::{Leaf, Version};
use crate::page::op::{PageOp, common_ends};
use crate::undo::{Entry, Mark, Stream};
use base::sync::atomic::Ordering;
use base::{PageNo, TreeId};
use metrics::M;
use std::sync::Arc;

/// What a record asks a rollback to do.
enum Step {
    Row(TreeId, Vec<u8>),
    Chain(TreeId, PageNo),
    Nothing,
}

impl Txns {
    /// Whether a version was made by an aborted transaction.
    fn is_aborted(&self, version: Version) -> bool {
        self.status.state(version.txn) == State::Aborted
    }

    /// Takes the aborted versions off a row. REQUIRES: no latch held.
    pub(super) fn revert_aborted_row(&self, tree: TreeId, key: &[u8]) -> Result {
        self.revert_row(tree, key, &|version| self.is_aborted(version), None)
    }

    /// Takes versions off a row for as long as `goes` says so of the newest one. `keeper` keeps the lock that its versions
    /// are.
    fn revert_row(
        &self,
        tree: TreeId,
        key: &[u8],
        goes: &dyn Fn(Version) -> bool,
        keeper: Option<&Arc<Owner>>,
    ) -> Result {
        let Some(tree) = self.trees.get(tree) else { return Ok(()) };
        let mut room = 0;
        loop {
            self.store.log.make_room()?;
            let page = tree.leaf_write(&self.store, key, room)?;
            let leaf = Leaf::new(&page);
            let Ok(slot) = leaf.search(key) else { return Ok(()) };
            let row = leaf.row(slot);
            if !goes(row.version) {
                return Ok(());
            }
            let mut value = row.value.to_vec();
            let mut stands = Some((row.version, row.flags));
            while let Some((version, _)) = stands.filter(|(version, _)| goes(*version)) {
                let stream = self.streams.get(version.txn);
                let gone = crate::page::Damage("the undo of an aborted version is gone");
                stands = stream
                    .ok_or(gone)
                    .and_then(|s| s.read(version.undo_at, |r| step_back(&r.entry, &mut value)))
                    .and_then(|older| older)
                    .map_err(|damage| self.damage(*tree, damage))?;
                self.store.metrics.add(M::RowReverts, 1);
            }
            let op = match stands {
                None => PageOp::Remove { slot },
                Some((version, flags)) => {
                    let needed = row_bytes(key.len(), value.len());
                    if room < needed && value.len() > row.value.len() {
                        // The older value is longer: come again with room for it.
                        room = needed;
                        continue;
                    }
                    let (front, back) = common_ends(row.value, &value);
                    let middle = &value[usize::from(front)..value.len() - usize::from(back)];
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
        let mut next = stream.mark().last;
        while let Some(at) = next.filter(|&at| at >= mark.end) {
            let read = stream.read(at, |record| {
                let step = match record.entry {
                    Entry::Insert { tree, key } | Entry::Replace { tree, key, .. } => {
                        Step::Row(tree, key.to_vec())
                    }
                    Entry::Chain { tree, head } => Step::Chain(tree, head),
                    Entry::Rewind { .. } => Step::Nothing,
                };
                (step, record.prev)
            });
            let (step, prev) = read.map_err(|damage| {
                crate::error::Error::corrupt(self.store.pages_path(), damage.to_string())
            })?;
            match step {
                Step::Row(tree, key) => self.revert_row(tree, &key, &goes, keeper)?,
                Step::Chain(tree, head) => {
                    self.free_chain_of(tree, head, Version { txn: owner, undo_at: at })?;
                }
                Step::Nothing => {}
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
        let Some(stream) = self.reverts.lock().pop_front() else { return Ok(false) };
        if let Err(error) = self.finish_abort(&stream) {
            self.reverts.lock().push_front(stream);
            return Err(error);
        }
        if stream.owner() < self.first_txn {
            self.losers.fetch_sub(1, Ordering::AcqRel);
        }
        Ok(true)
    }
}
