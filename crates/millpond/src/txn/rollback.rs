//! How transactions roll back, as a whole or to a savepoint.

use super::admission::UndoWait;
use super::ended_txns::EndedTxns;
use super::log_record::log_record;
use super::revert::{RevertOptions, Reverter};
use super::reverts::Reverting;
use super::rules::Rules;
use super::transaction::Txn;
use crate::error::Result;
use crate::lock::Owner;
use crate::log::group::Record;
use crate::mvcc::TxnState;
use crate::mvcc::purge::EndedTxn;
use crate::planted::{Bug, planted};
use crate::undo::{Stream, UndoEntry, UndoPosition, encode_rewind};
use base::TxnId;
use std::sync::Arc;

/// A rollback that costs more undo than this goes to the background, bytes. Its caller does not
/// wait for it.
const INLINE_ROLLBACK_BYTES: u64 = 64 << 10;

/// Rolls transactions back: reverts them at once, or leaves them to the background.
#[derive(Clone, Copy)]
pub(crate) struct Rollbacks<'a> {
    pub(super) reverter: Reverter<'a>,
    /// Takes those that have aborted.
    pub(super) ended: &'a EndedTxns,
}

impl Rollbacks<'_> {
    /// Rolls back. Its versions are aborted at once and its locks are free. A short undo is
    /// reverted here, a long one in the background. REQUIRES: no latch held.
    pub(crate) fn rollback(&self, txn: &Txn) {
        let Some(owner) = txn.owner() else { return };
        if txn.is_doomed() {
            return;
        }
        self.reverter.versions.status.set(owner.txn(), TxnState::Aborted);
        self.end_aborted(owner, txn.stream());
    }

    /// Does what is left when a transaction has become aborted.
    pub(super) fn end_aborted(&self, owner: &Owner, stream: Option<&Arc<Stream>>) {
        let Reverter { versions, locks, .. } = self.reverter;
        locks.release_all(owner);
        let Some(stream) = stream.filter(|stream| !stream.is_empty()) else {
            versions.streams.remove(owner.txn());
            return versions.status.set(owner.txn(), TxnState::Settled);
        };
        // The revert can fail here: a page cannot be read, the log has no room, or the database is
        // poisoned. Then the background or the next open does it.
        let mut job = Reverting::new(stream);
        let short = stream.cost() <= INLINE_ROLLBACK_BYTES;
        if !short || !matches!(self.finish_abort(&mut job, UndoWait::NoWait, false), Ok(true)) {
            self.ended.revert_later(job);
        }
    }

    /// Reverts all that an aborted transaction did, and gives its undo to purge. Returns false if
    /// the log had no room to go on.
    pub(super) fn finish_abort(
        &self,
        job: &mut Reverting,
        wait: UndoWait,
        skip_unreadable: bool,
    ) -> Result<bool> {
        let options = RevertOptions {
            position: UndoPosition { end: 0, last: None },
            keeps_locks: None,
            wait,
            skip_unreadable,
        };
        let Reverting { stream, next } = job;
        if !self.reverter.revert_stream(stream, next, &options, |_| true)? {
            return Ok(false);
        }
        let (txn, Reverter { store, versions, .. }) = (stream.owner(), self.reverter);
        store.log.make_room()?;
        if !stream.covers_marks() {
            // No row shows a version of it, and no delete mark has come back: its state is never
            // asked for again.
            log_record(&store.log, &Record::Reverted { txn }, |_| {});
            versions.settle(txn);
            return Ok(true);
        }
        let lsn = log_record(&store.log, &Record::Abort { txn }, |_| {});
        self.ended.purge_queue.push(lsn, EndedTxn { txn, stream: Arc::clone(stream), committed: false });
        Ok(true)
    }

    /// Undoes what the transaction did since `position`. Locks that it asked for stay. Locks that
    /// its versions were stay if it is serializable. If the rollback fails, the transaction is
    /// doomed: it has been rolled back as a whole. Half undone it must not go on, because at its
    /// end nothing would tell which half was undone.
    pub(crate) fn rollback_to(&self, txn: &Txn, position: UndoPosition, rules: Rules) -> Result {
        let undone = self.undo_to(txn, position, rules);
        if undone.is_err() && !planted(Bug::HalfUndoneGoesOn) {
            self.rollback(txn);
            txn.doomed.set(true);
        }
        undone
    }

    fn undo_to(&self, txn: &Txn, position: UndoPosition, rules: Rules) -> Result {
        let Some(stream) = txn.stream().filter(|stream| stream.end() > position.end) else { return Ok(()) };
        txn.can_rewind(position)?;
        let (owner, Reverter { versions, locks, .. }) = (stream.owner(), self.reverter);
        let keeps_locks = rules.serializable.then(|| txn.owner_or_begin(versions, locks));
        let is_undone =
            |version: crate::page::node::Version| version.txn == owner && version.undo_at >= position.end;
        let options =
            RevertOptions { position, keeps_locks, wait: UndoWait::AsCaller, skip_unreadable: false };
        let whole = self.reverter.revert_stream(stream, &mut stream.position().last, &options, is_undone)?;
        base::check!(whole, "a call waits for room");
        let store = self.reverter.store;
        store.log.make_room()?;
        let at = stream.append(UndoEntry::Rewind { end: position.end, last: position.last });
        let mut entry = Vec::new();
        encode_rewind(position.end, position.last, &mut entry);
        if !planted(Bug::RewindNotLogged) {
            log_record(&store.log, &Record::Undo { txn: owner, at, entry: &entry }, |_| {});
        }
        Ok(())
    }

    /// Rolls back every transaction that is still active, for closing. `make_room` moves the
    /// checkpoint. The next open reverts what cannot be reverted now. REQUIRES: none of them is in
    /// a call.
    pub(crate) fn abort_active(&self, make_room: &dyn Fn() -> Result) {
        let versions = self.reverter.versions;
        for stream in versions.streams.list() {
            let txn: TxnId = stream.owner();
            if versions.status.state(txn) != TxnState::Active {
                continue;
            }
            versions.status.set(txn, TxnState::Aborted);
            let (mut job, mut idle) = (Reverting::new(&stream), 0);
            loop {
                let before = job.next;
                match self.finish_abort(&mut job, UndoWait::NoWait, true) {
                    Ok(true) => break,
                    Ok(false) => idle = if job.next == before { idle + 1 } else { 0 },
                    Err(_) => idle = u32::MAX,
                }
                if idle > 1 || make_room().is_err() {
                    self.ended.revert_later(job);
                    break;
                }
            }
        }
    }
}
