//! Building a tree from rows in key order: pages are filled to the last row that fits and logged whole, level above level.
//!
//! A page's fences, and so the prefix that its keys need not store, are known only when it is closed. So a level holds rows
//! back until they would overflow a page with the longest prefix that they allow, then closes the fullest page that its
//! real fences permit and keeps the rest.

use base::{PageNo, TreeId};

use super::tree::Tree;
use crate::error::{Error, Result};
use crate::mtr::Mtr;
use crate::page::edit::{push_child, push_row};
use crate::page::node::{CHILD_OVERHEAD, ROW_OVERHEAD, SLOTS, Version, common_prefix, separator};
use crate::page::op::{NodeHead, PageOp};
use crate::page::{inline_limit, max_key};
use crate::store::Store;

/// A build in progress. A crash leaves a tree without content and pages that only their extents' owner tells of; the catalog
/// names a tree when it is done.
pub(crate) struct Bulk<'s> {
    store: &'s Store,
    tree: Tree,
    levels: Vec<Level>,
}

enum Payload {
    Row { version: Version, flags: u8, value: Vec<u8> },
    Child(PageNo),
}

struct Entry {
    key: Vec<u8>,
    payload: Payload,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.key.len()
            + match &self.payload {
                Payload::Row { value, .. } => ROW_OVERHEAD + value.len(),
                Payload::Child(_) => CHILD_OVERHEAD,
            }
    }

    fn put(&self, body: &mut Vec<u8>, prefix: usize, first: bool) {
        match &self.payload {
            Payload::Row { version, flags, value } => {
                push_row(body, &self.key[prefix..], *version, *flags, value);
            }
            Payload::Child(child) if first => push_child(body, &[], *child),
            Payload::Child(child) => push_child(body, &self.key[prefix..], *child),
        }
    }
}

#[derive(Default)]
struct Level {
    /// Low fence of the page that is being filled.
    low: Vec<u8>,
    /// Its number, if the page before it had to name it.
    page: PageNo,
    entries: Vec<Entry>,
    /// Bytes of `entries` with whole keys.
    bytes: usize,
}

impl Level {
    /// How many entries the page takes when the next one begins the page after it, and that page's low fence.
    fn full_page(&self, page_bytes: usize) -> (usize, Vec<u8>) {
        let mut bytes = self.bytes;
        for n in (1..self.entries.len()).rev() {
            bytes -= self.entries[n].bytes();
            let next = &self.entries[n];
            let high = match next.payload {
                Payload::Row { .. } => separator(&self.entries[n - 1].key, &next.key),
                Payload::Child(_) => &next.key,
            };
            let prefix = common_prefix(&self.low, high);
            if n == 1 || SLOTS + self.low.len() + high.len() + bytes - n * prefix <= page_bytes {
                return (n, high.to_vec());
            }
        }
        unreachable!("called with two entries or more")
    }
}

