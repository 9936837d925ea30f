//! Trees that no table has: those being made or loaded, and those of dropped tables until their pages are given back. Giving back asks for room
//! in the log like purge, and what cannot be given back now is set aside; what is left when the engine stops the next open finds,
//! because no entry of the catalog names its owner. So whoever drops a table never fails for it, nor does who opens.

use super::admission::UndoWait;
use super::quarantine::{QuarantineTask, is_local};
use super::system::Txns;
use crate::error::Result;
use crate::planted::{Bug, planted};
use base::TreeId;
use base::sync::atomic::Ordering;

impl Txns {
    /// So many trees have or get pages and have no table; from before that is so.
    pub(crate) fn add_tableless(&self, trees: usize) {
        self.tableless.fetch_add(trees as u64, Ordering::AcqRel);
    }

    /// So many of them have a table now, or got no pages.
    pub(crate) fn sub_tableless(&self, trees: usize) {
        self.tableless.fetch_sub(trees as u64, Ordering::AcqRel);
    }

    /// How many there are.
    pub(crate) fn tableless(&self) -> u64 {
        self.tableless.load(Ordering::Acquire)
    }

    /// Gives the pages of a tree back, now or later. REQUIRES: it counts as one without a table; nobody uses it any more, and none will; no
    /// latch held.
    pub(crate) fn release(&self, tree: TreeId) {
        match self.release_now(tree, UndoWait::AsCaller) {
            Err(error) if is_local(&error) => {
                drop(self.quarantine_task(QuarantineTask::Release(tree), error))
            }
            // With an error that is not local the engine stops, and the next open does it.
            Ok(()) | Err(_) => {}
        }
    }

    /// What a page that cannot be read makes of a release.
    #[cfg(test)]
    pub(crate) fn quarantine_release(&self, tree: TreeId, error: crate::Error) {
        self.quarantine_task(QuarantineTask::Release(tree), error);
    }

    /// The same, or why not. What is given back already stays so.
    pub(super) fn release_now(&self, tree: TreeId, wait: UndoWait) -> Result {
        let room = |redo| {
            if planted(Bug::ReleaseUnasked) {
                return Ok(());
            }
            self.undo_admission.admit_undo(redo, wait).map(drop)
        };
        self.store.space.release_tree(tree, &room)?;
        self.sub_tableless(1);
        Ok(())
    }
}
