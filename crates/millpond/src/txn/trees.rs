//! The live trees by id. Undo names a tree, and background work that follows undo needs its root.

use crate::btree::Tree;
use base::TreeId;
use base::sync::{Mutex, spin};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The live trees of a database.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    mu: Mutex<BTreeMap<TreeId, Arc<Tree>>>,
}

impl Trees {
    /// Adds a tree.
    pub(crate) fn add(&self, tree: Tree) {
        self.mu.lock().insert(tree.id, Arc::new(tree));
    }

    /// Returns the tree, unless it has been dropped. It is not dropped while the caller holds the
    /// result.
    pub(crate) fn get(&self, id: TreeId) -> Option<Arc<Tree>> {
        self.mu.lock().get(&id).cloned()
    }

    /// Forgets a tree, and returns when no thread works on it any more. REQUIRES: no transaction
    /// uses it.
    pub(crate) fn remove(&self, id: TreeId) {
        let removed = self.mu.lock().remove(&id);
        let mut spins = 0;
        while removed.as_ref().is_some_and(|tree| Arc::strong_count(tree) > 1) {
            spin(&mut spins);
        }
    }
}
