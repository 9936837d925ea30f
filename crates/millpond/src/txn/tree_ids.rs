//! The ids of new trees: each is given once.

use crate::error::{Error, Result};
use base::TreeId;
use base::sync::atomic::{AtomicU32, Ordering};

/// Gives ids to new trees.
#[derive(Debug)]
pub(crate) struct TreeIds {
    next: AtomicU32,
}

impl TreeIds {
    /// The ids from `next` on.
    pub(super) fn from(next: TreeId) -> TreeIds {
        TreeIds { next: AtomicU32::new(next.0) }
    }

    /// Returns a tree id that was never used.
    pub(crate) fn new_id(&self) -> Result<TreeId> {
        let another = |id: u32| id.checked_add(1);
        match self.next.fetch_update(Ordering::AcqRel, Ordering::Acquire, another) {
            Ok(id) => Ok(TreeId(id)),
            Err(last) => Err(Error::Limit {
                what: format!("{last} tables have been made, the most that there can be"),
            }),
        }
    }

    /// Raises the ids of new trees above `id`.
    pub(crate) fn raise_above(&self, id: TreeId) {
        self.next.fetch_max(id.0.saturating_add(1), Ordering::AcqRel);
    }

    /// Returns the next new tree id.
    pub(super) fn next(&self) -> TreeId {
        TreeId(self.next.load(Ordering::Acquire))
    }
}
