//! Long values: chains of overflow pages. A chain is written page by page from its head, each page
//! in a mini-transaction of its own (Pa5).
//!
//! If writing is cut off, all pages of the chain are still linked from its head. The
//! mini-transaction that makes the head carries the chain's undo record, so reverting that record
//! finds and frees them. Freeing goes from the tail to the head. The mini-transaction that frees a
//! page also unlinks it, so a chain that is half freed is a shorter chain. Freeing it again is
//! harmless: every page names the chain's owner, which no other chain has.

use base::{PageNo, TreeId};
use metrics::M;

use super::chain_reader::ChainReader;
use crate::buffer::{FetchHint, fetch_many};
use crate::error::{Error, Result};
use crate::mtr::Mtr;
use crate::page::node::Version;
use crate::page::op::PageOp;
use crate::page::overflow::{ChainRef, capacity, following_for, numbers};
use crate::tree_store::Store;

/// More pages than a value of 4 GiB takes. A longer chain must contain a cycle.
const PAGES_MAX: usize = 1 << 21;
/// Pages that are fetched together to be freed.
pub(crate) const FREED_TOGETHER: usize = 16;

/// Writes `value` as a chain. `begin` is called once, inside the mini-transaction that makes the
/// head, with the head's number. It returns the owner of the chain, appends the chain's undo record
/// to the transaction's stream and to the mini-transaction, and must not wait. `between` runs
/// before each page with nothing latched, for admission. REQUIRES: no latch held; `value` is not
/// empty.
pub(crate) fn write_chain(
    store: &Store,
    tree: TreeId,
    value: &[u8],
    begin: &mut dyn FnMut(&mut Mtr<'_>, PageNo) -> Version,
    between: &mut dyn FnMut() -> Result,
) -> Result<ChainRef> {
    let page_bytes = store.pool.page_bytes();
    let mut chain: Option<ChainRef> = None;
    let mut last = PageNo::NONE;
    // The next page, and the pages named so far that are not written yet.
    let mut reserved = store.space.reserve(tree, 1)?;
    let mut rest = value;
    while !rest.is_empty() {
        between()?;
        // Only the last page that was named can name more.
        let names = if reserved.left() <= 1 { following_for(page_bytes, rest.len()) } else { 0 };
        if names > 0 {
            store.space.reserve_more(&mut reserved, names as u32)?;
        }
        let following = numbers(&reserved.pages()[1..][..names]);
        let (data, others) = rest.split_at(rest.len().min(capacity(page_bytes, names)));
        let holder = store.pool.hold_frames()?;
        let map = reserved.map(&holder)?;
        let frame = holder.take_frame()?;
        let before = if last.is_none() { None } else { Some(store.pool.fetch(last)?) };
        let (mut mtr, new) = Mtr::begin_new(&store.log, &store.pool, reserved.pages()[0], frame)?;
        let before = before.map(|pin| mtr.add(pin.write()));
        let map = map.latch(&mut mtr);
        let no = reserved.take(&mut mtr, map);
        let head = chain.is_none();
        let owner = match chain {
            Some(chain) => chain.owner,
            None => begin(&mut mtr, no),
        };
        chain.get_or_insert(ChainRef { head: no, len: value.len() as u32, owner });
        mtr.apply(new, &PageOp::InitOverflow { tree, owner, head, following: &following, data });
        if let Some(before) = before {
            mtr.apply(before, &PageOp::SetNext { next: no });
        }
        mtr.commit();
        store.metrics.add(M::OverflowPages, 1);
        (last, rest) = (no, others);
    }
    debug_assert_eq!(reserved.left(), 0, "a chain took fewer pages than it has named");
    Ok(chain.expect("a value that is not empty has a first page"))
}

/// Appends the value of a chain to `out`. REQUIRES: no latch held; the chain cannot be freed
/// meanwhile.
pub(crate) fn read_chain(store: &Store, chain: &ChainRef, hint: FetchHint, out: &mut Vec<u8>) -> Result {
    let (start, mut at) = (out.len(), chain.head);
    let damage = |at, what| Err(Error::corrupt(store.pages_path(), format!("{at:?}: {what}")));
    let mut reader = ChainReader::new(store, hint, chain.len as usize);
    while !at.is_none() {
        let read = reader.visit(at, |part| {
            if part.owner() != chain.owner {
                return None;
            }
            out.extend_from_slice(part.data());
            Some((part.data().is_empty(), part.next()))
        })?;
        let Some((empty, next)) = read else {
            return damage(at, "a long value leads here, but this is none of its pages");
        };
        if empty || out.len() - start > chain.len as usize {
            return damage(at, "a long value has another length than its row says");
        }
        at = next;
    }
    if out.len() - start != chain.len as usize {
        return damage(chain.head, "a long value has another length than its row says");
    }
    Ok(())
}

/// Returns the rest of the chain at `head` that `owner` wrote, possibly nothing, for [`free_last`].
/// REQUIRES: no latch held; no other thread frees this chain.
pub(crate) fn chain_to_free(store: &Store, head: PageNo, owner: Version) -> Result<Vec<PageNo>> {
    match chain_pages(store, head, owner) {
        // The head is freed last. Once it is free, its bytes mean nothing, and damage there is
        // harmless.
        Err(Error::Corrupt { .. }) if !store.space.uses(head)? => Ok(Vec::new()),
        pages => pages,
    }
}

/// Frees up to `most` of the last pages of a chain. REQUIRES: no latch held; [`chain_to_free`]
/// returned them, and the tree has not been dropped since.
pub(crate) fn free_last(store: &Store, pages: &mut Vec<PageNo>, most: usize) -> Result {
    let left = pages.len().saturating_sub(most);
    // Backwards. Each page changes twice: it becomes the end of the chain, then it is freed.
    let _ = fetch_many(&store.pool, &pages[left.saturating_sub(1)..], FetchHint::Normal);
    while pages.len() > left {
        let last = pages.len() - 1;
        let holder = store.pool.hold_frames()?;
        let before = if last > 0 { Some(store.pool.fetch(pages[last - 1])?) } else { None };
        let page = store.pool.fetch(pages[last])?;
        let map = store.space.map_of(pages[last], &holder)?;
        let mut mtr = Mtr::begin(&store.log, &store.pool)?;
        if let Some(before) = before {
            let before = mtr.add(before.write());
            mtr.apply(before, &PageOp::SetNext { next: PageNo::NONE });
        }
        let page = mtr.add(page.write());
        mtr.apply(page, &PageOp::Free);
        let map = map.latch(&mut mtr);
        store.space.free(&mut mtr, map, pages[last]);
        mtr.commit();
        pages.pop();
    }
    Ok(())
}

/// Returns the pages of the chain at `head` that `owner` wrote, from its head to where it ends or
/// was freed; none if it is gone.
pub(super) fn chain_pages(store: &Store, head: PageNo, owner: Version) -> Result<Vec<PageNo>> {
    let (mut pages, mut at) = (Vec::new(), head);
    let mut reader = ChainReader::past_pool(store);
    while !at.is_none() {
        let next = reader.visit(at, |part| {
            let ours = part.owner() == owner && part.is_head() == pages.is_empty();
            ours.then(|| part.next())
        })?;
        let Some(next) = next else { break };
        pages.push(at);
        if pages.len() > PAGES_MAX {
            return Err(Error::corrupt(
                store.pages_path(),
                format!("{head:?}: the chain of a long value has a cycle"),
            ));
        }
        at = next;
    }
    Ok(pages)
}
