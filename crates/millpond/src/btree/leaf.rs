//! The leaves of a tree, for the layers above. They get latched leaves and change rows there with
//! mini-transactions of their own. The tree does everything else: descents, splits, merges.

use base::PageNo;

use super::descend::Latched;
use super::read_ahead::LeafReads;
use super::root_copy;
use super::seek::Seek;
use super::tree::Tree;
use crate::buffer::{FetchHint, PageRead, PageWrite};
use crate::error::Result;
use crate::page::header::{self, PageKind};
use crate::page::node::{Inner, Leaf, Node, ROW_OVERHEAD};
use crate::page::{inline_limit, max_key};
use crate::tree_store::Store;

/// Where a scan goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LeafTarget<'k> {
    /// In the leaf where this key is or would be.
    At(&'k [u8]),
    /// In the leaf that covers the keys just below this one; none: the last leaf.
    Below(Option<&'k [u8]>),
}

impl Tree {
    /// Returns the leaf where `key` is or would be, latched shared. REQUIRES: no latch held.
    pub(crate) fn leaf_read<'s>(&self, store: &'s Store, key: &[u8]) -> Result<PageRead<'s>> {
        self.read_at(store, Seek::At(key), &mut LeafReads::one(FetchHint::Normal))
    }

    /// As [`Tree::leaf_read`], but first tries `guess`, often from a leaf cache. A right guess
    /// saves the descent.
    pub(crate) fn leaf_read_cached<'s>(
        &self,
        store: &'s Store,
        guess: Option<PageNo>,
        key: &[u8],
    ) -> Result<PageRead<'s>> {
        self.leaf_read_in(store, guess, key, &mut LeafReads::one(FetchHint::Normal))
    }

    /// As [`Tree::leaf_read_cached`], for a scan. REQUIRES: no latch held.
    pub(crate) fn leaf_read_in<'s>(
        &self,
        store: &'s Store,
        guess: Option<PageNo>,
        key: &[u8],
        reads: &mut LeafReads<'_>,
    ) -> Result<PageRead<'s>> {
        let guessed = guess.and_then(|page| store.pool.try_pin_with(page, reads.hint)).map(|pin| pin.read());
        match guessed.filter(|page| self.is_leaf_of(page, key)) {
            Some(page) => {
                reads.at(page.page_no());
                Ok(page)
            }
            None => self.read_at(store, Seek::At(key), reads),
        }
    }

    /// Returns whether a latched page is this tree's leaf for `key`. The page may have been freed
    /// or reused since it was guessed. Kind, tree and fences of a leaf say everything that a
    /// descent would check.
    #[inline(always)]
    fn is_leaf_of(&self, page: &[u8], key: &[u8]) -> bool {
        header::kind(page) == Some(PageKind::Leaf)
            && header::tree(page) == self.id
            && Node::new(page).covers(key)
    }

    /// Returns the last leaf, latched shared. REQUIRES: no latch held.
    pub(crate) fn leaf_read_last<'s>(
        &self,
        store: &'s Store,
        reads: &mut LeafReads<'_>,
    ) -> Result<PageRead<'s>> {
        self.read_at(store, Seek::Last, reads)
    }

    /// Returns the leaf that holds the greatest key below `key`, latched shared, and how many of
    /// its entries are below `key`, at least 1. None if there is no such key. A backward scan calls
    /// it with the low fence of the leaf that it has finished. The leaf may reach beyond `key`,
    /// because two leaves may have been merged meanwhile. REQUIRES: no latch held.
    pub(crate) fn leaf_read_before<'s>(
        &self,
        store: &'s Store,
        key: &[u8],
        reads: &mut LeafReads<'_>,
    ) -> Result<Option<(PageRead<'s>, u16)>> {
        let mut key = key.to_vec();
        loop {
            let page = self.read_at(store, Seek::Before(&key), reads)?;
            let leaf = Leaf::new(&page);
            let (Ok(below) | Err(below)) = leaf.search(&key);
            if below > 0 {
                return Ok(Some((page, below)));
            }
            if leaf.low_fence().is_empty() {
                return Ok(None);
            }
            key = leaf.low_fence().to_vec();
        }
    }

    /// Returns the leaf that covers the keys just below `to`, or the last leaf, latched shared. It
    /// may hold no such key. REQUIRES: no latch held.
    pub(crate) fn leaf_read_below<'s>(
        &self,
        store: &'s Store,
        to: Option<&[u8]>,
        reads: &mut LeafReads<'_>,
    ) -> Result<PageRead<'s>> {
        self.read_at(store, to.map_or(Seek::Last, Seek::Before), reads)
    }

    /// Returns the leaf that continues where `page` ends, latched shared, and its first entry from
    /// there on. None after the last leaf. The leaf may begin before that key, because two leaves
    /// may have been merged meanwhile.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn leaf_next<'s>(
        &self,
        store: &'s Store,
        page: PageRead<'s>,
    ) -> Result<Option<(PageRead<'s>, u16)>> {
        let leaf = Leaf::new(&page);
        let (right, Some(high)) = (leaf.right(), leaf.high_fence()) else { return Ok(None) };
        let high = high.to_vec();
        drop(page);
        let page = self.leaf_read_cached(store, Some(right), &high)?;
        let (Ok(first) | Err(first)) = Leaf::new(&page).search(&high);
        Ok(Some((page, first)))
    }

    /// Latches a leaf exclusively that was latched shared, with a moment in between when it was not
    /// latched. None if it is no longer the leaf of `target`.
    pub(crate) fn leaf_exclude<'s>(
        &self,
        page: PageRead<'s>,
        target: LeafTarget<'_>,
    ) -> Option<PageWrite<'s>> {
        let page = page.unlatch().write();
        self.is_leaf_at(&page, target).then_some(page)
    }

    /// Returns the leaf of `target`, latched shared, if it is `guess` and in memory. REQUIRES: no
    /// latch held.
    pub(crate) fn leaf_read_guess<'s>(
        &self,
        store: &'s Store,
        guess: PageNo,
        target: LeafTarget<'_>,
    ) -> Option<PageRead<'s>> {
        let page = store.pool.try_pin(guess)?.read();
        self.is_leaf_at(&page, target).then_some(page)
    }

    /// As [`Tree::leaf_read_guess`], latched exclusively.
    pub(crate) fn leaf_write_guess<'s>(
        &self,
        store: &'s Store,
        guess: PageNo,
        target: LeafTarget<'_>,
    ) -> Option<PageWrite<'s>> {
        let page = store.pool.try_pin(guess)?.write();
        self.is_leaf_at(&page, target).then_some(page)
    }

    /// Returns whether a latched page is this tree's leaf of `target`, as [`Tree::is_leaf_of`]
    /// does.
    fn is_leaf_at(&self, page: &[u8], target: LeafTarget<'_>) -> bool {
        header::kind(page) == Some(PageKind::Leaf)
            && header::tree(page) == self.id
            && match target {
                LeafTarget::At(key) => Node::new(page).covers(key),
                LeafTarget::Below(None) => Node::new(page).high_fence().is_none(),
                LeafTarget::Below(Some(to)) => {
                    let node = Node::new(page);
                    node.low_fence() < to && node.high_fence().is_none_or(|high| to <= high)
                }
            }
    }

    fn read_at<'s>(
        &self,
        store: &'s Store,
        seek: Seek<'_>,
        reads: &mut LeafReads<'_>,
    ) -> Result<PageRead<'s>> {
        match self.descend_for(store, seek, 0, false, reads)?.map(|found| found.page) {
            Some(Latched::Read(page)) => {
                reads.at(page.page_no());
                Ok(page)
            }
            _ => unreachable!("every tree has leaves, and a shared latch was asked for"),
        }
    }

    /// Returns a guess at the leaf of `key`, and asks the processor to prefetch that leaf. For a
    /// caller that has other work to do before it needs the leaf. REQUIRES: no latch held.
    pub(crate) fn prefetch_leaf(&self, store: &Store, key: &[u8]) -> Result<Option<PageNo>> {
        let seek = Seek::At(key);
        let next = store.pool.stamp(self.root).and_then(|now| root_copy::next_child(self.root, now, seek, 0));
        let leaf = match next.filter(|next| next.child_level == 0) {
            Some(next) => next.child,
            None => match self.descend(store, seek, 1, false)? {
                Some(found) if found.unposted.is_none() => seek.child(&Inner::new(&found.page)),
                // A split is not posted yet; the descent itself will post it.
                _ => return Ok(None),
            },
        };
        store.pool.prefetch(leaf);
        Ok(Some(leaf))
    }

    /// Returns the leaf where `key` is or would be, latched exclusively, with room for a row of
    /// `key` that takes `row_bytes` in all (see [`row_bytes`]). The bytes of the present row of
    /// `key` count as room. Splits as needed. With 0 no room is needed. REQUIRES: no latch held.
    pub(crate) fn leaf_write<'s>(
        &self,
        store: &'s Store,
        key: &[u8],
        row_bytes: usize,
    ) -> Result<PageWrite<'s>> {
        Ok(self.leaf_write_cached(store, None, key, row_bytes)?.0)
    }

    /// As [`Tree::leaf_write`], but first tries `guess`, which saves the descent if it is right.
    /// Also returns the slot of `key` in the leaf, or the slot where it would be inserted.
    pub(crate) fn leaf_write_cached<'s>(
        &self,
        store: &'s Store,
        guess: Option<PageNo>,
        key: &[u8],
        row_bytes: usize,
    ) -> Result<(PageWrite<'s>, Result<u16, u16>)> {
        let page_bytes = store.pool.page_bytes();
        base::check!(row_bytes <= ROW_OVERHEAD + max_key(page_bytes) + inline_limit(page_bytes));
        let guessed = guess.and_then(|page| store.pool.try_pin(page)).map(|pin| pin.write());
        if let Some(page) = guessed.filter(|page| self.is_leaf_of(page, key))
            && let Some(slot) = slot_with_room(&page, key, row_bytes)
        {
            return Ok((page, slot));
        }
        loop {
            let Some(found) = self.descend(store, Seek::At(key), 0, true)? else {
                unreachable!("every tree has leaves")
            };
            if let Some(level) = found.unposted {
                drop(found);
                self.post(store, level, key)?;
                continue;
            }
            let Latched::Write(page) = found.page else { unreachable!("an exclusive latch was asked for") };
            if let Some(slot) = slot_with_room(&page, key, row_bytes) {
                return Ok((page, slot));
            }
            drop(page);
            self.split(store, 0, key, row_bytes)?;
        }
    }
}

/// Returns how many bytes a row takes in a leaf.
#[must_use]
pub(crate) fn row_bytes(key_len: usize, value_len: usize) -> usize {
    ROW_OVERHEAD + key_len + value_len
}

/// Returns the slot of `key` in the leaf, or the slot where it would be inserted, if the leaf has
/// room for a row of `key` that takes `row_bytes`.
pub(super) fn slot_with_room(page: &[u8], key: &[u8], row_bytes: usize) -> Option<Result<u16, u16>> {
    let leaf = Leaf::new(page);
    let slot = leaf.search(key);
    let free = leaf.free_bytes();
    let has_room = free >= row_bytes
        || match slot {
            Ok(slot) => free + leaf.entry_size(slot) + leaf.prefix().len() >= row_bytes,
            Err(_) => free + leaf.prefix().len() >= row_bytes,
        };
    has_room.then_some(slot)
}
