//! Locking reads of a range: a scan that locks its rows while it reads their newest committed
//! state, and the next-key (range) locks of a serializable transaction, which keep rows from coming
//! and going in the range.

use super::delete_marks::DeleteMarks;
use super::lock::{Conflict, RowLocks, conflict_of};
use super::lock_cursor::LockCursor;
use super::lock_wait::denied;
use super::locking_scan::LockingScan;
use super::read::{FoundRow, Value, after};
use super::rules::Rules;
use super::scan::{Next, ScanRange};
use super::transaction::Txn;
use crate::btree::Tree;
use crate::buffer::FetchHint;
use crate::error::{Error, Result};
use crate::lock::{CancelFlag, KeyRange, KeyState, ScanStart, Wait, WriterWait};
use crate::page::node::{DELETED, Leaf, Row};
use crate::undo::HeldPiece;
use base::Lsn;
use pace::read_ahead::ReadAhead;

/// The result of locking one row.
enum LockedRow<'t> {
    /// The row is locked, or the scan's range has to cover it: `by_range`.
    Row {
        value: Value,
        by_range: bool,
    },
    /// The row is deleted, by a transaction that has committed or by the caller.
    Deleted {
        own: bool,
    },
    /// Another transaction has the row, and the caller skips such rows.
    Skipped,
    Blocked(Conflict<'t>),
}

/// What follows when a part of a leaf has been read.
enum Then<'t> {
    Done(Next),
    /// The row of this key has a conflict, which is waited out.
    WaitOut(Conflict<'t>, Vec<u8>),
    /// Another transaction has the row of this key. It is shown as it was last committed.
    Peek(Vec<u8>),
    /// A request for this key has waited since before the scan began: it goes first.
    Yield(Vec<u8>),
}