impl<'s> Bulk<'s> {
    /// Begins to fill `tree`, which must be empty and known to nobody else.
    pub(crate) fn begin(store: &'s Store, tree: Tree) -> Result<Bulk<'s>> {
        let root = tree.leaf_read(store, &[])?;
        if root.page_no() != tree.root || crate::page::node::Node::new(&root).len() > 0 {
            return Err(Error::Misuse("only an empty tree can be built in bulk".into()));
        }
        drop(root);
        Ok(Bulk { store, tree, levels: vec![Level::default()] })
    }

    /// Adds a row; its key must be above the one before. REQUIRES: no latch held.
    pub(crate) fn push(&mut self, key: &[u8], version: Version, flags: u8, value: &[u8]) -> Result {
        let page_bytes = self.store.pool.page_bytes();
        base::check!(key.len() <= max_key(page_bytes) && value.len() <= inline_limit(page_bytes));
        if self.levels[0].entries.last().is_some_and(|last| last.key[..] >= *key) {
            return Err(Error::Misuse("rows for a bulk build must come in key order, each key once".into()));
        }
        self.add(
            0,
            Entry { key: key.to_vec(), payload: Payload::Row { version, flags, value: value.to_vec() } },
        )
    }

    fn add(&mut self, level: usize, entry: Entry) -> Result {
        if level == self.levels.len() {
            self.levels.push(Level::default());
        }
        let page_bytes = self.store.pool.page_bytes();
        let at = &mut self.levels[level];
        at.bytes += entry.bytes();
        let prefix = common_prefix(&at.low, &entry.key);
        at.entries.push(entry);
        if at.entries.len() > 1 && SLOTS + at.low.len() + at.bytes - at.entries.len() * prefix > page_bytes {
            self.close_page(level)?;
        }
        Ok(())
    }

    /// Writes the fullest page that the entries allow and keeps the rest; there are two entries or more.
    fn close_page(&mut self, level: usize) -> Result {
        let (n, high) = self.levels[level].full_page(self.store.pool.page_bytes());
        let page = self.write_page(level, n, &high)?;
        let at = &mut self.levels[level];
        at.entries.drain(..n);
        at.bytes = at.entries.iter().map(Entry::bytes).sum();
        let low = std::mem::replace(&mut at.low, high);
        self.add(level + 1, Entry { key: low, payload: Payload::Child(page) })
    }

    /// Logs the first `n` entries as a page, the last of its level if there are no more. Returns its number.
    fn write_page(&mut self, level: usize, n: usize, high: &[u8]) -> Result<PageNo> {
        let (store, tree) = (self.store, self.tree.id);
        let at = &mut self.levels[level];
        let is_last = n == at.entries.len();
        let page = if at.page.is_none() { take_number(store, tree)? } else { at.page };
        let right = if is_last { PageNo::NONE } else { take_number(store, tree)? };
        store.log.make_room()?;
        let frame = store.pool.reserve_frame()?;
        let mut mtr = Mtr::begin(&store.log, &store.pool);
        at.page = right;
        let slot = mtr.add(store.pool.create(page, frame));
        let head = NodeHead { tree, level: level as u8, right, low: &at.low, high };
        let body = body(&at.entries[..n], head.prefix());
        mtr.apply(slot, &PageOp::Init { head, body: &body });
        mtr.commit();
        Ok(page)
    }

    /// Writes what is left, level by level, the root last.
    pub(crate) fn finish(mut self) -> Result {
        let page_bytes = self.store.pool.page_bytes();
        let mut level = 0;
        loop {
            // The last page has no high fence and so no common prefix.
            while SLOTS + self.levels[level].low.len() + self.levels[level].bytes > page_bytes {
                self.close_page(level)?;
            }
            let at = &mut self.levels[level];
            if at.page.is_none() {
                // Everything of this level fits one page, and that page is the root.
                let body = body(&at.entries, 0);
                return self.write_root(level as u8, &body);
            }
            let n = at.entries.len();
            let page = self.write_page(level, n, &[])?;
            let low = std::mem::take(&mut self.levels[level].low);
            self.levels[level].entries.clear();
            self.add(level + 1, Entry { key: low, payload: Payload::Child(page) })?;
            level += 1;
        }
    }

    fn write_root(&self, level: u8, body: &[u8]) -> Result {
        let store = self.store;
        store.log.make_room()?;
        let root = store.pool.fetch(self.tree.root)?.write();
        let mut mtr = Mtr::begin(&store.log, &store.pool);
        let slot = mtr.add(root);
        let head = NodeHead { tree: self.tree.id, level, right: PageNo::NONE, low: &[], high: &[] };
        mtr.apply(slot, &PageOp::Init { head, body });
        mtr.commit();
        Ok(())
    }
}

/// Takes a page number by itself: two at once could latch two map pages in either order.
fn take_number(store: &Store, tree: TreeId) -> Result<PageNo> {
    store.log.make_room()?;
    let mut reserved = store.space.reserve(tree, 1)?;
    let mut mtr = Mtr::begin(&store.log, &store.pool);
    let page = reserved.take(&mut mtr);
    mtr.commit();
    Ok(page)
}

fn body(entries: &[Entry], prefix: usize) -> Vec<u8> {
    let mut body = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        entry.put(&mut body, prefix, i == 0);
    }
    body
}
