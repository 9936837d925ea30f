//! Reads an overflow chain faster than page by page: some of its pages name the pages that were
//! reserved to follow.
//!
//! The names are hints; only the links say which pages belong to the chain. A page that was read
//! because it was named is used only when a link leads to it. Then it belongs to the chain and has
//! not changed since it was linked.

use base::PageNo;
use pace::constants::SCAN_LONG_POOL_PART;

use crate::buffer::{FetchHint, PageImages};
use crate::error::Result;
use crate::page::overflow::Overflow;
use crate::tree_store::Store;

/// Reads the pages of one chain, many at a time.
pub(super) struct ChainReader<'s> {
    store: &'s Store,
    hint: FetchHint,
    images: PageImages,
}

impl<'s> ChainReader<'s> {
    /// Makes a reader for a value of `len` bytes that cannot be freed meanwhile. Its pages enter
    /// the pool unless the value is too long for that (Bp6).
    pub(super) fn new(store: &'s Store, hint: FetchHint, len: usize) -> ChainReader<'s> {
        let pool = store.pool.frame_count() * store.pool.page_bytes();
        let hint = if len > pool / SCAN_LONG_POOL_PART { FetchHint::Scan } else { hint };
        ChainReader { store, hint, images: PageImages::default() }
    }

    /// Makes a reader for a chain whose writing may have been cut off. Pages that it names may
    /// belong to another owner, so none of them enters the pool.
    pub(super) fn past_pool(store: &'s Store) -> ChainReader<'s> {
        ChainReader { store, hint: FetchHint::Scan, images: PageImages::default() }
    }

    /// Calls `visitor` with page `at` if it is an overflow page. If `visitor` confirms that the
    /// page belongs to the chain, reads the pages that it names. REQUIRES: no latch held; `at` is
    /// the chain's head or the next page of the page visited before.
    pub(super) fn visit<R>(
        &mut self,
        at: PageNo,
        visitor: impl FnOnce(Overflow<'_>) -> Option<R>,
    ) -> Result<Option<R>> {
        let mut named = Vec::new();
        let visited = match self.images.get(at) {
            Some(page) => visit_page(page, &mut named, visitor),
            None => visit_page(&self.store.pool.fetch_with(at, self.hint)?.read(), &mut named, visitor),
        };
        if !named.is_empty() {
            self.images.read(&self.store.pool, named);
            if self.hint == FetchHint::Normal {
                self.images.cache(&self.store.pool);
            }
        }
        Ok(visited)
    }
}

fn visit_page<R>(
    page: &[u8],
    named: &mut Vec<PageNo>,
    visitor: impl FnOnce(Overflow<'_>) -> Option<R>,
) -> Option<R> {
    let part = Overflow::new(page)?;
    let seen = visitor(part)?;
    named.extend(part.following());
    Some(seen)
}
