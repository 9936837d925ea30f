//! Consistent scans of a tree by a snapshot, leaf by leaf.
//!
//! The requested part of a leaf is copied in one piece under the latch, judged there, and shown
//! from the copy. So a caller may do anything with a row, and nothing is allocated for a row.
//!
//! [`Progress`] tells a long scan from others. A long scan reads its leaves into a few frames that
//! it uses again (Bp6), so that the pages that others use stay in the pool.

use super::delete_marks::DeleteMarks;
use super::read::{Reader, Value, after, chain_of};
use crate::btree::{LeafReads, Tree};
use crate::buffer::{FetchHint, PageRead, Pool};
use crate::error::Result;
use crate::mvcc::SeenVersion;
use crate::page::node::{DELETED, Key, Leaf, OVERFLOW, RowAt};
use crate::page::overflow::ChainRef;
use crate::tree_store::Store;
use crate::undo::HeldPiece;
use base::PageNo;
use pace::constants::{SCAN_LONG_PAGES_MIN, SCAN_LONG_POOL_PART};
use pace::read_ahead::ReadAhead;
use std::ops::Range;

/// The keys that a scan reads: those of `tree` from `from` on and below `to`. Without `to`, to the
/// end of the tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanRange<'k> {
    pub(crate) tree: Tree,
    pub(crate) from: &'k [u8],
    pub(crate) to: Option<&'k [u8]>,
}

/// Rows of one leaf that a scan found, in the order of the scan.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// The prefix of all keys, the copied part of the leaf, and values that the leaf no longer has.
    bytes: Vec<u8>,
    prefix_len: usize,
    /// Where the copied part begins in the leaf.
    part: usize,
    offsets: Vec<RowOffsets>,
}

/// Where a row is in [`Rows`].
#[derive(Clone, Copy, Debug)]
struct RowOffsets {
    suffix: u32,
    value: u32,
    value_len: u32,
    suffix_len: u16,
    flags: u8,
}

/// A row's value as its leaf had it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shown<'r> {
    /// The whole value.
    Inline(&'r [u8]),
    /// In a chain of overflow pages.
    Chain(ChainRef),
}

/// Where a scan goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// At this key: the first one (forward) or the end (backward, exclusive) of what is left.
    At(Vec<u8>),
    /// Nowhere: nothing is left.
    End,
}

/// How far a scan has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The number of leaves and of pages of long values that it has read.
    pages: usize,
    /// The leaf where it probably goes on, forward.
    right: Option<PageNo>,
    /// How far it reads ahead.
    pub(crate) ahead: ReadAhead,
    /// At most so many entries of a leaf are read at once.
    pub(crate) most: Option<u16>,
    /// The undo that it fetched last. The undo of neighbours is often in one piece.
    held: HeldPiece,
}

impl Shown<'_> {
    pub(crate) fn to_owned(self) -> Value {
        match self {
            Shown::Inline(bytes) => Value::Inline(bytes.to_vec()),
            Shown::Chain(chain) => Value::Chain(chain),
        }
    }
}

impl Progress {
    /// Counts a long value that it reads.
    pub(crate) fn pass(&mut self, chain: &ChainRef, pool: &Pool) {
        self.pages += 1 + chain.len as usize / pool.page_bytes();
    }

    /// Returns the hint for the pages that it reads next.
    pub(crate) fn hint(&self, pool: &Pool) -> FetchHint {
        let long = self.pages > SCAN_LONG_PAGES_MIN.max(pool.frame_count() / SCAN_LONG_POOL_PART);
        if long { FetchHint::Scan } else { FetchHint::Normal }
    }
}

impl Rows {
    /// Copies the entries in `slots` of a latched leaf.
    fn copy(&mut self, leaf: Leaf<'_>, slots: Range<u16>) {
        self.offsets.clear();
        self.offsets.reserve(usize::from(slots.end - slots.start));
        let (prefix, span) = (leaf.prefix(), leaf.span(slots));
        (self.prefix_len, self.part) = (prefix.len(), span.start);
        self.bytes.clear();
        self.bytes.reserve(prefix.len() + span.len());
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(&leaf.bytes()[span]);
    }

    /// Returns where an offset in the leaf is in the copy.
    #[inline]
    fn offset(&self, in_leaf: usize) -> usize {
        in_leaf - self.part + self.prefix_len
    }

    #[inline]
    fn push(&mut self, at: &RowAt, flags: u8, value: Range<usize>) {
        self.offsets.push(RowOffsets {
            suffix: self.offset(at.suffix.start) as u32,
            value: value.start as u32,
            value_len: value.len() as u32,
            suffix_len: at.suffix.len() as u16,
            flags,
        });
    }

