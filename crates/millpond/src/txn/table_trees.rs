//! [`TableTrees`]: the trees of all tables, their counters and ids.

use super::counters::{Counter, Counters};
use super::tree_ids::TreeIds;
use super::trees::Trees;
use crate::btree::Tree;
use crate::error::Result;
use base::TreeId;
use base::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The trees that tables have, and those that have pages and no table.
#[derive(Debug)]
pub(crate) struct TableTrees {
    /// Those of tables, by id.
    pub(super) live: Trees,
    ids: TreeIds,
    counters: Counters,
    /// The number of trees that have pages and no table.
    tableless: AtomicU64,
}

impl TableTrees {
    /// No trees yet, the counters that recovery has found, and ids from `next` on.
    pub(super) fn recovered(counters: BTreeMap<TreeId, u64>, next: TreeId) -> TableTrees {
        TableTrees {
            live: Trees::default(),
            ids: TreeIds::from(next),
            counters: Counters::recovered(counters),
            tableless: AtomicU64::new(0),
        }
    }

    /// Adds the tree of a table.
    pub(crate) fn add(&self, tree: Tree) {
        self.live.add(tree);
    }

    /// Returns the tree, unless it has been dropped. It is not dropped while the caller holds the
    /// result.
    pub(crate) fn get(&self, id: TreeId) -> Option<Arc<Tree>> {
        self.live.get(id)
    }

    /// Forgets a tree, and returns when no thread works on it any more. REQUIRES: no transaction
    /// uses it.
    pub(crate) fn remove(&self, id: TreeId) {
        self.live.remove(id);
    }

    /// Returns a tree id that was never used.
    pub(crate) fn new_id(&self) -> Result<TreeId> {
        self.ids.new_id()
    }

    /// Raises the ids of new trees above `id`.
    pub(crate) fn raise_ids_above(&self, id: TreeId) {
        self.ids.raise_above(id);
    }

    /// Returns the next new tree id.
    pub(super) fn next_id(&self) -> TreeId {
        self.ids.next()
    }

    /// Returns the counter of a table.
    pub(crate) fn counter_of(&self, tree: TreeId) -> Arc<Counter> {
        self.counters.of(tree)
    }

    /// Forgets the counter of a dropped table.
    pub(crate) fn forget_counter(&self, tree: TreeId) {
        self.counters.forget(tree);
    }

    /// Forgets the counters of tables that are gone.
    pub(crate) fn forget_dead_counters(&self) {
        self.counters.retain(|tree| self.live.get(tree).is_some());
    }

    /// Returns what a checkpoint lists: the counters that are not 0.
    pub(super) fn list_counters(&self) -> Vec<(TreeId, u64)> {
        self.counters.list()
    }

    /// Counts trees that have or get pages and have no table. Called before that is so.
    pub(crate) fn add_tableless(&self, trees: usize) {
        self.tableless.fetch_add(trees as u64, Ordering::AcqRel);
    }

    /// Stops counting trees that have a table now, or got no pages.
    pub(crate) fn sub_tableless(&self, trees: usize) {
        let before = self.tableless.fetch_sub(trees as u64, Ordering::AcqRel);
        base::check!(before >= trees as u64, "{trees} of {before} trees without a table are released");
    }

    /// Returns how many trees have pages and no table.
    pub(crate) fn tableless(&self) -> u64 {
        self.tableless.load(Ordering::Acquire)
    }
}
