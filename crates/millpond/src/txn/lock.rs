//! Locking a row and reading its newest committed state.

use super::read::Value;
use super::system::{Rules, Txn, Txns, denied};
use crate::btree::Tree;
use crate::error::{Error, Result};
use crate::lock::{Enqueued, Mode, Ticket, Writer};
use crate::mvcc::State;
use crate::mvcc::visible::Stand;
use crate::page::node::{DELETED, Leaf};
use base::TxnId;

/// What a locked row holds.
#[derive(Debug)]
pub(crate) enum Locked {
    /// No row, or a deleted one. The key is locked all the same.
    Absent,
    /// A row with this value, or the way to it.
    Present(Value),
}

/// Why a row cannot be had yet, found under its leaf's latch.
pub(super) enum Obstacle<'t> {
    /// Another transaction holds it: wait, then look again.
    Wait(Ticket<'t>),
    /// It has just become free: look again.
    Again,
    /// An aborted version stands there: revert it, then look again.
    Revert,
}

impl Txns {
    /// Judges the newest version of a row for who wants to lock or change it. `None`: nothing is in the way. REQUIRES:
    /// the row's leaf is latched.
    pub(super) fn obstacle(
        &self,
        txn: &Txn,
        tree: Tree,
        key: &[u8],
        newest: TxnId,
        mode: Mode,
        rules: Rules,
    ) -> Result<Option<Obstacle<'_>>> {
        let owner = self.owner(txn);
        let view = self.view(base::Lsn::MAX, owner.txn());
        match view.stand(newest, rules.conflicts_after) {
            Stand::Free(commit) => {
                txn.note_seen(commit);
                Ok(None)
            }
            Stand::Conflict => Err(Error::WriteConflict),
            Stand::Aborted => Ok(Some(Obstacle::Revert)),
            Stand::Undecided => unreachable!("`stand` waits for a decision"),
            Stand::Locked => {
                let active = || matches!(self.status.state(newest), State::Active | State::Prepared);
                let writer =
                    self.locks.wait_for_writer(owner, newest, tree.id, key, mode, rules.wait, active);
                Ok(Some(match writer.map_err(denied)? {
                    Writer::Gone => Obstacle::Again,
                    Writer::Waiting(ticket) => Obstacle::Wait(ticket),
                }))
            }
        }
    }

    /// Gets over an obstacle. REQUIRES: no latch held.
    pub(super) fn get_over(&self, txn: &Txn, tree: Tree, key: &[u8], obstacle: Obstacle<'_>) -> Result {
        match obstacle {
            Obstacle::Again => {
                base::sync::point();
                Ok(())
            }
            Obstacle::Wait(ticket) => self.timed(txn, || ticket.wait()).map_err(denied),
            Obstacle::Revert => self.revert_aborted_row(tree.id, key),
        }
    }

    /// Locks the row of `key` until the transaction ends, whether or not there is one, and reads its newest committed
    /// state, or the transaction's own. REQUIRES: no latch held.
    pub(crate) fn lock_row(
        &self,
        txn: &Txn,
        tree: Tree,
        key: &[u8],
        mode: Mode,
        rules: Rules,
    ) -> Result<Locked> {
        let owner = self.owner(txn);
        loop {
            let page = tree.leaf_read_near(&self.store, txn.near.leaf(tree, key), key)?;
            txn.near.was(tree, key, page.page_no());
            let leaf = Leaf::new(&page);
            let row = leaf.search(key).ok().map(|slot| leaf.row(slot));
            if let Some(row) = row
                && let Some(obstacle) = self.obstacle(txn, tree, key, row.version.txn, mode, rules)?
            {
                drop(page);
                self.get_over(txn, tree, key, obstacle)?;
                continue;
            }
            let own = row.is_some_and(|row| row.version.txn == owner.txn());
            if !own {
                match self.locks.enqueue(owner, tree.id, key, mode, rules.wait).map_err(denied)? {
                    Enqueued::Granted => {}
                    Enqueued::Waiting(ticket) => {
                        drop(page);
                        self.get_over(txn, tree, key, Obstacle::Wait(ticket))?;
                        continue;
                    }
                }
            }
            return match row {
                Some(row) if row.flags & DELETED == 0 => {
                    Ok(Locked::Present(Value::of(&self.store, row.flags, row.value)?))
                }
                _ => Ok(Locked::Absent),
            };
        }
    }
}
