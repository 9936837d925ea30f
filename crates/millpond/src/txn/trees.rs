//! Which trees there are, by id: undo names a tree, and who follows undo in the background needs its root.

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
    /// Makes a tree known.
    pub(crate) fn add(&self, tree: Tree) {
        self.mu.lock().insert(tree.id, Arc::new(tree));
    }

    /// The tree, unless it has been dropped. It is not dropped while the answer is held.
    pub(crate) fn get(&self, id: TreeId) -> Option<Arc<Tree>> {
        self.mu.lock().get(&id).cloned()
    }

    /// Forgets a tree and returns when nobody works on it any more. REQUIRES: no transaction uses it.
    pub(crate) fn remove(&self, id: TreeId) {
        let removed = self.mu.lock().remove(&id);
        let mut turn = 0;
        while removed.as_ref().is_some_and(|tree| Arc::strong_count(tree) > 1) {
            spin(&mut turn);
        }
    }
}
