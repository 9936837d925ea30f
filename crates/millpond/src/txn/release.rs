//! Releases trees that no table has: those being made or loaded, and those of dropped tables until
//! their pages are given back.
//!
//! Giving pages back asks for room in the log, like purge. What cannot be given back now goes into
//! quarantine. What is left when the engine stops is found by the next open, because no entry of
//! the catalog names its owner. So neither a drop nor an open fails for it.

use super::admission::{UndoAdmission, UndoWait};
use super::ended_txns::EndedTxns;
use super::quarantine::{QuarantineTask, is_local};
use super::table_trees::TableTrees;
use crate::error::Result;
use crate::planted::{Bug, planted};
use crate::space::Space;
use base::TreeId;

/// Releases trees, with what that needs of a database.
#[derive(Clone, Copy)]
pub(crate) struct Releaser<'a> {
    pub(super) space: &'a Space,
    pub(super) trees: &'a TableTrees,
    pub(super) admission: &'a dyn UndoAdmission,
    /// Has the quarantine.
    pub(super) ended: &'a EndedTxns,
}

impl Releaser<'_> {
    /// Gives the pages of a tree back, now or later. REQUIRES: it is counted as a tree without a
    /// table; nothing uses it now or later; no latch held.
    pub(crate) fn release(&self, tree: TreeId) {
        match self.release_now(tree, UndoWait::AsCaller) {
            Err(error) if is_local(&error) => {
                {
                    // If there is no room to remember it, the next open frees what is left.
                    let _remembered = self.ended.set_aside(QuarantineTask::Release(tree), error);
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
        self.ended.set_aside(QuarantineTask::Release(tree), error);
    }

    /// As `release`, but returns an error. What has been given back stays so.
    pub(super) fn release_now(&self, tree: TreeId, wait: UndoWait) -> Result {
        let room = |redo| {
            if planted(Bug::ReleaseUnasked) {
                return Ok(());
            }
            self.admission.admit_undo(redo, wait).map(drop)
        };
        self.space.release_tree(tree, &room)?;
        self.trees.sub_tableless(1);
        Ok(())
    }
}
