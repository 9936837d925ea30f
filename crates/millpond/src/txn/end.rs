//! How transactions end: commit and rollback. `prepare.rs` has two-phase commit.

use super::admission::UndoWait;
use super::decided::OnRecord;
use super::log_record::{log_in, log_record};
use super::revert::RevertOptions;
use super::reverts::Reverting;
use super::system::{Rules, Txn, Txns};
use crate::error::{Error, Result};
use crate::lock::Owner;
use crate::log::Room;
use crate::log::group::{self, Record};
use crate::mvcc::TxnState;
use crate::mvcc::purge::EndedTxn;
use crate::planted::{Bug, planted};
use crate::undo::{REWINDS_MAX, Stream, UndoEntry, UndoPosition, encode_rewind};
use base::sync::atomic::Ordering;
use base::{Lsn, TxnId};
use std::sync::Arc;

/// A rollback that costs more undo than this goes to the background, bytes.
const INLINE_ROLLBACK_BYTES: u64 = 64 << 10;

impl Txns {
    /// Commits a transaction that has changed something. From here on it is committed for every
    /// other transaction, and its locks are free. It survives a crash once the log is durable
    /// beyond the returned LSN; one that a coordinator has `on_record` survives in any case. A
    /// `mark` becomes the database's bookmark by the same group of the log. There is `room` for it,
    /// so no reader waits for more than a few steps while the transaction is committing.
    pub(super) fn decide(
        &self,
        owner: &Owner,
        stream: &Arc<Stream>,
        on_record: OnRecord,
        mark: Option<&[u8]>,
        room: Room<'_>,
    ) -> Lsn {
        let txn = owner.txn();
        self.status.set(txn, TxnState::Committing);
        let put = |bytes: &mut Vec<u8>| {
            group::put_record(bytes, &Record::Commit { txn });
            if let Some(mark) = mark {
                group::put_record(bytes, &Record::Bookmark { mark });
            }
        };
        let lsn = log_in(&self.store.log, room, put, |lsn| {
            // Before the first reader sees the commit.
            self.decided.note(on_record, lsn);
            if let Some(mark) = mark {
                self.bookmark.note(lsn, mark);
            }
            self.status.set(txn, TxnState::Committed(lsn));
        });
        self.store.log.count_commit();
        let due = Lsn(self.known_due.load(Ordering::Acquire));
        let ended = EndedTxn { txn, stream: Arc::clone(stream), committed: true };
        let forgotten = self.purge_queue.exchange(lsn, ended, due);
        self.locks.release_all(owner);
        self.forget(forgotten);
        lsn
    }

    /// Ends a transaction that has changed nothing.
    fn end_unchanged(&self, owner: &Owner) {
        self.status.set(owner.txn(), TxnState::Aborted);
        self.locks.release_all(owner);
        self.status.set(owner.txn(), TxnState::Settled);
    }

    /// Commits, with a bookmark if there is a `mark`. Returns the LSN of the commit record or of
    /// the bookmark, which is not durable yet; none if there was nothing to make durable. REQUIRES:
    /// no latch held.
    pub(crate) fn commit(&self, txn: &Txn, mark: Option<&[u8]>) -> Result<Option<Lsn>> {
        let alone = || mark.map(|mark| self.bookmark.log(&self.store.log, mark)).transpose();
        let Some(owner) = txn.owner() else { return alone() };
        match txn.stream() {
            Some(stream) if !stream.is_empty() => {
                let room = Room::Lent(self.store.log.credit()?);
                Ok(Some(self.decide(owner, stream, OnRecord::Nowhere, mark, room)))
            }
            stream => {
                if stream.is_some() {
                    self.streams.remove(owner.txn());
                }
                self.end_unchanged(owner);
                alone()
            }
        }
    }

    /// Rolls back. Its versions are aborted at once and its locks are free. A short undo is
    /// reverted here, a long one in the background. REQUIRES: no latch held.
    pub(crate) fn rollback(&self, txn: &Txn) {
        let Some(owner) = txn.owner() else { return };
        if txn.is_doomed() {
            return;
        }
        self.status.set(owner.txn(), TxnState::Aborted);
        self.end_aborted(owner, txn.stream());
    }

