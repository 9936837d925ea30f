//! The descent: each page is latched before the latch of its parent, or of its left sibling, is
//! released (latch coupling).

use base::PageNo;
use metrics::M;

use super::read_ahead::LeafReads;
use super::root_copy;
use super::seek::Seek;
use super::tree::Tree;
use crate::buffer::{FetchHint, PageRead, PageWrite, Pin};
use crate::error::Result;
use crate::page::header::{self, PageKind};
use crate::page::node::{Inner, Node};
use crate::tree_store::Store;

/// A page with either latch.
pub(super) enum Latched<'s> {
    Read(PageRead<'s>),
    Write(PageWrite<'s>),
}

impl<'s> Latched<'s> {
    fn latch(pin: Pin<'s>, write: bool) -> Self {
        if write { Latched::Write(pin.write()) } else { Latched::Read(pin.read()) }
    }

    /// The child of this page that leads to `seek` is not in memory.
    fn note_missed(&self, store: &Store, seek: Seek<'_>, reads: &mut LeafReads<'_>) {
        if let Latched::Read(parent) = self {
            reads.missed(store, parent, seek.slot(&Inner::new(parent)));
        }
    }

    pub(super) fn page_no(&self) -> PageNo {
        match self {
            Latched::Read(page) => page.page_no(),
            Latched::Write(page) => page.page_no(),
        }
    }
}

impl std::ops::Deref for Latched<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Latched::Read(page) => page,
            Latched::Write(page) => page,
        }
    }
}

/// The result of a descent.
pub(super) struct ReachedPage<'s> {
    /// The page.
    pub(super) page: Latched<'s>,
    /// The highest level at which the descent went right: the split there is not posted in the
    /// parent yet.
    pub(super) unposted: Option<u8>,
}

impl Tree {
    /// Descends to `level`. Latches the page there exclusively if `write`, else shared. None if the
    /// tree is not that high. REQUIRES: no latch held.
    pub(super) fn descend<'s>(
        &self,
        store: &'s Store,
        seek: Seek<'_>,
        level: u8,
        write: bool,
    ) -> Result<Option<ReachedPage<'s>>> {
        self.descend_for(store, seek, level, write, &mut LeafReads::one(FetchHint::Normal))
    }

    /// As [`Tree::descend`]; `reads` says how the page at `level` is read.
    pub(super) fn descend_for<'s>(
        &self,
        store: &'s Store,
        seek: Seek<'_>,
        level: u8,
        write: bool,
        reads: &mut LeafReads<'_>,
    ) -> Result<Option<ReachedPage<'s>>> {
        let hint = reads.hint;
        // The pages above `level` are used by all descents.
        let hint_at = |at| if at == level { hint } else { FetchHint::Normal };
        // A page fetched with nothing latched stays pinned until the next descent has reached it.
        let mut missing = None;
        'again: loop {
            let fetch = |(page, at)| {
                reads.read_noted(store);
                store.pool.fetch_with(page, hint_at(at))
            };
            let _kept = missing.take().map(fetch).transpose()?;
            let mut page = match self.child_by_root_copy(store, seek, level, write, hint) {
                Some(page) => page,
                None => {
                    let Some(root) = store.pool.try_pin(self.root) else {
                        // Without the pin: the thread is no frame holder.
                        missing = Some((self.root, u8::MAX));
                        continue;
                    };
                    match self.latch_root(store, root, level, write)? {
                        Some(page) => page,
                        None => return Ok(None),
                    }
                }
            };
            let mut unposted = None;
            loop {
                let node = Node::new(&page);
                let at = node.level();
                let (next, next_level) = if seek.is_right_of(&node) {
                    unposted = unposted.or(Some(at));
                    (node.right(), at)
                } else if at == level {
                    return Ok(Some(ReachedPage { page, unposted }));
                } else {
                    (seek.child(&Inner::new(&page)), at - 1)
                };
                if next == page.page_no() {
                    return Err(self.damage(store, next, "the page leads to itself"));
                }
                let Some(pin) = store.pool.try_pin_with(next, hint_at(next_level)) else {
                    store.metrics.add(M::DescentRestarts, 1);
                    missing = Some((next, next_level));
                    if next_level == level && level < at {
                        page.note_missed(store, seek, reads);
                    }
                    continue 'again;
                };
                let next_page = Latched::latch(pin, write && next_level == level);
                self.verify_page(store, &next_page, next_level, next)?;
                if next_level == at && Some(Node::new(&next_page).low_fence()) != node.high_fence() {
                    return Err(self.damage(
                        store,
                        next,
                        "the page does not begin where its left sibling ends",
                    ));
                }
                page = next_page;
            }
        }
    }

    /// Returns the root, latched exclusively if it is at `level` and `write`. None if it is below
    /// `level`.
    fn latch_root<'s>(
        &self,
        store: &'s Store,
        mut root: Pin<'s>,
        level: u8,
        write: bool,
    ) -> Result<Option<Latched<'s>>> {
        loop {
            let page = root.read();
            self.verify_root(store, &page)?;
            let root_level = Node::new(&page).level();
            if root_level < level {
                return Ok(None);
            }
            if root_level > 0 {
                root_copy::note_visit(&page);
            }
            if !write || root_level > level {
                return Ok(Some(Latched::Read(page)));
            }
            let page = page.unlatch().write();
            self.verify_root(store, &page)?;
            if Node::new(&page).level() == level {
                return Ok(Some(Latched::Write(page)));
            }
            // The root has grown or shrunk meanwhile.
            root = page.unlatch();
        }
    }

    /// Returns the child of the root to go to, latched, from this thread's copy of the root. None
    /// if there is no valid copy, the root has changed, or the child is not in memory.
    #[inline]
    fn child_by_root_copy<'s>(
        &self,
        store: &'s Store,
        seek: Seek<'_>,
        level: u8,
        write: bool,
        hint: FetchHint,
    ) -> Option<Latched<'s>> {
        let next = root_copy::next_child(self.root, store.pool.stamp(self.root)?, seek, level)?;
        let hint = if next.child_level == level { hint } else { FetchHint::Normal };
        let pin = store.pool.try_pin_with(next.child, hint)?;
        let child = Latched::latch(pin, write && next.child_level == level);
        // The child may have been freed before it was latched. If the root's stamp is unchanged, it
        // was not.
        if store.pool.stamp(self.root) != Some(next.stamp) {
            return None;
        }
        self.verify_page(store, &child, next.child_level, next.child).ok()?;
        Some(child)
    }

    /// Checks that the page is the root of this tree and covers all keys.
    pub(super) fn verify_root(&self, store: &Store, page: &[u8]) -> Result {
        let is_node = matches!(header::kind(page), Some(PageKind::Leaf | PageKind::Inner));
        if !is_node || header::tree(page) != self.id {
            return Err(self.damage(store, self.root, "the root is no page of the tree"));
        }
        let node = Node::new(page);
        if !node.right().is_none() || !node.low_fence().is_empty() {
            return Err(self.damage(store, self.root, "the root does not cover all keys"));
        }
        Ok(())
    }

    /// Checks that the page belongs to this tree and is at `level`.
    #[inline]
    pub(super) fn verify_page(&self, store: &Store, page: &[u8], level: u8, no: PageNo) -> Result {
        let kind = if level == 0 { PageKind::Leaf } else { PageKind::Inner };
        if header::kind(page) == Some(kind)
            && header::tree(page) == self.id
            && Node::new(page).level() == level
        {
            return Ok(());
        }
        Err(self.damage(store, no, "another kind of page than the one that leads here expects"))
    }
}
