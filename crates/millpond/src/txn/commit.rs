//! How transactions commit. `prepare.rs` has two-phase commit.

use super::bookmark::Bookmark;
use super::ended_txns::EndedTxns;
use super::log_record::log_in;
use super::on_record::{OnRecord, UnrecordedCommits};
use super::transaction::Txn;
use super::versions::Versions;
use crate::error::Result;
use crate::lock::{LockTable, Owner};
use crate::log::group::{self, Record};
use crate::log::{Log, Room};
use crate::mvcc::TxnState;
use crate::mvcc::purge::EndedTxn;
use crate::undo::Stream;
use base::Lsn;
use std::sync::Arc;

/// Commits transactions, with what that needs of a database.
#[derive(Clone, Copy)]
pub(crate) struct Commits<'a> {
    pub(super) log: &'a Log,
    pub(super) versions: &'a Versions,
    pub(super) locks: &'a LockTable,
    /// Takes those that have committed.
    pub(super) ended: &'a EndedTxns,
    pub(super) unrecorded: &'a UnrecordedCommits,
    pub(super) bookmark: &'a Bookmark,
}

impl Commits<'_> {
    /// Returns the owner of the transaction's locks; gives the transaction its id.
    pub(super) fn owner<'t>(&self, txn: &'t Txn) -> &'t Arc<Owner> {
        txn.owner_or_begin(self.versions, self.locks)
    }

    /// Commits a transaction that has changed something. From here on it is committed for every
    /// other transaction, and its locks are free. It survives a crash once the log is durable
    /// beyond the returned LSN; one that a coordinator has `on_record` survives in any case. A
    /// `bookmark` becomes the database's bookmark by the same group of the log. There is `room` for
    /// it, so no reader waits for more than a few steps while the transaction is committing.
    pub(super) fn record_commit(
        &self,
        owner: &Owner,
        stream: &Arc<Stream>,
        on_record: OnRecord,
        bookmark: Option<&[u8]>,
        room: Room<'_>,
    ) -> Lsn {
        let txn = owner.txn();
        base::check!(stream.owner() == txn, "{txn} commits with the undo of {}", stream.owner());
        self.versions.status.set(txn, TxnState::Committing);
        let put = |bytes: &mut Vec<u8>| {
            group::put_record(bytes, &Record::Commit { txn });
            if let Some(bookmark) = bookmark {
                group::put_record(bytes, &Record::Bookmark { bookmark });
            }
        };
        let lsn = log_in(self.log, room, put, |lsn| {
            // Before the first reader sees the commit.
            self.unrecorded.note(on_record, lsn);
            if let Some(bookmark) = bookmark {
                self.bookmark.note(lsn, bookmark);
            }
            self.versions.status.set(txn, TxnState::Committed(lsn));
        });
        self.log.count_commit();
        let due = self.ended.known_due();
        let ended = EndedTxn { txn, stream: Arc::clone(stream), committed: true };
        let forgotten = self.ended.purge_queue.exchange(lsn, ended, due);
        self.locks.release_all(owner);
        self.versions.forget(forgotten);
        lsn
    }

    /// Ends a transaction that has changed nothing.
    fn end_unchanged(&self, owner: &Owner) {
        self.versions.status.set(owner.txn(), TxnState::Aborted);
        self.locks.release_all(owner);
        self.versions.status.set(owner.txn(), TxnState::Settled);
    }

    /// Commits, with the bookmark if there is one. Returns the LSN of the commit record or of
    /// the bookmark, which is not durable yet; none if there was nothing to make durable. REQUIRES:
    /// no latch held.
    pub(crate) fn commit(&self, txn: &Txn, bookmark: Option<&[u8]>) -> Result<Option<Lsn>> {
        let alone = || bookmark.map(|bookmark| self.bookmark.log(self.log, bookmark)).transpose();
        let Some(owner) = txn.owner() else { return alone() };
        match txn.stream() {
            Some(stream) if !stream.is_empty() => {
                let room = Room::Lent(self.log.credit()?);
                Ok(Some(self.record_commit(owner, stream, OnRecord::Nowhere, bookmark, room)))
            }
            stream => {
                if stream.is_some() {
                    self.versions.streams.remove(owner.txn());
                }
                self.end_unchanged(owner);
                alone()
            }
        }
    }

    /// Returns the newest commit that the transaction was shown and that must be durable before it
    /// is acknowledged, if there is one.
    pub(crate) fn seen_needed(&self, txn: &Txn) -> Option<Lsn> {
        let seen = txn.seen.get();
        if seen == Lsn::ZERO { None } else { Some(self.unrecorded.needed(seen)) }
    }

    /// Waits until everything that the transaction was shown is durable (Co10). It is not needed if
    /// the transaction's own commit lies above.
    pub(crate) fn wait_seen_durable(&self, txn: &Txn) -> Result {
        match self.seen_needed(txn) {
            Some(needed) => self.log.flush_to(needed, metrics::SyncReason::Commit).map(drop),
            None => Ok(()),
        }
    }
}
