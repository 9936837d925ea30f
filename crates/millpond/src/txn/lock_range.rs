//! Locking reads of a range: a scan that locks its rows while it reads their newest committed
//! state, and the next-key (range) locks of a serializable transaction, which keep rows from coming
//! and going in the range.

use super::lock::{Conflict, conflict_of};
use super::marks::Marks;
use super::read::{FoundRow, Value, after};
use super::scan::{Next, ScanRange};
use super::system::{Rules, Txn, Txns, denied};
use crate::btree::{LeafReads, Tree};
use crate::buffer::{FetchHint, PageRead};
use crate::error::{Error, Result};
use crate::lock::{KeyRange, Mode, ScanStart, Wait, WriterWait};
use crate::page::node::{DELETED, Key, Leaf, Row};
use crate::planted::{Bug, planted};
use crate::store::Store;
use crate::undo::HeldPiece;
use base::Lsn;
use pace::read_ahead::ReadAhead;
use std::borrow::Cow;
use std::ops::Range;

/// The locks that a locking scan leaves on what it has read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanLocks {
    /// A lock on every row that it returns. None: the range lock replaces shared row locks.
    pub(crate) rows: Option<Mode>,
    /// A shared lock on the range: rows and gaps that were read stay as they are.
    pub(crate) range: bool,
}

impl ScanLocks {
    /// Returns these locks, without the range if that mistake is planted.
    fn after_planting(self) -> ScanLocks {
        if self.range && planted(Bug::GapsFree) {
            return ScanLocks { rows: Some(self.rows.unwrap_or(Mode::Shared)), range: false };
        }
        self
    }
}

/// How a locking scan reads a range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockingScan {
    pub(crate) locks: ScanLocks,
    pub(crate) rules: Rules,
    /// In falling key order.
    pub(crate) backward: bool,
    /// The scan stops after this many rows. Where it locks only their range, it stops earlier at a
    /// row that is not free, if it has one to return: nobody has asked for the others yet.
    pub(crate) max: usize,
    /// It does not wait for a row that another transaction has (Lk7): it shows the row as it was
    /// last committed, unlocked. REQUIRES: the scan locks no range, and its rules skip such rows.
    pub(crate) peeks: bool,
}

/// The result of locking one row.
enum LockedRow<'t> {
    /// The row is locked, or covered by a range lock.
    Row(Value),
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
}

/// A locking scan, and the part of its range that it has not read yet.
struct LockCursor<'k> {
    txn: &'k Txn,
    tree: Tree,
    how: LockingScan,
    from: Cow<'k, [u8]>,
    to: Option<Cow<'k, [u8]>>,
}

