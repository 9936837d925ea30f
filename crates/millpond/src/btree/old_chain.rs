//! Frees the overflow chains of values that were replaced or deleted.
//!
//! Such a chain was written to its end, so all pages that its pages name belong to it. Only the
//! pages that name others are read, one in 64, and freeing changes the space map alone: no page of
//! the chain is read, changed and written for that.
//!
//! Most chains are freed by one mini-transaction. A long or scattered one takes several: each frees
//! the last pages that a few pages of the map describe, and cuts them off from the names in the
//! page that names the first of them. So after a crash the rest is found in the same way. The head
//! goes last. If it is free, or has another owner by now, nothing of the chain is left.

use base::{PageNo, TreeId};

use crate::buffer::{FetchHint, PageImages};
use crate::error::{Error, Result};
use crate::mtr::{LATCHED_MAX, Mtr};
use crate::page::op::PageOp;
use crate::page::overflow::{ChainRef, Overflow, pages_for};
use crate::planted::{Bug, planted};
use crate::tree_store::Store;
use std::collections::BTreeMap;

/// The most pages that one mini-transaction frees.
const FREED_AT_ONCE: usize = 1024;
/// The most pages of the map that one mini-transaction latches, in ascending order: no other thread
/// latches two of them in another order. With a page of the chain they are as many pages as a
/// mini-transaction may latch. In a small pool fewer, one for so many frames.
const MAPS_AT_ONCE: usize = LATCHED_MAX - 1;
const FRAMES_PER_MAP: usize = 32;
/// Bytes of redo of one mini-transaction, and bytes for each page if all are in different extents.
const STEP_REDO: u64 = 64;
const EACH_REDO: u64 = 20;

/// What is left of a chain that no version needs any more.
#[derive(Debug)]
pub(crate) struct OldChain {
    tree: TreeId,
    /// From the head on.
    pages: Vec<PageNo>,
    /// The indexes of the pages that name others, ascending.
    namers: Vec<usize>,
}

impl OldChain {
    /// Finds the rest of a chain, possibly nothing. REQUIRES: no latch held; the chain was written
    /// to its end; no other thread frees it; `images` were read when their pages were in use.
    pub(crate) fn find(
        store: &Store,
        tree: TreeId,
        chain: &ChainRef,
        images: &PageImages,
    ) -> Result<OldChain> {
        let mut rest = OldChain { tree, pages: Vec::new(), namers: Vec::new() };
        // Asked first: a page that was in use before its content was read, and has the content of
        // the chain's head, was the chain's head all the time.
        if !store.space.uses(chain.head)? {
            return Ok(rest);
        }
        let whole = pages_for(store.pool.page_bytes(), chain.len as usize);
        let Some(mut names) = names_in(store, chain.head, chain, images)? else { return Ok(rest) };
        rest.pages.push(chain.head);
        while !names.is_empty() {
            rest.namers.push(rest.pages.len() - 1);
            rest.pages.append(&mut names);
            if rest.pages.len() > whole {
                return Err(rest.damage(
                    store,
                    chain.head,
                    "a long value has more pages than its length says",
                ));
            }
            let last = *rest.pages.last().unwrap_or(&chain.head);
            if rest.pages.len() < whole {
                let found = names_in(store, last, chain, &PageImages::default())?;
                names = found.ok_or_else(|| {
                    rest.damage(store, last, "a long value leads here, but this is none of its pages")
                })?;
            }
        }
        Ok(rest)
    }

    /// Whether all pages are free.
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Returns the most redo that the next [`OldChain::free_last`] writes, bytes.
    pub(crate) fn redo(&self) -> u64 {
        STEP_REDO + EACH_REDO * self.pages.len().min(FREED_AT_ONCE) as u64
    }

    /// Frees the last pages, as many as a few pages of the map describe, at most [`FREED_AT_ONCE`].
    /// REQUIRES: no latch held; the tree exists, and no other thread drops it meanwhile.
    pub(crate) fn free_last(&mut self, store: &Store) -> Result {
        let by_map = self.last_by_map(store);
        let first = self.pages.len() - by_map.values().map(Vec::len).sum::<usize>();
        let namer = self.namers.iter().copied().rfind(|namer| *namer < first);
        let holder = store.pool.hold_frames()?;
        let cut = match namer {
            Some(namer) => Some((store.pool.fetch(self.pages[namer])?, first - namer - 1)),
            None => None,
        };
        let maps = by_map.into_values().map(|pages| Ok((store.space.map_of(pages[0], &holder)?, pages)));
        let maps = maps.collect::<Result<Vec<_>>>()?;
        let mut mtr = Mtr::begin(&store.log, &store.pool)?;
        let cut = cut.map(|(pin, names)| (mtr.add(pin.write()), names));
        let maps: Vec<_> = maps.into_iter().map(|(map, pages)| (map.latch(&mut mtr), pages)).collect();
        for (map, pages) in &maps {
            let other = pages.iter().find(|page| !store.space.is_owner(&mtr, *map, self.tree, **page));
            if let Some(page) = other {
                let what = "a long value leads here, but its table has no such page";
                return Err(self.damage(store, *page, what));
            }
        }
        if let Some((page, names)) = cut
            && !planted(Bug::FreedPagesNamed)
        {
            mtr.apply(page, &PageOp::CutNames { names: names as u16 });
        }
        for (map, pages) in &maps {
            store.space.free_many(&mut mtr, *map, self.tree, pages);
        }
        mtr.commit();
        self.pages.truncate(first);
        self.namers.retain(|namer| *namer < first);
        Ok(())
    }

    /// Returns the last pages by the pages of the map that describe them, in the order in which
    /// those are latched.
    fn last_by_map(&self, store: &Store) -> BTreeMap<PageNo, Vec<PageNo>> {
        let most = MAPS_AT_ONCE.min(store.pool.frame_count() / FRAMES_PER_MAP).max(1);
        let mut by_map: BTreeMap<PageNo, Vec<PageNo>> = BTreeMap::new();
        for &page in self.pages.iter().rev().take(FREED_AT_ONCE) {
            let map = store.space.map_page_of(page);
            if !by_map.contains_key(&map) && by_map.len() == most {
                break;
            }
            by_map.entry(map).or_default().push(page);
        }
        by_map
    }

    fn damage(&self, store: &Store, page: PageNo, what: &str) -> Error {
        Error::corrupt(store.pages_path(), format!("{page:?}, {:?}: {what}", self.tree))
    }
}

/// Returns the pages that `page` names; `None` if it is no page of the chain.
fn names_in(
    store: &Store,
    page: PageNo,
    chain: &ChainRef,
    images: &PageImages,
) -> Result<Option<Vec<PageNo>>> {
    let names = |bytes: &[u8]| {
        let part = Overflow::new(bytes)?;
        let ours = part.owner() == chain.owner && part.is_head() == (page == chain.head);
        ours.then(|| part.following().collect())
    };
    if let Some(image) = images.get(page) {
        return Ok(names(image));
    }
    // Purge needs the page once. A frame for it would have to be free first.
    let mut read = PageImages::default();
    read.read(&store.pool, [page]);
    match read.get(page) {
        Some(image) => Ok(names(image)),
        None => Ok(names(&store.pool.fetch_with(page, FetchHint::Scan)?.read())),
    }
}