    #[inline]
    fn push_newest(&mut self, at: &RowAt) {
        self.push(at, at.flags, self.offset(at.value.start)..self.offset(at.value.end));
    }

    fn push_older(&mut self, at: &RowAt, flags: u8, value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.push(at, flags, start..self.bytes.len());
    }

    #[inline]
    fn key(&self, suffix: Range<usize>) -> Key<'_> {
        Key { prefix: &self.bytes[..self.prefix_len], suffix: &self.bytes[suffix] }
    }

    /// Returns the keys and values. Fails at a row whose long value has no address.
    #[inline]
    pub(crate) fn iter<'r>(
        &'r self,
        store: &'r Store,
    ) -> impl Iterator<Item = Result<(Key<'r>, Shown<'r>)>> + 'r {
        self.offsets.iter().map(move |row| self.shown(store, row))
    }

    #[inline]
    fn shown<'r>(&'r self, store: &Store, row: &RowOffsets) -> Result<(Key<'r>, Shown<'r>)> {
        let (suffix, suffix_len) = (row.suffix as usize, usize::from(row.suffix_len));
        let (value, value_len) = (row.value as usize, row.value_len as usize);
        let (key, value) = (self.key(suffix..suffix + suffix_len), &self.bytes[value..value + value_len]);
        if row.flags & OVERFLOW == 0 {
            return Ok((key, Shown::Inline(value)));
        }
        Ok((key, Shown::Chain(chain_of(store, value)?)))
    }

    /// Returns how many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Returns the address of the long value of row `n`. Fails as [`Rows::iter`] does.
    pub(crate) fn chain(&self, store: &Store, n: usize) -> Result<ChainRef> {
        chain_of(store, self.value(n))
    }

    /// Puts the key of row `n` into `key`. Returns whether the row's value is in the row.
    /// REQUIRES: if `key_is_before`, `key` holds the key of another row, so its first part is
    /// right.
    #[inline]
    pub(crate) fn show(&self, n: usize, key: &mut Vec<u8>, key_is_before: bool) -> bool {
        let RowOffsets { suffix, suffix_len, flags, .. } = self.offsets[n];
        let suffix = suffix as usize..suffix as usize + usize::from(suffix_len);
        if key_is_before {
            key.truncate(self.prefix_len);
        } else {
            key.clear();
            key.extend_from_slice(&self.bytes[..self.prefix_len]);
        }
        key.extend_from_slice(&self.bytes[suffix]);
        flags & OVERFLOW == 0
    }

    /// Returns the bytes of the value of row `n`, as its leaf had them.
    #[inline]
    pub(crate) fn value(&self, n: usize) -> &[u8] {
        let RowOffsets { value, value_len, .. } = self.offsets[n];
        &self.bytes[value as usize..value as usize + value_len as usize]
    }
}

