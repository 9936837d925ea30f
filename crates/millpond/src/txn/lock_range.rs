//! Locking the rows of a range while they are read, newest first committed state by row; and keeping the range itself, so that
//! no row comes or goes in it.

use super::lock::{Conflict, conflict_of};
use super::marks::Marks;
use super::read::{Found, Value, after};
use super::scan::Next;
use super::system::{Rules, Txn, Txns, denied};
use crate::btree::Tree;
use crate::error::Result;
use crate::lock::{KeyRange, Mode, ScanStart, WriterWait};
use crate::page::node::{DELETED, Leaf, Row};
use crate::planted::{Bug, planted};
use crate::undo::Held;
use base::Lsn;

/// What a locking scan holds afterwards of what it has read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanLocks {
    /// A lock on every row that it returns. None: the range stands for a shared one.
    pub(crate) rows: Option<Mode>,
    /// The range itself, shared: what it has read, rows and gaps, stays as it is.
    pub(crate) range: bool,
}

impl ScanLocks {
    fn in_fact(self) -> ScanLocks {
        if self.range && planted(Bug::GapsFree) {
            return ScanLocks { rows: Some(self.rows.unwrap_or(Mode::Shared)), range: false };
        }
        self
    }
}

/// What a row turned out to be.
enum LockedRow<'t> {
    Row(Value),
    /// Deleted; by a transaction that has committed, unless it is the caller.
    Deleted {
        own: bool,
    },
    /// Somebody else's and to be skipped.
    Skipped,
    Blocked(Conflict<'t>),
}

/// Who locks by these rules sees all commits below this.
fn sees(rules: Rules) -> Lsn {
    rules.conflicts_after.unwrap_or(Lsn::MAX)
}

/// What follows when a piece of a leaf has been kept.
enum Then<'t> {
    Done(Next),
    /// The row of this key is in the way.
    WaitOut(Conflict<'t>, Vec<u8>),
}

impl Txns {
    /// Takes in a delete mark that a locking scan has seen to be committed. REQUIRES: the leaf is latched.
    fn note_locked_mark(&self, txn: &Txn, tree: Tree, leaf: Leaf<'_>, marks: &mut Marks, slot: u16) {
        // What the transaction was shown it waits for; the mark's commit is part of that.
        let newest = Some(txn.seen.get()).filter(|seen| *seen > Lsn::ZERO);
        self.note_mark(tree, leaf, marks, slot, newest, || self.store.log.reserved_lsn());
    }

    /// Waits until others have gone first. REQUIRES: no latch held.
    fn wait_at_gate(&self, txn: &Txn, gate: WriterWait<'_>, since: &mut ScanStart) -> Result {
        self.timed(txn, || gate.wait(since))
    }

    /// Lets those go first who were granted `key`, or have waited for it since before the scan began. REQUIRES: no latch held.
    fn let_take(&self, txn: &Txn, tree: Tree, key: &[u8], since: &mut ScanStart, rules: Rules) -> Result {
        let mut now = ScanStart::default();
        let end = after(key);
        let range = KeyRange::new(tree.id, key, Some(&end));
        let gate = self.locks.let_writers_pass(self.owner(txn), range, &mut now, rules.wait);
        if let Some(gate) = gate.map_err(denied)? {
            self.wait_at_gate(txn, gate, &mut now)?;
        }
        if now == ScanStart::NoYield {
            *since = now;
        }
        Ok(())
    }

