//! Frees the overflow chains of values that were replaced or deleted.
//!
//! Such a chain was written to its end, so all pages that its pages name belong to it. Only the
//! pages that name others are read, one in 64, and freeing changes the space map alone: no page of
//! the chain is read, changed and written for that.
//!
//! A long chain takes several mini-transactions. Each frees the last pages that one page of the map
//! describes, and cuts them off from the names in the page that names the first of them. So after a
//! crash the rest of the chain is found in the same way. The head goes last. If it is free, or has
//! another owner by now, nothing of the chain is left.

use base::{PageNo, TreeId};

use crate::buffer::FetchHint;
use crate::error::{Error, Result};
use crate::mtr::Mtr;
use crate::page::op::PageOp;
use crate::page::overflow::{ChainRef, Overflow, pages_for};
use crate::planted::{Bug, planted};
use crate::store::Store;

/// The most pages that one mini-transaction frees.
const FREED_AT_ONCE: usize = 1024;
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
    /// to its end; no other thread frees it.
    pub(crate) fn find(store: &Store, tree: TreeId, chain: &ChainRef) -> Result<OldChain> {
        let mut rest = OldChain { tree, pages: Vec::new(), namers: Vec::new() };
        // Asked first: a page that was in use before its content was read, and has the content of
        // the chain's head, was the chain's head all the time.
        if !store.space.uses(chain.head)? {
            return Ok(rest);
        }
        let whole = pages_for(store.pool.page_bytes(), chain.len as usize);
        let Some(mut names) = names_in(store, chain.head, chain, true)? else { return Ok(rest) };
        rest.pages.push(chain.head);
        while !names.is_empty() {
            rest.namers.push(rest.pages.len() - 1);
            rest.pages.append(&mut names);
            if rest.pages.len() > whole {
                return Err(rest.damage(store, chain.head, "a long value has more pages than its length says"));
            }
            let last = *rest.pages.last().unwrap_or(&chain.head);
            if rest.pages.len() < whole {
                let found = names_in(store, last, chain, false)?;
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

    /// Frees the last pages, as many as one page of the map describes, at most [`FREED_AT_ONCE`].
    /// REQUIRES: no latch held; the tree exists, and no other thread drops it meanwhile.
    pub(crate) fn free_last(&mut self, store: &Store) -> Result {
        let Some(&last) = self.pages.last() else { return Ok(()) };
        let place = store.space.map_page_of(last);
        let alike = |page: &&PageNo| store.space.map_page_of(**page) == place;
        let together = self.pages.iter().rev().take(FREED_AT_ONCE).take_while(alike).count();
        let first = self.pages.len() - together;
        let namer = self.namers.iter().copied().rfind(|namer| *namer < first);
        store.log.make_room()?;
        let holder = store.pool.hold_frames()?;
        let cut = match namer {
            Some(namer) => Some((store.pool.fetch(self.pages[namer])?, first - namer - 1)),
            None => None,
        };
        let map = store.space.map_of(last, &holder)?;
        let mut mtr = Mtr::begin(&store.log, &store.pool);
        let cut = cut.map(|(pin, names)| (mtr.add(pin.write()), names));
        let map = map.latch(&mut mtr);
        let freed = &self.pages[first..];
        if let Some(page) = freed.iter().find(|page| !store.space.is_owner(&mtr, map, self.tree, **page)) {
            return Err(self.damage(store, *page, "a long value leads here, but its table has no such page"));
        }
        if let Some((page, names)) = cut
            && !planted(Bug::FreedPagesNamed)
        {
            mtr.apply(page, &PageOp::CutNames { names: names as u16 });
        }
        store.space.free_many(&mut mtr, map, self.tree, freed);
        mtr.commit();
        self.pages.truncate(first);
        self.namers.retain(|namer| *namer < first);
        Ok(())
    }

    fn damage(&self, store: &Store, page: PageNo, what: &str) -> Error {
        Error::corrupt(store.pages_path(), format!("{page:?}, {:?}: {what}", self.tree))
    }
}

/// Returns the pages that `page` names; `None` if it is no page of the chain.
fn names_in(store: &Store, page: PageNo, chain: &ChainRef, head: bool) -> Result<Option<Vec<PageNo>>> {
    let page = store.pool.fetch_with(page, FetchHint::Scan)?.read();
    let part = Overflow::new(&page).filter(|part| part.owner() == chain.owner && part.is_head() == head);
    Ok(part.map(|part| part.ahead().collect()))
}