    /// Does what is left when a transaction has become aborted.
    pub(super) fn end_aborted(&self, owner: &Owner, stream: Option<&Arc<Stream>>) {
        self.locks.release_all(owner);
        let Some(stream) = stream.filter(|stream| !stream.is_empty()) else {
            self.streams.remove(owner.txn());
            return self.status.set(owner.txn(), TxnState::Settled);
        };
        // The revert can fail here: a page cannot be read, the log has no room, or the database is
        // poisoned. Then the background or the next open does it.
        let mut job = Reverting::new(stream);
        let short = stream.cost() <= INLINE_ROLLBACK_BYTES;
        if !short || !matches!(self.finish_abort(&mut job, UndoWait::NoWait, false), Ok(true)) {
            self.revert_later(job);
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
            mark: UndoPosition { end: 0, last: None },
            keeps_locks: None,
            wait,
            skip_unreadable,
        };
        let Reverting { stream, next } = job;
        if !self.revert_stream(stream, next, &options, |_| true)? {
            return Ok(false);
        }
        let txn = stream.owner();
        self.store.log.make_room()?;
        if !stream.covers_marks() {
            // No row shows a version of it, and no delete mark has come back: its state is never
            // asked for again.
            log_record(&self.store.log, &Record::Reverted { txn }, |_| {});
            self.status.set(txn, TxnState::Settled);
            self.streams.remove(txn);
            return Ok(true);
        }
        let lsn = log_record(&self.store.log, &Record::Abort { txn }, |_| {});
        self.purge_queue.push(lsn, EndedTxn { txn, stream: Arc::clone(stream), committed: false });
        Ok(true)
    }

    /// Returns the point to which a rollback to a savepoint made now would go.
    pub(crate) fn undo_position(&self, txn: &Txn) -> UndoPosition {
        txn.stream().map_or(UndoPosition { end: 0, last: None }, |stream| stream.position())
    }

    /// Returns whether `mark` is a point of the transaction that has not been rolled back.
    pub(crate) fn reaches(&self, txn: &Txn, mark: UndoPosition) -> bool {
        let start = mark == UndoPosition { end: 0, last: None };
        start || txn.stream().is_some_and(|stream| stream.reaches(mark))
    }

    /// Fails if the transaction has been rolled back to savepoints so often that its undo could not
    /// tell any more which records were undone.
    pub(crate) fn can_rewind(&self, txn: &Txn, mark: UndoPosition) -> Result {
        if txn.stream().is_none_or(|stream| stream.end() <= mark.end || stream.can_rewind(mark)) {
            return Ok(());
        }
        let what = format!("the transaction has been rolled back to a savepoint {REWINDS_MAX} times");
        Err(Error::Limit { what })
    }

    /// Undoes what the transaction did since `mark`. Locks that it asked for stay. Locks that its
    /// versions were stay if it is serializable. If the rollback fails, the transaction is doomed:
    /// it has been rolled back as a whole. Half undone it must not go on, because at its end
    /// nothing would tell which half was undone.
    pub(crate) fn rollback_to(&self, txn: &Txn, mark: UndoPosition, rules: Rules) -> Result {
        let undone = self.undo_to(txn, mark, rules);
        if undone.is_err() && !planted(Bug::HalfUndoneGoesOn) {
            self.rollback(txn);
            txn.doomed.set(true);
        }
        undone
    }

    fn undo_to(&self, txn: &Txn, mark: UndoPosition, rules: Rules) -> Result {
        let Some(stream) = txn.stream().filter(|stream| stream.end() > mark.end) else { return Ok(()) };
        self.can_rewind(txn, mark)?;
        let owner = stream.owner();
        let keeps_locks = rules.serializable.then(|| self.owner(txn));
        let is_undone =
            |version: crate::page::node::Version| version.txn == owner && version.undo_at >= mark.end;
        let options = RevertOptions { mark, keeps_locks, wait: UndoWait::AsCaller, skip_unreadable: false };
        let whole = self.revert_stream(stream, &mut stream.position().last, &options, is_undone)?;
        base::check!(whole, "a call waits for room");
        self.store.log.make_room()?;
        let at = stream.append(UndoEntry::Rewind { end: mark.end, last: mark.last });
        let mut entry = Vec::new();
        encode_rewind(mark.end, mark.last, &mut entry);
        if !planted(Bug::RewindNotLogged) {
            log_record(&self.store.log, &Record::Undo { txn: owner, at, entry: &entry }, |_| {});
        }
        Ok(())
    }

    /// Rolls back every transaction that is still active, for closing. `make_room` moves the
    /// checkpoint. The next open reverts what cannot be reverted now. REQUIRES: none of them is in
    /// a call.
    pub(crate) fn abort_active(&self, make_room: &dyn Fn() -> Result) {
        for stream in self.streams.list() {
            let txn: TxnId = stream.owner();
            if self.status.state(txn) != TxnState::Active {
                continue;
            }
            self.status.set(txn, TxnState::Aborted);
            let (mut job, mut idle) = (Reverting::new(&stream), 0);
            loop {
                let before = job.next;
                match self.finish_abort(&mut job, UndoWait::NoWait, true) {
                    Ok(true) => break,
                    Ok(false) => idle = if job.next == before { idle + 1 } else { 0 },
                    Err(_) => idle = u32::MAX,
                }
                if idle > 1 || make_room().is_err() {
                    self.revert_later(job);
                    break;
                }
            }
        }
    }
}
