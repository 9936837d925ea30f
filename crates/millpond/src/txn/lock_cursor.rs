//! The position of a locking scan in its range, and the leaf where it goes on.

use super::locking_scan::LockingScan;
use super::read::{FoundRow, after};
use super::scan::ScanRange;
use super::transaction::Txn;
use crate::btree::{LeafReads, LeafTarget, Tree};
use crate::buffer::{FetchHint, PageRead, PageWrite};
use crate::error::Result;
use crate::lock::{KeyRange, Owner, RangeMode, RangeRow};
use crate::page::node::{Key, Leaf};
use crate::planted::{Bug, planted};
use crate::tree_store::Store;
use base::{Lsn, PageNo};
use pace::read_ahead::ReadAhead;
use std::borrow::Cow;
use std::ops::Range;

/// A locking scan, and the part of its range that it has not read yet.
pub(super) struct LockCursor<'k> {
    pub(super) txn: &'k Txn,
    pub(super) tree: Tree,
    pub(super) how: LockingScan,
    /// How it locks ranges; none if it locks row by row.
    pub(super) ranges: Option<RangeMode>,
    pub(super) from: Cow<'k, [u8]>,
    to: Option<Cow<'k, [u8]>>,
    /// Where the range may end that its next row joins: where it began, if it has passed no row
    /// since that it has not locked.
    joins: Option<Cow<'k, [u8]>>,
}

/// The latched leaf of a scan.
pub(super) enum LatchedLeaf<'s> {
    Shared(PageRead<'s>),
    Exclusive(PageWrite<'s>),
}

impl LatchedLeaf<'_> {
    fn page_no(&self) -> PageNo {
        match self {
            LatchedLeaf::Shared(page) => page.page_no(),
            LatchedLeaf::Exclusive(page) => page.page_no(),
        }
    }
}

impl std::ops::Deref for LatchedLeaf<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            LatchedLeaf::Shared(page) => page,
            LatchedLeaf::Exclusive(page) => page,
        }
    }
}

