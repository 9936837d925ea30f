//! Releases trees that no table has: those being made or loaded, and those of dropped tables until
//! their pages are given back.
//!
//! Giving pages back asks for room in the log, like purge. What cannot be given back now goes into
//! quarantine. What is left when the engine stops is found by the next open, because no entry of
//! the catalog names its owner. So neither a drop nor an open fails for it.

use super::admission::UndoWait;
use super::quarantine::{QuarantineTask, is_local};
use super::system::Txns;
use crate::error::Result;
use crate::planted::{Bug, planted};
use base::TreeId;
use base::sync::atomic::Ordering;

impl Txns {
    /// Counts trees that have or get pages and have no table. Called before that is so.
    pub(crate) fn add_tableless(&self, trees: usize) {
        self.tableless.fetch_add(trees as u64, Ordering::AcqRel);
    }

    /// Stops counting trees that have a table now, or got no pages.
    pub(crate) fn sub_tableless(&self, trees: usize) {
        self.tableless.fetch_sub(trees as u64, Ordering::AcqRel);
    }

    /// Returns how many trees have pages and no table.
    pub(crate) fn tableless(&self) -> u64 {
        self.tableless.load(Ordering::Acquire)
    }

    /// Gives the pages of a tree back, now or later. REQUIRES: it is counted as a tree without a
    /// table; nothing uses it now or later; no latch held.
    pub(crate) fn release(&self, tree: TreeId) {
        match self.release_now(tree, UndoWait::AsCaller) {
            Err(error) if is_local(&error) => {
                {
                    // If there is no room to remember it, the next open frees what is left.
                    let _remembered = self.quarantine_task(QuarantineTask::Release(tree), error);
                }
            }
            // With an error that is not local the engine stops, and the next open releases the
            // tree.
            Ok(()) | Err(_) => {}
        }
    }

    /// Puts a release into quarantine, as a page that cannot be read does.
    #[cfg(test)]
    pub(crate) fn quarantine_release(&self, tree: TreeId, error: crate::Error) {
        self.quarantine_task(QuarantineTask::Release(tree), error);
    }

    /// As `release`, but returns an error. What has been given back stays so.
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
