//! Reading a chain faster than page by page: some of its pages name those that were set aside to follow.
//!
//! The names are a hint. What the chain is, its links say: a page that was read because it was named is visited at only when a
//! link leads to it, and then it is the chain's and has not changed since it was linked.

use base::PageNo;

use crate::buffer::{FetchHint, Images};
use crate::error::Result;
use crate::page::overflow::Overflow;
use crate::store::Store;

/// A value longer than this part of the pool is not kept there (Bp6).
const LONG_PART: usize = 32;

/// Pages of one chain that have been read before they are asked for.
pub(super) struct ChainReader<'s> {
    store: &'s Store,
    hint: FetchHint,
    images: Images,
}

impl<'s> ChainReader<'s> {
    /// For a value of `len` bytes that is read whole and stays: it goes into the pool unless it is long for that.
    pub(super) fn new(store: &'s Store, hint: FetchHint, len: usize) -> ChainReader<'s> {
        let pool = store.pool.frame_count() * store.pool.page_bytes();
        let hint = if len > pool / LONG_PART { FetchHint::Scan } else { hint };
        ChainReader { store, hint, images: Images::default() }
    }

    /// For a chain that may be cut short, so that pages it names may be another's: none of them enters the pool on its account.
    pub(super) fn past_pool(store: &'s Store) -> ChainReader<'s> {
        ChainReader { store, hint: FetchHint::Scan, images: Images::default() }
    }

    /// Shows the page to `look` if it is an overflow page, and reads those that it names if `look` finds that it is the chain's.
    /// REQUIRES: no latch held; `at` is the chain's head or what `look` was shown to be next.
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
            self.store.pool.read_past(named, &mut self.images);
            if self.hint == FetchHint::Normal {
                self.store.pool.keep(&self.images);
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
    named.extend(part.ahead());
    Some(seen)
}