impl<'k> LockCursor<'k> {
    pub(super) fn new(txn: &'k Txn, owner: &Owner, range: ScanRange<'k>, how: LockingScan) -> LockCursor<'k> {
        let how = LockingScan { locks: how.locks.after_planting(), ..how };
        let (rows, gaps) = (how.locks.mode(), how.locks.range);
        let ranges = (gaps || (how.max == 1 && owner.has_many())).then_some(RangeMode { rows, gaps });
        let (from, to) = (Cow::Borrowed(range.from), range.to.map(Cow::Borrowed));
        let joins = if how.backward { to.clone() } else { Some(from.clone()) };
        LockCursor { txn, tree: range.tree, how, ranges, from, to, joins }
    }

    pub(super) fn to(&self) -> Option<&[u8]> {
        self.to.as_deref()
    }

    /// Returns the LSN below which the scan sees all commits.
    pub(super) fn sees(&self) -> Lsn {
        self.how.rules.conflicts_after.unwrap_or(Lsn::MAX)
    }

    /// Latches the leaf where the scan goes on. Where it locks ranges of rows that its caller wants
    /// locked it latches the leaf exclusively: no other transaction may ask for a lock of these
    /// rows before the range is added. The range of a plain read need not exclude another
    /// transaction's lock, only its change, which is made under the exclusive latch.
    pub(super) fn leaf<'s>(&self, store: &'s Store, ahead: &mut ReadAhead) -> Result<LatchedLeaf<'s>> {
        let exclusive =
            self.ranges.is_some() && self.how.locks.rows.is_some() && !planted(Bug::ScanLatchedShared);
        let (target, guess) = (self.target(), self.guess());
        if exclusive {
            let page = guess.and_then(|guess| self.tree.leaf_write_guess(store, guess, target));
            if let Some(page) = page {
                return Ok(LatchedLeaf::Exclusive(page));
            }
        } else if let Some(page) = guess.and_then(|guess| self.tree.leaf_read_guess(store, guess, target)) {
            return Ok(LatchedLeaf::Shared(page));
        }
        loop {
            let page = self.leaf_shared(store, ahead)?;
            if !exclusive {
                return Ok(LatchedLeaf::Shared(page));
            }
            if let Some(page) = self.tree.leaf_exclude(page, target) {
                return Ok(LatchedLeaf::Exclusive(page));
            }
        }
    }

    fn target(&self) -> LeafTarget<'_> {
        if self.how.backward { LeafTarget::Below(self.to()) } else { LeafTarget::At(&self.from) }
    }

    /// Returns the leaf where a scan of the transaction has stopped, if it was here.
    fn guess(&self) -> Option<PageNo> {
        let at = if self.how.backward { self.to()? } else { &self.from[..] };
        self.txn.leaf_cache.get(self.tree, at)
    }

    /// Remembers the latched leaf for a scan that goes on at the boundary `end`.
    pub(super) fn keep_guess(&self, page: &LatchedLeaf<'_>, end: Option<&[u8]>) {
        let leaf = Leaf::new(page);
        if let Some(end) = end
            && self.fence(leaf) != Some(end)
        {
            self.txn.leaf_cache.set(self.tree, end, page.page_no());
        }
    }

    fn leaf_shared<'s>(&self, store: &'s Store, ahead: &mut ReadAhead) -> Result<PageRead<'s>> {
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

    /// Returns the part of the range that lies in `leaf`.
    pub(super) fn within<'s>(&'s self, leaf: Leaf<'s>) -> KeyRange<'s> {
        let high = leaf.high_fence();
        let to = match (self.to(), high) {
            (Some(to), Some(high)) => Some(to.min(high)),
            (to, high) => to.or(high),
        };
        KeyRange::new(self.tree.id, leaf.low_fence().max(&self.from[..]), to)
    }

    /// Returns whether the rows that it locks join a range without gaps.
    pub(super) fn grows_rows(&self) -> bool {
        self.ranges.is_some_and(|mode| !mode.gaps)
    }

    /// Notes that the scan has passed a row without locking it.
    pub(super) fn leave_out(&mut self) {
        self.joins = None;
    }

    /// Returns `key` as a row that the scan's range joins.
    pub(super) fn range_row<'s>(&'s self, key: &'s [u8]) -> RangeRow<'s> {
        RangeRow { tree: self.tree.id, key, joins: self.joins.as_deref() }
    }

    /// Returns the part of the range that the scan will read, as far as `leaf` tells. Where the
    /// range has no end, it is not known how far the scan will read: to the end of this leaf.
    pub(super) fn in_sight<'s>(&'s self, leaf: Leaf<'s>) -> KeyRange<'s> {
        match self.how.backward {
            false => KeyRange::new(self.tree.id, &self.from, self.to().or(leaf.high_fence())),
            true => {
                let start = if self.from.is_empty() { leaf.low_fence() } else { &self.from[..] };
                KeyRange::new(self.tree.id, start, self.to())
            }
        }
    }

    /// Returns the slots of `leaf` that may lie in the rest of the range.
    pub(super) fn slots(&self, leaf: Leaf<'_>) -> Range<u16> {
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
    pub(super) fn is_beyond(&self, key: Key<'_>) -> bool {
        match self.how.backward {
            false => self.to().is_some_and(|to| key.cmp(to).is_ge()),
            true => key.cmp(&self.from).is_lt(),
        }
    }

    /// Returns the boundary between the keys before `key`, in the scan's direction, and `key`.
    pub(super) fn before(&self, key: &[u8]) -> Vec<u8> {
        if self.how.backward { after(key) } else { key.to_vec() }
    }

    /// Returns the boundary between `key` and the keys after it, in the scan's direction.
    pub(super) fn past(&self, key: &[u8]) -> Vec<u8> {
        if self.how.backward { key.to_vec() } else { after(key) }
    }

    /// Returns the end of the range in the scan's direction; none for the tree's end.
    pub(super) fn end(&self) -> Option<Vec<u8>> {
        if self.how.backward { Some(self.from.to_vec()) } else { self.to().map(<[u8]>::to_vec) }
    }

    /// Returns the fence where `leaf` ends in the scan's direction, if it lies before the end of
    /// the range.
    pub(super) fn fence<'l>(&self, leaf: Leaf<'l>) -> Option<&'l [u8]> {
        match self.how.backward {
            false => leaf.high_fence().filter(|high| self.to().is_none_or(|to| *high < to)),
            true => Some(leaf.low_fence()).filter(|low| !low.is_empty() && *low > &self.from[..]),
        }
    }

    /// Returns the keys between the scan's position and the boundary `end`.
    pub(super) fn up_to<'s>(&'s self, end: Option<&'s [u8]>) -> KeyRange<'s> {
        match self.how.backward {
            false => KeyRange::new(self.tree.id, &self.from, end),
            true => KeyRange::new(self.tree.id, end.unwrap_or_default(), self.to()),
        }
    }

    /// Goes on at a boundary between keys.
    pub(super) fn go_on_at(&mut self, boundary: Vec<u8>) {
        match self.how.backward {
            false => self.from = Cow::Owned(boundary),
            true => self.to = Some(Cow::Owned(boundary)),
        }
    }

    /// Removes from `out` the row of `key` and those after it, in the scan's direction.
    pub(super) fn take_back(&self, out: &mut Vec<FoundRow>, key: &[u8]) {
        let past = |found: &FoundRow| match self.how.backward {
            false => &found.key[..] >= key,
            true => &found.key[..] <= key,
        };
        while out.last().is_some_and(past) {
            out.pop();
        }
    }
}
