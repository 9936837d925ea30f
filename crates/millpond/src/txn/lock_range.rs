//! Locking the rows of a range while they are read, newest first committed state by row; and keeping the range itself, so that
//! no row comes or goes in it.

use super::lock::{Obstacle, asked};
use super::read::{Found, Value, after};
use super::scan::Next;
use super::system::{Rules, Txn, Txns};
use crate::btree::Tree;
use crate::error::Result;
use crate::lock::Mode;
use crate::page::node::{DELETED, Leaf, Row};
use crate::planted::{Bug, planted};

/// What a locking scan holds afterwards of what it has read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    /// A lock on every row that it returns. None: the range stands for a shared one.
    pub(crate) rows: Option<Mode>,
    /// The range itself, shared: what it has read, rows and gaps, stays as it is.
    pub(crate) range: bool,
}

impl Hold {
    fn in_fact(self) -> Hold {
        if self.range && planted(Bug::GapsFree) {
            return Hold { rows: Some(self.rows.unwrap_or(Mode::Shared)), range: false };
        }
        self
    }
}

/// What a row turned out to be.
enum Turn<'t> {
    Row(Value),
    /// Deleted, or somebody else's and to be skipped.
    None,
    Blocked(Obstacle<'t>),
}

impl Txns {
    /// Locks one row of a scan as `hold` says. REQUIRES: the row's leaf is latched.
    fn lock_found(
        &self,
        txn: &Txn,
        tree: Tree,
        key: &[u8],
        row: Row<'_>,
        hold: Hold,
        rules: Rules,
    ) -> Result<Turn<'_>> {
        let owner = self.owner(txn);
        let mode = hold.rows.unwrap_or(Mode::Shared);
        let mut obstacle = self.obstacle(txn, tree, key, row.version.txn, mode, rules)?;
        let gone = row.flags & DELETED != 0;
        if obstacle.is_none() && !gone && row.version.txn != owner.txn() {
            let covered = hold.rows.is_none() && self.locks.readable(owner, tree.id, key);
            if !covered {
                obstacle = asked(self.locks.enqueue(owner, tree.id, key, mode, rules.wait))?;
            }
        }
        Ok(match obstacle {
            Some(Obstacle::Skip) => Turn::None,
            Some(obstacle) => Turn::Blocked(obstacle),
            None if gone => Turn::None,
            None => Turn::Row(Value::of(&self.store, row.flags, row.value)?),
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
        hold: Hold,
        rules: Rules,
        out: &mut Vec<Found>,
    ) -> Result<Next> {
        let (owner, hold) = (self.owner(txn), hold.in_fact());
        let mut from = from.to_vec();
        'again: loop {
            let page = tree.leaf_read(&self.store, &from)?;
            let leaf = Leaf::new(&page);
            let keep = |end: Option<&[u8]>| {
                if hold.range {
                    self.locks.cover(owner, tree.id, &from, end);
                }
            };
            let (Ok(first) | Err(first)) = leaf.search(&from);
            for slot in first..leaf.len() {
                let key = leaf.key(slot);
                if to.is_some_and(|to| key.cmp(to).is_ge()) {
                    keep(to);
                    return Ok(Next::End);
                }
                let key = key.to_vec();
                match self.lock_found(txn, tree, &key, leaf.row(slot), hold, rules)? {
                    Turn::None => {}
                    Turn::Row(value) => {
                        let next = after(&key);
                        out.push(Found { key, value });
                        if out.len() >= max {
                            keep(Some(&next));
                            return Ok(Next::At(next));
                        }
                    }
                    Turn::Blocked(obstacle) => {
                        keep(Some(&key));
                        drop(page);
                        self.get_over(txn, tree, &key, obstacle)?;
                        from = key;
                        continue 'again;
                    }
                }
            }
            return Ok(match leaf.high_fence() {
                Some(high) if to.is_none_or(|to| high < to) => {
                    keep(Some(high));
                    Next::At(high.to_vec())
                }
                _ => {
                    keep(to);
                    Next::End
                }
            });
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
        hold: Hold,
        rules: Rules,
        out: &mut Vec<Found>,
    ) -> Result<Next> {
        let (owner, hold) = (self.owner(txn), hold.in_fact());
        let mut to = to.map(<[u8]>::to_vec);
        'again: loop {
            let page = tree.leaf_read_below(&self.store, to.as_deref())?;
            let leaf = Leaf::new(&page);
            let keep = |start: &[u8]| {
                if hold.range {
                    self.locks.cover(owner, tree.id, start, to.as_deref());
                }
            };
            let below = match &to {
                None => leaf.len(),
                Some(to) => leaf.search(to).unwrap_or_else(|slot| slot),
            };
            for slot in (0..below).rev() {
                let key = leaf.key(slot);
                if key.cmp(from).is_lt() {
                    keep(from);
                    return Ok(Next::End);
                }
                let key = key.to_vec();
                match self.lock_found(txn, tree, &key, leaf.row(slot), hold, rules)? {
                    Turn::None => {}
                    Turn::Row(value) => {
                        out.push(Found { key: key.clone(), value });
                        if out.len() >= max {
                            keep(&key);
                            return Ok(Next::At(key));
                        }
                    }
                    Turn::Blocked(obstacle) => {
                        let next = after(&key);
                        keep(&next);
                        drop(page);
                        self.get_over(txn, tree, &key, obstacle)?;
                        to = Some(next);
                        continue 'again;
                    }
                }
            }
            let low = leaf.low_fence();
            if low.is_empty() || low <= from {
                keep(from);
                return Ok(Next::End);
            }
            keep(low);
            return Ok(Next::At(low.to_vec()));
        }
    }
}
