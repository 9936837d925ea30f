//! Two-phase commit: a transaction is prepared, and a coordinator decides how it ends.
//!
//! A prepared transaction is in a list with its xid, so that a checkpoint finds it and any thread
//! can decide it by its name. The session that has prepared it may *hold* it: then no other
//! thread decides it, and the session decides it without a look at the list. For its commit record
//! the log keeps room, so this commit waits for nothing and cannot fail.

use super::commit::Commits;
use super::lock_wait::LockWaits;
use super::log_record::log_record;
use super::on_record::OnRecord;
use super::prepared::{Prepared, PreparedList};
use super::rollback::Rollbacks;
use super::transaction::Txn;
use crate::error::{Error, Result};
use crate::lock::{Owner, TableLock, Using, Wait};
use crate::log::group::Record;
use crate::log::{KeptRoom, Room};
use crate::mvcc::TxnState;
use crate::undo::{HeldPiece, Stream, UndoAccess, UndoEntry};
use base::{Lsn, TreeId, TxnId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The longest xid of a prepared transaction, bytes (XA allows 64 + 64 and a format number).
const XID_BYTES_MAX: usize = 256;

/// Returns the tree of a record's change.
fn tree_of(entry: &UndoEntry<'_>) -> Option<TreeId> {
    match *entry {
        UndoEntry::Insert { tree, .. } | UndoEntry::Replace { tree, .. } | UndoEntry::Chain { tree, .. } => {
            Some(tree)
        }
        UndoEntry::Rewind { .. } => None,
    }
}

/// Prepares transactions and decides prepared ones.
#[derive(Clone, Copy)]
pub(crate) struct TwoPhase<'a> {
    pub(super) commits: Commits<'a>,
    pub(super) rollbacks: Rollbacks<'a>,
    pub(super) prepared: &'a PreparedList,
    pub(super) waits: &'a LockWaits,
}