    /// Locks one row of a scan as `hold` says. REQUIRES: the row's leaf is latched.
    fn lock_found(
        &self,
        txn: &Txn,
        tree: Tree,
        key: &[u8],
        row: Row<'_>,
        hold: ScanLocks,
        rules: Rules,
    ) -> Result<LockedRow<'_>> {
        let owner = self.owner(txn);
        let mode = hold.rows.unwrap_or(Mode::Shared);
        let mut conflict = self.check_conflict(txn, tree, key, row.version.txn, mode, rules)?;
        let gone = row.flags & DELETED != 0;
        if conflict.is_none() && !gone && row.version.txn != owner.txn() {
            let covered = hold.rows.is_none() && self.locks.readable(owner, tree.id, key);
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

    /// Locks rows from `from` on, in key order, and adds them to `out`: up to `max` of them, up to the end of a leaf, and
    /// below `to`. REQUIRES: no latch held.
    pub(crate) fn lock_forward(
        &self,
        txn: &Txn,
        tree: Tree,
        from: &[u8],
        to: Option<&[u8]>,
        max: usize,
        (hold, rules): (ScanLocks, Rules),
        since: &mut ScanStart,
        out: &mut Vec<Found>,
    ) -> Result<Next> {
        let (owner, hold) = (self.owner(txn), hold.in_fact());
        let (mut from, mut held) = (from.to_vec(), Held::default());
        loop {
            // Who keeps the range looks at all of it.
            if !hold.range
                && let Some((end, newest)) = self.cleared.behind(tree.id, &from, sees(rules))
            {
                txn.note_seen(newest);
                if to.is_some_and(|to| &end[..] >= to) {
                    return Ok(Next::End);
                }
                from = end;
            }
            let page = tree.leaf_read(&self.store, &from)?;
            let (leaf, mut marks) = (Leaf::new(&page), Marks::default());
            if hold.range && *since == ScanStart::NotStarted {
                // Where the range has no end, nobody knows how far it will be read: as far as this leaf goes.
                let sight = KeyRange::new(tree.id, &from, to.or(leaf.high_fence()));
                let gate = self.locks.let_writers_pass(owner, sight, since, rules.wait);
                if let Some(gate) = gate.map_err(denied)? {
                    drop(page);
                    self.wait_at_gate(txn, gate, since)?;
                    continue;
                }
            }
            let (Ok(first) | Err(first)) = leaf.search(&from);
            let mut piece = None;
            for slot in first..leaf.len() {
                let key = leaf.key(slot);
                if to.is_some_and(|to| key.cmp(to).is_ge()) {
                    piece = Some((to.map(<[u8]>::to_vec), Then::Done(Next::End)));
                    break;
                }
                let key = key.to_vec();
                match self.lock_found(txn, tree, &key, leaf.row(slot), hold, rules)? {
                    LockedRow::Skipped | LockedRow::Deleted { own: true } => {}
                    LockedRow::Deleted { own: false } => {
                        self.note_locked_mark(txn, tree, leaf, &mut marks, slot)
                    }
                    LockedRow::Row(value) => {
                        let next = after(&key);
                        out.push(Found { key, value });
                        if out.len() >= max {
                            piece = Some((Some(next.clone()), Then::Done(Next::At(next))));
                            break;
                        }
                    }
                    LockedRow::Blocked(conflict) => {
                        piece = Some((Some(key.clone()), Then::WaitOut(conflict, key)));
                        break;
                    }
                }
            }
            let (end, then) = piece.unwrap_or_else(|| match leaf.high_fence() {
                Some(high) if to.is_none_or(|to| high < to) => {
                    (Some(high.to_vec()), Then::Done(Next::At(high.to_vec())))
                }
                _ => (to.map(<[u8]>::to_vec), Then::Done(Next::End)),
            });
            let stopped = match hold.range {
                true => {
                    let read = KeyRange::new(tree.id, &from, end.as_deref());
                    self.locks.cover(owner, read, *since, false).map_err(denied)?
                }
                false => None,
            };
            self.note_marks(tree, leaf, &marks, || self.store.log.reserved_lsn());
            drop(page);
            if let Some(key) = stopped {
                drop(then);
                while out.last().is_some_and(|found| found.key >= key) {
                    out.pop();
                }
                self.let_take(txn, tree, &key, since, rules)?;
                from = key;
                continue;
            }
            match then {
                Then::Done(next) => return Ok(next),
                Then::WaitOut(conflict, key) => {
                    self.wait_out(txn, tree, &key, conflict, &mut held)?;
                    from = key;
                }
            }
        }
    }

    /// Locks rows below `to`, in falling key order, and adds them to `out`: up to `max` of them, down to the beginning of a
    /// leaf, and to `from`. `to` none: from the tree's end. REQUIRES: no latch held.
    pub(crate) fn lock_backward(
        &self,
        txn: &Txn,
        tree: Tree,
        from: &[u8],
        to: Option<&[u8]>,
        max: usize,
        (hold, rules): (ScanLocks, Rules),
        since: &mut ScanStart,
        out: &mut Vec<Found>,
    ) -> Result<Next> {
        let (owner, hold) = (self.owner(txn), hold.in_fact());
        let (mut to, mut held) = (to.map(<[u8]>::to_vec), Held::default());
        loop {
            if let Some(end) = to.as_deref().filter(|_| !hold.range)
                && let Some((start, newest)) = self.cleared.before(tree.id, end, sees(rules))
            {
                txn.note_seen(newest);
                if &start[..] <= from {
                    return Ok(Next::End);
                }
                to = Some(start);
            }
            let page = tree.leaf_read_below(&self.store, to.as_deref())?;
            let (leaf, mut marks) = (Leaf::new(&page), Marks::default());
            if hold.range && *since == ScanStart::NotStarted {
                let start = if from.is_empty() { leaf.low_fence() } else { from };
                let sight = KeyRange::new(tree.id, start, to.as_deref());
                let gate = self.locks.let_writers_pass(owner, sight, since, rules.wait);
                if let Some(gate) = gate.map_err(denied)? {
                    drop(page);
                    self.wait_at_gate(txn, gate, since)?;
                    continue;
                }
            }
            let below = match &to {
                None => leaf.len(),
                Some(to) => leaf.search(to).unwrap_or_else(|slot| slot),
            };
            let mut piece = None;
            for slot in (0..below).rev() {
                let key = leaf.key(slot);
                if key.cmp(from).is_lt() {
                    piece = Some((from.to_vec(), Then::Done(Next::End)));
                    break;
                }
                let key = key.to_vec();
                match self.lock_found(txn, tree, &key, leaf.row(slot), hold, rules)? {
                    LockedRow::Skipped | LockedRow::Deleted { own: true } => {}
                    LockedRow::Deleted { own: false } => {
                        self.note_locked_mark(txn, tree, leaf, &mut marks, slot)
                    }
                    LockedRow::Row(value) => {
                        out.push(Found { key: key.clone(), value });
                        if out.len() >= max {
                            piece = Some((key.clone(), Then::Done(Next::At(key))));
                            break;
                        }
                    }
                    LockedRow::Blocked(conflict) => {
                        piece = Some((after(&key), Then::WaitOut(conflict, key)));
                        break;
                    }
                }
            }
            let (start, then) = piece.unwrap_or_else(|| {
                let low = leaf.low_fence();
                if low.is_empty() || low <= from {
                    return (from.to_vec(), Then::Done(Next::End));
                }
                (low.to_vec(), Then::Done(Next::At(low.to_vec())))
            });
            let stopped = match hold.range {
                true => {
                    let read = KeyRange::new(tree.id, &start, to.as_deref());
                    self.locks.cover(owner, read, *since, true).map_err(denied)?
                }
                false => None,
            };
            self.note_marks(tree, leaf, &marks, || self.store.log.reserved_lsn());
            drop(page);
            if let Some(key) = stopped {
                drop(then);
                while out.last().is_some_and(|found| found.key <= key) {
                    out.pop();
                }
                self.let_take(txn, tree, &key, since, rules)?;
                to = Some(after(&key));
                continue;
            }
            match then {
                Then::Done(next) => return Ok(next),
                Then::WaitOut(conflict, key) => {
                    self.wait_out(txn, tree, &key, conflict, &mut held)?;
                    to = Some(start);
                }
            }
        }
    }
}
