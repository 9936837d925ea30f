//! The state of one transaction.

use super::leaf_cache::LeafCache;
use super::own_snapshot::OwnSnapshot;
use super::versions::Versions;
use crate::error::{Error, Result};
use crate::lock::{CancelFlag, LockTable, Owner};
use crate::mvcc::writer::check_writer;
use crate::undo::{REWINDS_MAX, Stream, UndoPosition};
use base::{Lsn, TreeId, TxnId};
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

/// One transaction. It gets its id with its first lock or change, and its undo stream with its
/// first change.
#[derive(Debug, Default)]
pub(crate) struct Txn {
    owner: OnceCell<Arc<Owner>>,
    stream: OnceCell<Arc<Stream>>,
    /// The snapshot of its plain reads.
    pub(crate) snapshot: OwnSnapshot,
    /// The highest commit LSN of the rows that it was shown.
    pub(crate) seen: Cell<Lsn>,
    /// A row that was deleted after the snapshot, and of which the snapshot is known to see
    /// nothing: its tree, its key and who deleted it.
    pub(super) unseen: RefCell<Option<(TreeId, Vec<u8>, TxnId)>>,
    /// The leaf of its last row.
    pub(super) leaf_cache: LeafCache,
    /// Time spent waiting for locks, microseconds.
    pub(crate) lock_us: Cell<u64>,
    /// It has been rolled back because a partial rollback failed half way.
    pub(super) doomed: Cell<bool>,
    /// Lets another thread cancel its waits.
    pub(crate) cancel: Option<Arc<CancelFlag>>,
    /// What the program calls it, or 0.
    tag: u64,
    /// Its name for the observer of waits; 0: none.
    observed_as: u64,
}

impl Txn {
    /// A transaction that the program calls `tag`, and the observer of waits `observed_as`.
    pub(crate) fn named(tag: u64, observed_as: u64) -> Txn {
        Txn { tag, observed_as, ..Txn::default() }
    }

    /// Returns its id; `NONE` while it has neither locked nor changed anything.
    pub(crate) fn id(&self) -> TxnId {
        self.owner.get().map_or(TxnId::NONE, |owner| owner.txn())
    }

    /// Returns its undo, if it has changed anything.
    pub(crate) fn stream(&self) -> Option<&Arc<Stream>> {
        self.stream.get()
    }

    /// Returns the owner of its locks, if it has an id.
    pub(crate) fn owner(&self) -> Option<&Arc<Owner>> {
        self.owner.get()
    }

    /// Returns the flag by which another thread cancels its waits.
    #[inline]
    pub(crate) fn cancel_flag(&self) -> Option<&CancelFlag> {
        self.cancel.as_deref()
    }

    /// Returns whether it has been rolled back because a partial rollback failed half way.
    pub(crate) fn is_doomed(&self) -> bool {
        self.doomed.get()
    }

    /// Remembers that it was shown a row committed at `lsn`.
    pub(super) fn note_seen(&self, commit: Option<Lsn>) {
        if let Some(lsn) = commit
            && lsn > self.seen.get()
        {
            self.seen.set(lsn);
        }
    }

    /// Returns the owner of its locks; gives it its id if it has none.
    pub(crate) fn owner_or_begin(&self, versions: &Versions, locks: &LockTable) -> &Arc<Owner> {
        self.owner.get_or_init(|| {
            let id = versions.status.begin();
            versions.streams.prefetch(id);
            let owner = locks.begin_as(id, self.observed_as);
            owner.set_tag(self.tag);
            owner
        })
    }

    /// Returns its undo stream; begins it if it has none. `Limit` if too few ids are left for
    /// transactions that write.
    pub(super) fn stream_or_begin(&self, versions: &Versions, locks: &LockTable) -> Result<&Arc<Stream>> {
        if let Some(stream) = self.stream.get() {
            return Ok(stream);
        }
        let id = self.owner_or_begin(versions, locks).txn();
        check_writer(id)?;
        Ok(self.stream.get_or_init(|| versions.streams.begin(id)))
    }

    /// Returns the snapshot LSN of its plain reads. The first of them draws the snapshot.
    pub(crate) fn snapshot_lsn(&self, versions: &Versions) -> Lsn {
        self.snapshot.lsn_or_draw(|| versions.draw_snapshot())
    }

    /// Returns the snapshot LSN of its present view ([`super::overtaken`]).
    pub(crate) fn present_lsn(&self, versions: &Versions) -> Lsn {
        self.snapshot.present_lsn(|| versions.draw_snapshot())
    }

    /// Returns the point to which a rollback to a savepoint made now would go.
    pub(crate) fn undo_position(&self) -> UndoPosition {
        self.stream().map_or(UndoPosition { end: 0, last: None }, |stream| stream.position())
    }

    /// Returns whether `position` is a point of the transaction that has not been rolled back.
    pub(crate) fn reaches(&self, position: UndoPosition) -> bool {
        let start = position == UndoPosition { end: 0, last: None };
        start || self.stream().is_some_and(|stream| stream.reaches(position))
    }

    /// Fails if the transaction has been rolled back to savepoints so often that its undo could not
    /// tell any more which records were undone.
    pub(crate) fn can_rewind(&self, position: UndoPosition) -> Result {
        if self.stream().is_none_or(|stream| stream.end() <= position.end || stream.can_rewind(position)) {
            return Ok(());
        }
        let what = format!("the transaction has been rolled back to a savepoint {REWINDS_MAX} times");
        Err(Error::Limit { what })
    }
}
