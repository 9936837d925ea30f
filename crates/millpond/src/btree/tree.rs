//! [`Tree`]: what the layers above ask of a tree. They get latched leaves and change rows in them with their own
//! mini-transactions; the tree looks after the rest.

use base::{PageNo, TreeId};

use super::descend::{Latched, Seek};
use super::root_copy;
use crate::buffer::{FetchHint, PageRead, PageWrite};
use crate::error::{Error, Result};
use crate::mtr::Mtr;
use crate::page::header::{self, PageKind};
use crate::page::node::{Inner, Leaf, Node, ROW_OVERHEAD};
use crate::page::op::{NodeHead, PageOp};
use crate::page::{inline_limit, max_key};
use crate::store::Store;

/// A tree: its name and the page where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Names it for ever.
    pub(crate) id: TreeId,
    /// Its root, for ever the same page.
    pub(crate) root: PageNo,
}

impl Tree {
    /// Makes an empty tree. Until the catalog names it, its extents are all that is known of it.
    pub(crate) fn create(store: &Store, id: TreeId) -> Result<Tree> {
        store.log.make_room()?;
        let mut reserved = store.space.reserve(id, 1)?;
        let map = reserved.map()?;
        let frame = store.pool.reserve_frame()?;
        let mut mtr = Mtr::begin(&store.log, &store.pool);
        let map = map.latch(&mut mtr);
        let root = reserved.take(&mut mtr, map);
        let slot = mtr.add(store.pool.create(root, frame));
        let head = NodeHead { tree: id, level: 0, right: PageNo::NONE, low: &[], high: &[] };
        mtr.apply(slot, &PageOp::Init { head, body: &[] });
        mtr.commit();
        Ok(Tree { id, root })
    }

    /// The leaf where `key` stands or would stand, latched shared. REQUIRES: no latch held.
    pub(crate) fn leaf_read<'s>(&self, store: &'s Store, key: &[u8]) -> Result<PageRead<'s>> {
        self.read_at(store, Seek::At(key), FetchHint::Normal)
    }

    /// As [`Tree::leaf_read`], with a guess at the leaf, which saves the way down if it is right, and told what it is for.
    pub(crate) fn leaf_read_cached<'s>(
        &self,
        store: &'s Store,
        guess: Option<PageNo>,
        key: &[u8],
        hint: FetchHint,
    ) -> Result<PageRead<'s>> {
        let guessed = guess.and_then(|page| store.pool.try_pin_with(page, hint)).map(|pin| pin.read());
        match guessed.filter(|page| self.is_leaf_of(page, key)) {
            Some(page) => Ok(page),
            None => self.read_at(store, Seek::At(key), hint),
        }
    }

    /// Whether a latched page is this tree's leaf for `key`. A page that has been freed since someone saw it there, or has
    /// become another, is not: a leaf's kind, tree and fences say all that the way down would.
    #[inline(always)]
    fn is_leaf_of(&self, page: &[u8], key: &[u8]) -> bool {
        header::kind(page) == Some(PageKind::Leaf)
            && header::tree(page) == self.id
            && Node::new(page).covers(key)
    }

    /// The last leaf, latched shared. REQUIRES: no latch held.
    pub(crate) fn leaf_read_last<'s>(&self, store: &'s Store, hint: FetchHint) -> Result<PageRead<'s>> {
        self.read_at(store, Seek::Last, hint)
    }

    /// The leaf that holds the greatest key below `key`, latched shared, and how many of its entries are below `key`, at
    /// least 1; none if there is no such key. For backward scans: when a leaf is done, ask with its low fence. (The leaf
    /// may reach beyond `key`, for two may have become one meanwhile.) REQUIRES: no latch held.
    pub(crate) fn leaf_read_before<'s>(
        &self,
        store: &'s Store,
        key: &[u8],
        hint: FetchHint,
    ) -> Result<Option<(PageRead<'s>, u16)>> {
        let mut key = key.to_vec();
        loop {
            let page = self.read_at(store, Seek::Before(&key), hint)?;
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

    /// The leaf that covers the keys just below `to`, or the last one, latched shared; it may hold none of them. REQUIRES: no
    /// latch held.
    pub(crate) fn leaf_read_below<'s>(&self, store: &'s Store, to: Option<&[u8]>) -> Result<PageRead<'s>> {
        self.read_at(store, to.map_or(Seek::Last, Seek::Before), FetchHint::Normal)
    }

    /// The leaf that goes on where `page` ends, latched shared, and its first entry from there on; none after the last
    /// leaf. (The leaf may begin before that place, for two may have become one meanwhile.)
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
        let page = self.leaf_read_cached(store, Some(right), &high, FetchHint::Normal)?;
        let (Ok(first) | Err(first)) = Leaf::new(&page).search(&high);
        Ok(Some((page, first)))
    }

    fn read_at<'s>(&self, store: &'s Store, seek: Seek<'_>, hint: FetchHint) -> Result<PageRead<'s>> {
        match self.descend_for(store, seek, 0, false, hint)?.map(|found| found.page) {
            Some(Latched::Read(page)) => Ok(page),
            _ => unreachable!("every tree has leaves, and a shared latch was asked for"),
        }
    }

    /// A guess at the leaf of `key`, for who has other things to do before it wants that leaf: the processor is asked for it
    /// meanwhile. REQUIRES: no latch held.
    pub(crate) fn prefetch_leaf(&self, store: &Store, key: &[u8]) -> Result<Option<PageNo>> {
        let seek = Seek::At(key);
        let copied =
            store.pool.stamp(self.root).and_then(|now| root_copy::next_child(self.root, now, seek, 0));
        let leaf = match copied.filter(|next| next.child_level == 0) {
            Some(next) => next.child,
            None => match self.descend(store, seek, 1, false)? {
                Some(found) if found.unposted.is_none() => seek.child(&Inner::new(&found.page)),
                // The way down itself will do what is left to do of a split.
                _ => return Ok(None),
            },
        };
        store.pool.prefetch(leaf);
        Ok(Some(leaf))
    }

    /// The leaf where `key` stands or would stand, latched exclusively, with room for a row of `key` that takes `row_bytes`
    /// in all (see [`row_bytes`]); what the present row of `key` takes counts as room. Splits as needed. 0 asks for no
    /// room. REQUIRES: no latch held.
    pub(crate) fn leaf_write<'s>(
        &self,
        store: &'s Store,
        key: &[u8],
        row_bytes: usize,
    ) -> Result<PageWrite<'s>> {
        Ok(self.leaf_write_cached(store, None, key, row_bytes)?.0)
    }

    /// As [`Tree::leaf_write`], with a guess at the leaf, which saves the way down if it is right. Tells also where in the leaf
    /// the row of `key` stands, or would stand.
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

    /// Damage in one of the tree's pages.
    pub(super) fn damage(&self, store: &Store, page: PageNo, what: &str) -> Error {
        Error::corrupt(store.pages_path(), format!("{:?}, {page:?}: {what}", self.id))
    }
}

/// What a row takes in a leaf.
#[must_use]
pub(crate) fn row_bytes(key_len: usize, value_len: usize) -> usize {
    ROW_OVERHEAD + key_len + value_len
}

/// Where in the leaf the row of `key` stands or would stand, if the leaf can hold one that takes `row_bytes`.
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