impl<'k> LockCursor<'k> {
    fn new(txn: &'k Txn, range: ScanRange<'k>, how: LockingScan) -> LockCursor<'k> {
        let how = LockingScan { locks: how.locks.after_planting(), ..how };
        LockCursor {
            txn,
            tree: range.tree,
            how,
            from: Cow::Borrowed(range.from),
            to: range.to.map(Cow::Borrowed),
        }
    }

    fn to(&self) -> Option<&[u8]> {
        self.to.as_deref()
    }

    /// Returns the LSN below which the scan sees all commits.
    fn sees(&self) -> Lsn {
        self.how.rules.conflicts_after.unwrap_or(Lsn::MAX)
    }

    /// Latches the leaf where the scan goes on.
    fn leaf<'s>(&self, store: &'s Store, ahead: &mut ReadAhead) -> Result<PageRead<'s>> {
        let hint = FetchHint::Normal;
        match self.how.backward {
            false => {
                let mut reads = LeafReads::forward(hint, ahead, self.to());
                self.tree.leaf_read_in(store, None, &self.from, &mut reads)
            }
            true => {
                let mut reads = LeafReads::backward(hint, ahead, &self.from);
                self.tree.leaf_read_below(store, self.to(), &mut reads)
            }
        }
    }

    /// Returns the part of the range that the scan will read, as far as `leaf` tells. Where the
    /// range has no end, it is not known how far the scan will read: to the end of this leaf.
    fn in_sight<'s>(&'s self, leaf: Leaf<'s>) -> KeyRange<'s> {
        match self.how.backward {
            false => KeyRange::new(self.tree.id, &self.from, self.to().or(leaf.high_fence())),
            true => {
                let start = if self.from.is_empty() { leaf.low_fence() } else { &self.from[..] };
                KeyRange::new(self.tree.id, start, self.to())
            }
        }
    }

    /// Returns the slots of `leaf` that may lie in the rest of the range.
    fn slots(&self, leaf: Leaf<'_>) -> Range<u16> {
        match (self.how.backward, self.to()) {
            (false, _) => {
                let (Ok(first) | Err(first)) = leaf.search(&self.from);
                first..leaf.len()
            }
            (true, None) => 0..leaf.len(),
            (true, Some(to)) => 0..leaf.search(to).unwrap_or_else(|slot| slot),
        }
    }

    /// Returns whether `key` lies beyond the end of the range, in the scan's direction.
    fn is_beyond(&self, key: Key<'_>) -> bool {
        match self.how.backward {
            false => self.to().is_some_and(|to| key.cmp(to).is_ge()),
            true => key.cmp(&self.from).is_lt(),
        }
    }

    /// Returns the boundary between the keys before `key`, in the scan's direction, and `key`.
    fn before(&self, key: &[u8]) -> Vec<u8> {
        if self.how.backward { after(key) } else { key.to_vec() }
    }

    /// Returns the boundary between `key` and the keys behind it, in the scan's direction.
    fn behind(&self, key: &[u8]) -> Vec<u8> {
        if self.how.backward { key.to_vec() } else { after(key) }
    }

    /// Returns the end of the range in the scan's direction; none for the tree's end.
    fn end(&self) -> Option<Vec<u8>> {
        if self.how.backward { Some(self.from.to_vec()) } else { self.to().map(<[u8]>::to_vec) }
    }

    /// Returns the fence where `leaf` ends in the scan's direction, if it lies before the end of
    /// the range.
    fn fence<'l>(&self, leaf: Leaf<'l>) -> Option<&'l [u8]> {
        match self.how.backward {
            false => leaf.high_fence().filter(|high| self.to().is_none_or(|to| *high < to)),
            true => Some(leaf.low_fence()).filter(|low| !low.is_empty() && *low > &self.from[..]),
        }
    }

    /// Returns the keys between the scan's position and the boundary `end`.
    fn up_to<'s>(&'s self, end: Option<&'s [u8]>) -> KeyRange<'s> {
        match self.how.backward {
            false => KeyRange::new(self.tree.id, &self.from, end),
            true => KeyRange::new(self.tree.id, end.unwrap_or_default(), self.to()),
        }
    }

    /// Goes on at a boundary between keys.
    fn go_on_at(&mut self, boundary: Vec<u8>) {
        match self.how.backward {
            false => self.from = Cow::Owned(boundary),
            true => self.to = Some(Cow::Owned(boundary)),
        }
    }

    /// Removes from `out` the row of `key` and those behind it, in the scan's direction.
    fn take_back(&self, out: &mut Vec<FoundRow>, key: &[u8]) {
        let behind = |found: &FoundRow| match self.how.backward {
            false => &found.key[..] >= key,
            true => &found.key[..] <= key,
        };
        while out.last().is_some_and(behind) {
            out.pop();
        }
    }
}

impl Txns {
    /// Adds a delete mark that a locking scan has seen to be committed. REQUIRES: the leaf is
    /// latched.
    fn note_locked_mark(&self, cursor: &LockCursor<'_>, leaf: Leaf<'_>, marks: &mut Marks, slot: u16) {
        // The transaction waits until everything that it was shown is durable. The mark's commit is
        // part of that.
        let newest = Some(cursor.txn.seen.get()).filter(|seen| *seen > Lsn::ZERO);
        self.note_mark(cursor.tree, leaf, marks, slot, newest, || self.store.log.reserved_lsn());
    }

    /// Waits until the writers of the range have passed. REQUIRES: no latch held.
    fn wait_for_writers(&self, txn: &Txn, writers: WriterWait<'_>, since: &mut ScanStart) -> Result {
        self.timed(txn, || writers.wait(since, txn.cancel_flag()))
    }

    /// Lets the writers pass that were granted `key`, or have waited for it since before the scan
    /// began. REQUIRES: no latch held.
    fn let_writers_take(&self, cursor: &LockCursor<'_>, key: &[u8], since: &mut ScanStart) -> Result {
        let mut now = ScanStart::default();
        let end = after(key);
        let range = KeyRange::new(cursor.tree.id, key, Some(&end));
        let owner = self.owner(cursor.txn);
        let writers = self.locks.let_writers_pass(owner, range, &mut now, cursor.how.rules.wait);
        if let Some(writers) = writers.map_err(denied)? {
            self.wait_for_writers(cursor.txn, writers, &mut now)?;
        }
        if now == ScanStart::NoYield {
            *since = now;
        }
        Ok(())
    }