impl TwoPhase<'_> {
    /// Prepares: leaves the transaction's end to the coordinator that names `xid`, also after a
    /// crash. The caller makes the returned LSN durable. If it is `held`, only its session can end
    /// it until [`TwoPhase::leave_prepared`].
    pub(crate) fn prepare(&self, txn: &Txn, xid: &[u8], held: bool) -> Result<Lsn> {
        if xid.is_empty() || xid.len() > XID_BYTES_MAX {
            let len = xid.len();
            return Err(Error::Misuse(format!("an xid of {len} bytes: 1 to {XID_BYTES_MAX} are allowed")));
        }
        self.commits.log.make_room()?;
        let owner = self.commits.owner(txn);
        self.prepared.add(xid, || {
            self.commits.versions.status.set(owner.txn(), TxnState::Prepared);
            if !held {
                owner.hide();
            }
            Prepared {
                owner: Arc::clone(owner),
                stream: txn.stream().cloned(),
                claimed: held,
                tables: Vec::new(),
            }
        })?;
        Ok(log_record(self.commits.log, &Record::Prepare { txn: owner.txn(), xid }, |_| {}))
    }

    /// Keeps room in the log for the commit record of a held transaction. From here on readers wait
    /// only for commits that no coordinator has on record.
    pub(crate) fn keep_commit_room(&self) -> Result<KeptRoom> {
        let room = self.commits.log.keep_room()?;
        self.commits.unrecorded.count(|| self.commits.log.reserved_lsn());
        Ok(room)
    }

    /// Returns up to where the log must be durable for a transaction that a coordinator may repeat
    /// after a crash: it may have read or changed what only the log knows. `None`: nothing.
    pub(crate) fn needed_by_repeatable(&self) -> Option<Lsn> {
        let last = Lsn(self.commits.log.reserved_lsn().0.saturating_sub(1));
        let needed = self.commits.unrecorded.needed(last);
        (self.commits.log.durable_lsn() <= needed).then_some(needed)
    }

    /// Lets any thread decide a transaction that a session has held. It goes on to use the tables.
    pub(crate) fn leave_prepared(&self, xid: &[u8], tables: Vec<Using>) {
        self.prepared.leave(xid, tables);
    }

    /// Commits a held transaction, which its coordinator perhaps has on record, with a bookmark if
    /// there is a `bookmark`. As room is kept for the records, it waits for nothing.
    pub(crate) fn commit_held(
        &self,
        txn: &Txn,
        xid: &[u8],
        on_record: OnRecord,
        bookmark: Option<&[u8]>,
        room: &KeptRoom,
    ) -> Lsn {
        let owner = self.commits.owner(txn);
        let stream = self.stream_of_prepared(owner, txn.stream());
        let lsn = self.commits.record_commit(owner, &stream, on_record, bookmark, Room::Kept(room));
        self.prepared.remove(xid);
        lsn
    }

    /// Rolls a held transaction back. Returns the LSN of the record, which is not durable yet.
    pub(crate) fn rollback_held(&self, txn: &Txn, xid: &[u8]) -> Result<Lsn> {
        self.commits.log.make_room()?;
        let lsn = self.abort_prepared(self.commits.owner(txn), txn.stream());
        self.prepared.remove(xid);
        Ok(lsn)
    }

    fn stream_of_prepared(&self, owner: &Owner, stream: Option<&Arc<Stream>>) -> Arc<Stream> {
        stream.cloned().unwrap_or_else(|| self.commits.versions.streams.begin(owner.txn()))
    }

    fn abort_prepared(&self, owner: &Owner, stream: Option<&Arc<Stream>>) -> Lsn {
        // A checkpoint above this record must not list the transaction as prepared, because its
        // rows are about to be reverted. So its state changes before the record can be found.
        let txn = owner.txn();
        let lsn = log_record(self.commits.log, &Record::Abort { txn }, |_| {
            self.commits.versions.status.set(txn, TxnState::Aborted);
        });
        self.rollbacks.end_aborted(owner, stream);
        lsn
    }

    /// Returns the xids of all prepared transactions, by their ids.
    pub(crate) fn prepared_ids(&self) -> BTreeMap<TxnId, Vec<u8>> {
        self.prepared.by_txn(|_claimed| true)
    }

    /// Returns the xids of all prepared transactions, sorted.
    pub(crate) fn prepared_xids(&self) -> Vec<Vec<u8>> {
        self.prepared.xids()
    }

    /// Commits a prepared transaction. The caller makes the returned LSN durable.
    pub(crate) fn commit_prepared(&self, xid: &[u8]) -> Result<Lsn> {
        let room = Room::Lent(self.commits.log.credit()?);
        let found = self.prepared.claim(xid)?;
        let stream = self.stream_of_prepared(&found.owner, found.stream.as_ref());
        let lsn = self.commits.record_commit(&found.owner, &stream, OnRecord::Nowhere, None, room);
        self.prepared.remove(xid);
        Ok(lsn)
    }

    /// Rolls a prepared transaction back. The caller makes the returned LSN durable.
    pub(crate) fn rollback_prepared(&self, xid: &[u8]) -> Result<Lsn> {
        self.commits.log.make_room()?;
        let found = self.prepared.claim(xid)?;
        let lsn = self.abort_prepared(&found.owner, found.stream.as_ref());
        self.prepared.remove(xid);
        Ok(lsn)
    }

    /// Locks the tables of the prepared transactions that recovery has found: none of them can be
    /// dropped or renamed before they are decided. Their undo names the tables. Undo that cannot be
    /// read names none. REQUIRES: no other transaction has begun.
    pub(crate) fn lock_tables_of_prepared(&self) -> Result {
        for (owner, stream) in self.prepared.owners() {
            for tree in stream.iter().flat_map(|stream| self.trees_of(stream)) {
                let locks = self.commits.locks;
                self.waits.await_lock(locks.lock_table(&owner, tree, TableLock::Shared, Wait::NoWait))?;
            }
        }
        Ok(())
    }

    /// Returns the trees that a transaction has changed, as far as its undo can be read.
    fn trees_of(&self, stream: &Stream) -> BTreeSet<TreeId> {
        let (mut trees, mut held, mut at) = (BTreeSet::new(), HeldPiece::default(), 0);
        while at < stream.end() {
            match stream.read_on(at, &held, |record| tree_of(&record.entry)) {
                Ok(UndoAccess::Here((tree, next))) => {
                    trees.extend(tree);
                    at = next;
                }
                Ok(UndoAccess::Away(piece)) if self.commits.versions.fetch(&piece, &mut held).is_ok() => {}
                Ok(UndoAccess::Away(_)) | Err(_) => break,
            }
        }
        trees
    }
}