impl RowLocks<'_> {
    /// Waits until the writers of the range have passed. REQUIRES: no latch held.
    fn wait_for_writers(&self, txn: &Txn, writers: WriterWait<'_>, since: &mut ScanStart) -> Result {
        self.waits.timed(txn, || writers.wait(since, txn.cancel_flag()))
    }

    /// Returns the wait of a scan that begins to lock ranges for the writers that go first.
    /// REQUIRES: the leaf is latched.
    fn writers_before(
        &self,
        cursor: &LockCursor<'_>,
        leaf: Leaf<'_>,
        since: &mut ScanStart,
    ) -> Result<Option<WriterWait<'_>>> {
        let Some(mode) = cursor.ranges.filter(|_| *since == ScanStart::NotStarted) else { return Ok(None) };
        let (owner, wait) = (self.owner(cursor.txn), cursor.how.rules.wait);
        self.locks.let_writers_pass(owner, cursor.in_sight(leaf), mode, since, wait).map_err(denied)
    }

    /// Lets the writers pass that were granted `key`, or have waited for it since before the scan
    /// began. REQUIRES: no latch held.
    fn let_writers_take(&self, cursor: &LockCursor<'_>, key: &[u8], since: &mut ScanStart) -> Result {
        let mut now = ScanStart::default();
        let end = after(key);
        let range = KeyRange::new(cursor.tree.id, key, Some(&end));
        let Some(mode) = cursor.ranges else { return Ok(()) };
        let owner = self.owner(cursor.txn);
        let writers = self.locks.let_writers_pass(owner, range, mode, &mut now, cursor.how.rules.wait);
        if let Some(writers) = writers.map_err(denied)? {
            self.wait_for_writers(cursor.txn, writers, &mut now)?;
        }
        if now == ScanStart::NoYield {
            *since = now;
        }
        Ok(())
    }

    /// Locks one row of a scan, by rules that may differ from the scan's in how they wait. A row
    /// that the scan's range may cover is left to that range. `contested` is what
    /// [`LockTable::is_contested`](crate::lock::LockTable::is_contested) has said of the leaf.
    /// REQUIRES: the row's leaf is latched.
    fn lock_found(
        &self,
        cursor: &LockCursor<'_>,
        (rules, contested): (Rules, bool),
        key: &[u8],
        row: Row<'_>,
    ) -> Result<LockedRow<'_>> {
        let LockCursor { txn, tree, how: LockingScan { locks, .. }, .. } = *cursor;
        let owner = self.owner(txn);
        let mode = locks.mode();
        let mut by_range = false;
        let mut conflict = self.check_found(txn, tree, key, row, mode, rules)?;
        let gone = row.flags & DELETED != 0;
        if conflict.is_none() && !gone && row.version.txn != owner.txn() {
            by_range =
                cursor.ranges.is_some() && self.locks.row_is_free(owner, tree.id, key, mode, contested);
            if !by_range {
                let asked = self.locks.enqueue(owner, tree.id, key, KeyState::Row, mode, rules.wait);
                conflict = conflict_of(asked)?;
            }
        }
        Ok(match conflict {
            Some(Conflict::Skip) => LockedRow::Skipped,
            Some(conflict) => LockedRow::Blocked(conflict),
            None if gone => LockedRow::Deleted { own: row.version.txn == owner.txn() },
            None => LockedRow::Row { value: Value::of(self.store, row.flags, row.value)?, by_range },
        })
    }

    /// Moves the cursor past a cleared range. Returns whether nothing is left to read.
    fn skip_cleared(&self, cursor: &mut LockCursor<'_>) -> bool {
        let (tree, sees) = (cursor.tree.id, cursor.sees());
        let cleared = match (cursor.how.backward, cursor.to()) {
            (false, _) => self.versions.cleared.skip_to(tree, &cursor.from, sees),
            (true, Some(to)) => self.versions.cleared.before(tree, to, sees),
            (true, None) => None,
        };
        let Some((boundary, newest)) = cleared else { return false };
        cursor.txn.note_seen(newest);
        cursor.go_on_at(boundary);
        cursor.to().is_some_and(|to| to <= &cursor.from[..])
    }

    /// Locks the rows of one leaf and adds them to `out`, until there are enough of them or a row
    /// has a conflict. Also returns the boundary that it has come to. REQUIRES: the leaf is
    /// latched.
    fn lock_leaf(
        &self,
        cursor: &mut LockCursor<'_>,
        leaf: Leaf<'_>,
        since: ScanStart,
        marks: &mut DeleteMarks<'_>,
        out: &mut Vec<FoundRow>,
    ) -> Result<(Option<Vec<u8>>, Then<'_>)> {
        let LockingScan { backward, max, locks, rules, .. } = cursor.how;
        let owner = self.owner(cursor.txn);
        let contested =
            cursor.ranges.is_some() && self.locks.is_contested(owner, cursor.within(leaf), locks.mode());
        let mut slots = cursor.slots(leaf);
        while let Some(slot) = if backward { slots.next_back() } else { slots.next() } {
            let key = leaf.key(slot);
            if cursor.is_beyond(key) {
                return Ok((cursor.end(), Then::Done(Next::End)));
            }
            let key = key.to_vec();
            let unasked = locks.range && !out.is_empty();
            let rules = if unasked { Rules { wait: Wait::NoWait, ..rules } } else { rules };
            let locked = match self.lock_found(cursor, (rules, contested), &key, leaf.row(slot)) {
                Err(Error::LockTimeout) if unasked => {
                    let end = cursor.before(&key);
                    return Ok((Some(end.clone()), Then::Done(Next::At(end))));
                }
                locked => locked?,
            };
            match locked {
                LockedRow::Skipped if cursor.how.peeks => {
                    return Ok((Some(cursor.past(&key)), Then::Peek(key)));
                }
                LockedRow::Skipped => cursor.leave_out(),
                LockedRow::Deleted { own: true } => {}
                LockedRow::Deleted { own: false } => {
                    // The transaction waits until everything that it was shown is durable. The
                    // mark's commit is part of that.
                    let newest = Some(cursor.txn.seen.get()).filter(|seen| *seen > Lsn::ZERO);
                    marks.add(leaf, slot, newest, || self.store.log.reserved_lsn());
                }
                LockedRow::Row { value, by_range } => {
                    if by_range && !locks.range {
                        let row = cursor.range_row(&key);
                        let covered = self.locks.cover_row(owner, row, locks.mode(), since);
                        if !covered.map_err(denied)? {
                            return Ok((Some(cursor.before(&key)), Then::Yield(key)));
                        }
                    }
                    let end = cursor.past(&key);
                    out.push(FoundRow { key, value, peeked: false });
                    if out.len() >= max {
                        return Ok((Some(end.clone()), Then::Done(Next::At(end))));
                    }
                }
                LockedRow::Blocked(conflict) => {
                    return Ok((Some(cursor.before(&key)), Then::WaitOut(conflict, key)));
                }
            }
        }
        Ok(match cursor.fence(leaf) {
            Some(fence) => (Some(fence.to_vec()), Then::Done(Next::At(fence.to_vec()))),
            None => (cursor.end(), Then::Done(Next::End)),
        })
    }

    /// Locks the rows of a range in the scan's direction and adds them to `out`, up to the end of a
    /// leaf or until `out` has as many as the scan asks for. Returns where the scan goes on.
    /// REQUIRES: no latch held.
    pub(crate) fn lock_range(
        &self,
        txn: &Txn,
        range: ScanRange<'_>,
        how: LockingScan,
        since: &mut ScanStart,
        ahead: &mut ReadAhead,
        out: &mut Vec<FoundRow>,
    ) -> Result<Next> {
        let (owner, mut held) = (self.owner(txn), HeldPiece::default());
        let mut cursor = LockCursor::new(txn, owner, range, how);
        let locks_range = cursor.how.locks.range;
        let cancelled = || txn.cancel_flag().is_some_and(CancelFlag::is_set);
        loop {
            // A scan that locks the range reads all of it.
            if !locks_range && self.skip_cleared(&mut cursor) {
                return Ok(Next::End);
            }
            let page = cursor.leaf(self.store, ahead)?;
            let leaf = Leaf::new(&page);
            let mut marks = DeleteMarks::of(self.store, self.versions, cursor.tree);
            if let Some(writers) = self.writers_before(&cursor, leaf, since)? {
                drop(page);
                self.wait_for_writers(txn, writers, since)?;
                continue;
            }
            let (end, then) = self.lock_leaf(&mut cursor, leaf, *since, &mut marks, out)?;
            let stopped = match cursor.ranges.filter(|mode| mode.gaps) {
                Some(mode) => {
                    let read = cursor.up_to(end.as_deref());
                    self.locks.cover(owner, read, mode, *since, how.backward).map_err(denied)?
                }
                None => None,
            };
            marks.note(leaf, || self.store.log.reserved_lsn());
            cursor.keep_guess(&page, end.as_deref());
            drop(page);
            if let Some(key) = stopped {
                drop(then);
                cursor.take_back(out, &key);
                self.let_writers_take(&cursor, &key, since)?;
                cursor.go_on_at(cursor.before(&key));
                continue;
            }
            match then {
                // The range goes on in the next leaf. A scan that is cancelled ends here.
                Then::Done(Next::At(fence)) if cursor.grows_rows() && out.is_empty() && !cancelled() => {
                    cursor.go_on_at(fence);
                }
                Then::Done(next) => return Ok(next),
                Then::WaitOut(conflict, key) => {
                    self.wait_out(txn, cursor.tree, &key, conflict, &mut held)?;
                    cursor.go_on_at(cursor.before(&key));
                }
                Then::Yield(key) => {
                    self.let_writers_take(&cursor, &key, since)?;
                    cursor.go_on_at(cursor.before(&key));
                }
                Then::Peek(key) => {
                    cursor.leave_out();
                    let past = cursor.past(&key);
                    if let Some(value) = self.last_committed(txn, cursor.tree, &key)? {
                        out.push(FoundRow { key, value: Value::Inline(value), peeked: true });
                        return Ok(Next::At(past));
                    }
                    cursor.go_on_at(past);
                }
            }
        }
    }

    /// Returns the value of a row as it was last committed, or as the transaction has changed it.
    /// REQUIRES: no latch held.
    fn last_committed(&self, txn: &Txn, tree: Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let snapshot = self.versions.draw_snapshot();
        let view = self.versions.view(snapshot.lsn(), txn.id());
        let read = self.reader(txn, view).read_row(tree, key);
        let load = |value: Value| value.load(self.store, FetchHint::Normal);
        let value = read.and_then(|value| value.map(load).transpose());
        self.versions.check_not_expired(snapshot.lsn(), value)
    }
}