    /// Locks one row of a scan, by rules that may differ from the scan's in how they wait.
    /// REQUIRES: the row's leaf is latched.
    fn lock_found(
        &self,
        cursor: &LockCursor<'_>,
        rules: Rules,
        key: &[u8],
        row: Row<'_>,
    ) -> Result<LockedRow<'_>> {
        let LockCursor { txn, tree, how: LockingScan { locks, .. }, .. } = *cursor;
        let owner = self.owner(txn);
        let mode = locks.rows.unwrap_or(Mode::Shared);
        let mut conflict = self.check_found(txn, tree, key, row, mode, rules)?;
        let gone = row.flags & DELETED != 0;
        if conflict.is_none() && !gone && row.version.txn != owner.txn() {
            let covered = locks.rows.is_none() && self.locks.readable(owner, tree.id, key);
            if !covered {
                conflict = conflict_of(self.locks.enqueue(owner, tree.id, key, mode, rules.wait))?;
            }
        }
        Ok(match conflict {
            Some(Conflict::Skip) => LockedRow::Skipped,
            Some(conflict) => LockedRow::Blocked(conflict),
            None if gone => LockedRow::Deleted { own: row.version.txn == owner.txn() },
            None => LockedRow::Row(Value::of(&self.store, row.flags, row.value)?),
        })
    }

    /// Moves the cursor past a cleared range. Returns whether nothing is left to read.
    fn skip_cleared(&self, cursor: &mut LockCursor<'_>) -> bool {
        let (tree, sees) = (cursor.tree.id, cursor.sees());
        let cleared = match (cursor.how.backward, cursor.to()) {
            (false, _) => self.cleared.behind(tree, &cursor.from, sees),
            (true, Some(to)) => self.cleared.before(tree, to, sees),
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
        cursor: &LockCursor<'_>,
        leaf: Leaf<'_>,
        marks: &mut Marks,
        out: &mut Vec<FoundRow>,
    ) -> Result<(Option<Vec<u8>>, Then<'_>)> {
        let LockingScan { backward, max, locks, rules, .. } = cursor.how;
        let mut slots = cursor.slots(leaf);
        while let Some(slot) = if backward { slots.next_back() } else { slots.next() } {
            let key = leaf.key(slot);
            if cursor.is_beyond(key) {
                return Ok((cursor.end(), Then::Done(Next::End)));
            }
            let key = key.to_vec();
            let ahead = locks.rows.is_none() && !out.is_empty();
            let rules = if ahead { Rules { wait: Wait::NoWait, ..rules } } else { rules };
            let locked = match self.lock_found(cursor, rules, &key, leaf.row(slot)) {
                Err(Error::LockTimeout) if ahead => {
                    let end = cursor.before(&key);
                    return Ok((Some(end.clone()), Then::Done(Next::At(end))));
                }
                locked => locked?,
            };
            match locked {
                LockedRow::Skipped if cursor.how.peeks => {
                    return Ok((Some(cursor.behind(&key)), Then::Peek(key)));
                }
                LockedRow::Skipped | LockedRow::Deleted { own: true } => {}
                LockedRow::Deleted { own: false } => self.note_locked_mark(cursor, leaf, marks, slot),
                LockedRow::Row(value) => {
                    let end = cursor.behind(&key);
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
        let owner = self.owner(txn);
        let (mut cursor, mut held) = (LockCursor::new(txn, range, how), HeldPiece::default());
        let locks_range = cursor.how.locks.range;
        loop {
            // A scan that locks the range reads all of it.
            if !locks_range && self.skip_cleared(&mut cursor) {
                return Ok(Next::End);
            }
            let page = cursor.leaf(&self.store, ahead)?;
            let (leaf, mut marks) = (Leaf::new(&page), Marks::default());
            if locks_range && *since == ScanStart::NotStarted {
                let writers =
                    self.locks.let_writers_pass(owner, cursor.in_sight(leaf), since, how.rules.wait);
                if let Some(writers) = writers.map_err(denied)? {
                    drop(page);
                    self.wait_for_writers(txn, writers, since)?;
                    continue;
                }
            }
            let (end, then) = self.lock_leaf(&cursor, leaf, &mut marks, out)?;
            let stopped = match locks_range {
                true => {
                    let read = cursor.up_to(end.as_deref());
                    self.locks.cover(owner, read, *since, how.backward).map_err(denied)?
                }
                false => None,
            };
            self.note_marks(cursor.tree, leaf, &marks, || self.store.log.reserved_lsn());
            drop(page);
            if let Some(key) = stopped {
                drop(then);
                cursor.take_back(out, &key);
                self.let_writers_take(&cursor, &key, since)?;
                cursor.go_on_at(cursor.before(&key));
                continue;
            }
            match then {
                Then::Done(next) => return Ok(next),
                Then::WaitOut(conflict, key) => {
                    self.wait_out(txn, cursor.tree, &key, conflict, &mut held)?;
                    cursor.go_on_at(cursor.before(&key));
                }
                Then::Peek(key) => {
                    let behind = cursor.behind(&key);
                    if let Some(value) = self.last_committed(txn, cursor.tree, &key)? {
                        out.push(FoundRow { key, value: Value::Inline(value), peeked: true });
                        return Ok(Next::At(behind));
                    }
                    cursor.go_on_at(behind);
                }
            }
        }
    }

    /// Returns the value of a row as it was last committed, or as the transaction has changed it.
    /// REQUIRES: no latch held.
    fn last_committed(&self, txn: &Txn, tree: Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let snapshot = self.draw_snapshot();
        let read = self.read_row(txn, self.view(snapshot.lsn(), txn.id()), tree, key);
        let load = |value: Value| value.load(&self.store, FetchHint::Normal);
        let value = read.and_then(|value| value.map(load).transpose());
        self.check_not_expired(snapshot.lsn(), value)
    }
}