impl Reader<'_> {
    /// Puts into `out` the rows of `range` that `view` shows, in key order, up to the end of a
    /// leaf. Returns where the scan goes on. REQUIRES: no latch held; the view's snapshot is
    /// registered and stays so until long values are loaded.
    pub(crate) fn scan_forward(
        &self,
        range: ScanRange<'_>,
        progress: &mut Progress,
        out: &mut Rows,
    ) -> Result<Next> {
        let ScanRange { tree, from, to } = range;
        let cleared = self.versions.cleared.skip_to(tree.id, from, self.view.snapshot);
        let from = match &cleared {
            None => from,
            Some((end, newest)) => {
                self.txn.note_seen(*newest);
                if to.is_some_and(|to| &end[..] >= to) {
                    out.offsets.clear();
                    return Ok(Next::End);
                }
                end
            }
        };
        let hint = progress.hint(&self.store.pool);
        let mut reads = LeafReads::forward(hint, &mut progress.ahead, to);
        let page = tree.leaf_read_in(self.store, progress.right.take(), from, &mut reads)?;
        let leaf = Leaf::new(&page);
        let (Ok(first) | Err(first)) = leaf.search(from);
        // If the whole leaf lies below the end of the range, the end need not be searched.
        let high = leaf.high_fence().filter(|high| to.is_none_or(|to| *high < to));
        let end = match to {
            Some(to) if high.is_none() => leaf.search(to).unwrap_or_else(|slot| slot).max(first),
            _ => leaf.len(),
        };
        let (end, next) = match progress.most {
            Some(most) if end - first > most => {
                progress.right = Some(page.page_no());
                (first + most, Next::At(leaf.key(first + most).to_vec()))
            }
            _ => {
                progress.right = high.map(|_| leaf.right());
                (end, high.map_or(Next::End, |high| Next::At(high.to_vec())))
            }
        };
        progress.pages += 1;
        out.copy(leaf, first..end);
        match self.judge_rows(tree, page, first..end, &mut progress.held, out)? {
            None => Ok(next),
            Some(key) => Ok(Next::At(after(&key))),
        }
    }

    /// Puts into `out` the rows of `range` that `view` shows, in falling key order, down to the
    /// beginning of a leaf. Returns where the scan goes on. REQUIRES: as [`Reader::scan_forward`].
    pub(crate) fn scan_backward(
        &self,
        range: ScanRange<'_>,
        progress: &mut Progress,
        out: &mut Rows,
    ) -> Result<Next> {
        let ScanRange { tree, from, to } = range;
        let before = to.and_then(|to| self.versions.cleared.before(tree.id, to, self.view.snapshot));
        let to = match &before {
            None => to,
            Some((start, newest)) => {
                self.txn.note_seen(*newest);
                if &start[..] <= from {
                    out.offsets.clear();
                    return Ok(Next::End);
                }
                Some(&start[..])
            }
        };
        let hint = progress.hint(&self.store.pool);
        let mut reads = LeafReads::backward(hint, &mut progress.ahead, from);
        let (page, end) = match to {
            None => {
                let page = tree.leaf_read_last(self.store, &mut reads)?;
                let end = Leaf::new(&page).len();
                (page, end)
            }
            Some(to) => match tree.leaf_read_before(self.store, to, &mut reads)? {
                Some(found) => found,
                None => {
                    out.offsets.clear();
                    return Ok(Next::End);
                }
            },
        };
        let leaf = Leaf::new(&page);
        let (Ok(first) | Err(first)) = leaf.search(from);
        let low = leaf.low_fence();
        let (first, next) = match progress.most {
            Some(most) if end > first && end - first > most => {
                (end - most, Next::At(leaf.key(end - most).to_vec()))
            }
            _ if low.is_empty() || low <= from => (first, Next::End),
            _ => (first, Next::At(low.to_vec())),
        };
        progress.pages += 1;
        out.copy(leaf, first..end.max(first));
        match self.judge_rows(tree, page, (first..end).rev(), &mut progress.held, out)? {
            None => Ok(next),
            Some(key) => Ok(Next::At(key)),
        }
    }

    /// Finds what the reader sees of the rows in `slots` of a latched leaf, one after the other.
    /// `out` has a copy of them. Stops after a row whose older version had to be fetched, without
    /// the latch, and returns its key.
    #[inline]
    fn judge_rows(
        &self,
        tree: Tree,
        page: PageRead<'_>,
        slots: impl Iterator<Item = u16>,
        held: &mut HeldPiece,
        out: &mut Rows,
    ) -> Result<Option<Vec<u8>>> {
        let Reader { store, versions, txn, view } = *self;
        let mut older = Vec::new();
        // Neighbours often come from one transaction. One that is visible stays visible.
        let mut visible = None;
        let leaf = Leaf::new(&page);
        let (mut marks, since) = (DeleteMarks::of(store, versions, tree), || view.snapshot);
        for slot in slots {
            let at = leaf.row_at(slot);
            if visible == Some(at.version.txn) {
                if at.flags & DELETED == 0 {
                    out.push_newest(&at);
                } else if at.version.txn != view.own {
                    marks.add(leaf, slot, None, since);
                }
                continue;
            }
            match view
                .see(leaf.row(slot), &mut older, held)
                .map_err(|damage| versions.damage(tree, damage))?
            {
                SeenVersion::Absent(commit) => txn.note_seen(commit),
                SeenVersion::Deleted(commit) => {
                    txn.note_seen(commit);
                    if at.version.txn != view.own {
                        marks.add(leaf, slot, commit, since);
                    }
                }
                SeenVersion::Newest(commit) => {
                    txn.note_seen(commit);
                    out.push_newest(&at);
                    visible = Some(at.version.txn);
                }
                SeenVersion::Older { flags, commit } => {
                    txn.note_seen(commit);
                    out.push_older(&at, flags, &older);
                }
                SeenVersion::Away(rest) => {
                    marks.note(leaf, since);
                    drop(page);
                    if let Some(flags) = self.see_rest(tree, rest, &mut older, held)? {
                        out.push_older(&at, flags, &older);
                    }
                    return Ok(Some(
                        out.key(out.offset(at.suffix.start)..out.offset(at.suffix.end)).to_vec(),
                    ));
                }
            }
        }
        marks.note(leaf, since);
        Ok(None)
    }
}
