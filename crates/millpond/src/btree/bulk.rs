//! Bulk load: builds a tree from rows in key order. Pages are filled to a limit and written once,
//! level above level.
//!
//! The fences of a page, and so the prefix that its keys need not store, are known only when the
//! page is closed. So a level collects rows until they would overflow a page with the longest
//! prefix that they allow. Then it closes the fullest page that the real fences permit and keeps
//! the rest. It needs memory for about one page a level, and for one batch of finished pages.
//!
//! The log does not contain these pages; it only says, an extent at a time, that they are allocated
//! (To4). The flusher writes them to the file in batches, under an LSN above all redo of their
//! earlier content. They are synced there before the root makes them a tree; the root is the last
//! page and the only one that is logged. One exception: a frame may still hold a page from its
//! earlier use, and the cleaner could later overwrite the page in the file. Such a page is changed
//! in that frame, and logged.

use base::aligned::AlignedBuf;
use base::{Lsn, PageNo};
use std::collections::VecDeque;

use super::tree::Tree;
use crate::error::{Error, Result};
use crate::mtr::Mtr;
use crate::page::edit::{push_child, push_row};
use crate::page::node::{CHILD_OVERHEAD, SETTLED_OVERHEAD, SLOTS, common_prefix, separator};
use crate::page::op::{NodeHead, PageOp};
use crate::page::{header, inline_limit, max_key};
use crate::planted::{Bug, planted};
use crate::tree_store::Store;

/// This part of a leaf stays free for the first changes: the versions that changed rows name, 11
/// bytes each, values that become a little longer, an insert between two rows. A full page splits
/// at the first of them into two half-empty pages. A sixteenth of the space is cheap compared with
/// that, and a table that is only read loses no more.
const SPARE: usize = 16;

/// Redo of a page besides its content: the record's header. Also enough for the allocation of an
/// extent.
const REDO_OVERHEAD: usize = 256;

/// Finished pages that are not written yet, each with its number.
#[derive(Debug)]
pub(crate) struct PageBatch {
    /// Numbers, in the order in which the pages were finished.
    pub(crate) pages: Vec<PageNo>,
    images: AlignedBuf,
    page_bytes: usize,
}

impl PageBatch {
    /// Makes an empty batch with room for `pages` pages.
    pub(crate) fn new(pages: usize, page_bytes: usize) -> PageBatch {
        PageBatch {
            pages: Vec::with_capacity(pages),
            images: AlignedBuf::zeroed(pages * page_bytes),
            page_bytes,
        }
    }

    /// Returns an empty batch of the same size.
    pub(crate) fn another(&self) -> PageBatch {
        PageBatch::new(self.images.len() / self.page_bytes, self.page_bytes)
    }

    /// Returns the pages' numbers, and their bytes in the same order.
    pub(crate) fn parts(&mut self) -> (&[PageNo], &mut [u8]) {
        (&self.pages, &mut self.images[..self.pages.len() * self.page_bytes])
    }

    fn is_full(&self) -> bool {
        (self.pages.len() + 1) * self.page_bytes > self.images.len()
    }

    /// Adds `page`. Returns its bytes, all zero, to be filled. REQUIRES: the batch is not full.
    fn add(&mut self, page: PageNo) -> &mut [u8] {
        let at = self.pages.len() * self.page_bytes;
        self.pages.push(page);
        let image = &mut self.images[at..at + self.page_bytes];
        image.fill(0);
        image
    }
}

/// The services of the engine that a build calls. It holds no latch during a call.
pub(crate) trait BulkSink {
    /// Waits until admission lets in `redo_bytes` bytes of redo.
    fn admit(&self, redo_bytes: usize) -> Result;
    /// Returns how many pages can be written at once.
    fn batch_pages(&self) -> usize;
    /// Writes pages that no frame holds. Returns an empty batch, possibly while the pages are still
    /// being written.
    fn write(&self, batch: PageBatch) -> Result<PageBatch>;
    /// Waits until no write is in progress; also if it fails. All pages are durable if neither this
    /// call nor a `write` before it has failed.
    fn wait_for_writes(&self) -> Result;
}

/// A bulk build in progress. Until the catalog names the tree, only the owner of its extents tells
/// which pages it has.
pub(crate) struct BulkBuilder {
    tree: Tree,
    rows: u64,
    levels: Vec<BulkLevel>,
    body: Vec<u8>,
    /// Pages allocated for the tree and not used yet.
    unused: VecDeque<PageNo>,
    /// LSN of the log group that allocated them.
    allocated_at: Lsn,
    /// Finished pages that are not written yet; none until the first page is finished.
    batch: Option<PageBatch>,
}

/// A row or a child to be added to a level.
#[derive(Clone, Copy, Debug)]
struct NewEntry<'a> {
    key: &'a [u8],
    value: &'a [u8],
    flags: u8,
    child: PageNo,
}

impl<'a> NewEntry<'a> {
    fn row(key: &'a [u8], value: &'a [u8], flags: u8) -> NewEntry<'a> {
        NewEntry { key, value, flags, child: PageNo::NONE }
    }

    fn child(key: &'a [u8], child: PageNo) -> NewEntry<'a> {
        NewEntry { key, value: &[], flags: 0, child }
    }
}

/// A row or a child that is in no page yet. Its key begins at `at` in the bytes of its level; a
/// row's value follows the key.
#[derive(Clone, Copy, Debug)]
struct PendingEntry {
    at: usize,
    key_len: usize,
    value_len: usize,
    flags: u8,
    child: PageNo,
}

/// The entries of one level that are in no page yet.
#[derive(Debug)]
struct BulkLevel {
    /// 0 for the leaves.
    number: u8,
    /// Low fence of the page that is being filled.
    low: Vec<u8>,
    /// Number of that page, if the page before it had to name it.
    page: PageNo,
    entries: Vec<PendingEntry>,
    bytes: Vec<u8>,
    /// Bytes of the entries in a page that stores whole keys, slots included.
    size: usize,
}

impl BulkLevel {
    fn new(number: u8) -> BulkLevel {
        let (low, entries, bytes) = (Vec::new(), Vec::new(), Vec::new());
        BulkLevel { number, low, page: PageNo::NONE, entries, bytes, size: 0 }
    }

    fn size_of(&self, entry: &PendingEntry) -> usize {
        entry.key_len + entry.value_len + if self.number == 0 { SETTLED_OVERHEAD } else { CHILD_OVERHEAD }
    }

    fn push(&mut self, entry: NewEntry<'_>) {
        let NewEntry { key, value, flags, child } = entry;
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        let entry = PendingEntry { at, key_len: key.len(), value_len: value.len(), flags, child };
        self.size += self.size_of(&entry);
        self.entries.push(entry);
    }

    fn key(&self, n: usize) -> &[u8] {
        let entry = &self.entries[n];
        &self.bytes[entry.at..entry.at + entry.key_len]
    }

    /// Returns whether the entries may overflow a page of which `limit` bytes may be used, whatever
    /// fences it gets.
    fn may_overflow(&self, limit: usize) -> bool {
        let n = self.entries.len();
        n > 1 && {
            let prefix = common_prefix(&self.low, self.key(n - 1));
            SLOTS + self.low.len() + self.size - n * prefix > limit
        }
    }

    /// Returns how many entries go into the page when the next entry begins the page after it, and
    /// the low fence of that page. An entry longer than `limit` gets a page of its own.
    fn full_page(&self, limit: usize) -> (usize, Vec<u8>) {
        let mut size = self.size;
        for n in (1..self.entries.len()).rev() {
            size -= self.size_of(&self.entries[n]);
            let next = self.key(n);
            let high = if self.number == 0 { separator(self.key(n - 1), next) } else { next };
            let prefix = common_prefix(&self.low, high);
            if n == 1 || SLOTS + self.low.len() + high.len() + size - n * prefix <= limit {
                return (n, high.to_vec());
            }
        }
        unreachable!("called with two entries or more")
    }

    /// Encodes the first `n` entries as the body of a page with a common prefix of `prefix` bytes.
    fn put_body(&self, n: usize, prefix: usize, body: &mut Vec<u8>) {
        body.clear();
        for (i, entry) in self.entries[..n].iter().enumerate() {
            let (key, value) =
                self.bytes[entry.at..][..entry.key_len + entry.value_len].split_at(entry.key_len);
            match self.number {
                0 => push_row(body, &key[prefix..], entry.flags, value),
                // The first separator is the low fence.
                _ if i == 0 => push_child(body, &[], entry.child),
                _ => push_child(body, &key[prefix..], entry.child),
            }
        }
    }

    fn drop_first(&mut self, n: usize) {
        let cut = self.entries.get(n).map_or(self.bytes.len(), |entry| entry.at);
        self.bytes.drain(..cut);
        self.entries.drain(..n);
        self.entries.iter_mut().for_each(|entry| entry.at -= cut);
        self.size = self.entries.iter().map(|entry| self.size_of(entry)).sum();
    }
}

impl BulkBuilder {
    /// Begins to fill `tree`, which no other code knows yet, with rows that name no version. The
    /// end of the build replaces the present content of the root.
    pub(crate) fn begin(tree: Tree) -> BulkBuilder {
        BulkBuilder {
            tree,
            rows: 0,
            levels: vec![BulkLevel::new(0)],
            body: Vec::new(),
            unused: VecDeque::new(),
            allocated_at: Lsn::ZERO,
            batch: None,
        }
    }

    /// Returns the tree that is being filled.
    pub(crate) fn tree(&self) -> Tree {
        self.tree
    }

    /// Returns how many rows it has taken.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds a row; its key must be above the key before. After an error the build is of no use.
    /// REQUIRES: no latch held; key and value are short enough for a leaf.
    pub(crate) fn push(
        &mut self,
        store: &Store,
        key: &[u8],
        flags: u8,
        value: &[u8],
        sink: &dyn BulkSink,
    ) -> Result {
        let page_bytes = store.pool.page_bytes();
        base::check!(key.len() <= max_key(page_bytes) && value.len() <= inline_limit(page_bytes));
        self.rows += 1;
        let leaf = &self.levels[0];
        if let Some(last) = leaf.entries.len().checked_sub(1)
            && leaf.key(last) >= key
        {
            let how = if leaf.key(last) == key { "has the key of" } else { "belongs before" };
            return Err(Error::Misuse(format!(
                "row {} {how} the row before it: a bulk load takes rows in key order, each key once",
                self.rows
            )));
        }
        self.add(store, 0, NewEntry::row(key, value, flags), sink)
    }

    /// Adds an entry to `level`, and closes a page if the entries may overflow one.
    fn add(&mut self, store: &Store, level: usize, entry: NewEntry<'_>, sink: &dyn BulkSink) -> Result {
        if level == self.levels.len() {
            self.levels.push(BulkLevel::new(level as u8));
        }
        let pending = &mut self.levels[level];
        pending.push(entry);
        if pending.may_overflow(fill_limit(store, level)) {
            self.close_page(store, level, sink)
        } else {
            Ok(())
        }
    }

    /// Closes the fullest page that the entries allow and keeps the rest. REQUIRES: two entries or
    /// more.
    fn close_page(&mut self, store: &Store, level: usize, sink: &dyn BulkSink) -> Result {
        let (n, high) = self.levels[level].full_page(fill_limit(store, level));
        let page = self.write_page(store, level, n, &high, sink)?;
        let pending = &mut self.levels[level];
        pending.drop_first(n);
        let low = std::mem::replace(&mut pending.low, high);
        self.add(store, level + 1, NewEntry::child(&low, page), sink)
    }

    /// Makes a page of the first `n` entries, the last page of its level if there are no more.
    /// Returns its number.
    fn write_page(
        &mut self,
        store: &Store,
        level: usize,
        n: usize,
        high: &[u8],
        sink: &dyn BulkSink,
    ) -> Result<PageNo> {
        let named = self.levels[level].page;
        let page = if named.is_none() { self.take_page(store, sink)? } else { named };
        let is_last = n == self.levels[level].entries.len();
        let right = if is_last { PageNo::NONE } else { self.take_page(store, sink)? };
        let pending = &mut self.levels[level];
        pending.page = right;
        let head = NodeHead { tree: self.tree.id, level: pending.number, right, low: &pending.low, high };
        pending.put_body(n, head.prefix(), &mut self.body);
        let op = PageOp::Init { head, body: &self.body };
        if store.pool.holds(page) {
            sink.admit(self.body.len() + REDO_OVERHEAD)?;
            let frame = store.pool.hold_frames()?.take_frame()?;
            let (mut mtr, slot) = Mtr::begin_new(&store.log, &store.pool, page, frame)?;
            mtr.apply(slot, &op);
            mtr.commit();
            return Ok(page);
        }
        let batch =
            self.batch.get_or_insert_with(|| PageBatch::new(sink.batch_pages(), store.pool.page_bytes()));
        let image = batch.add(page);
        op.apply(image).expect("what fits a page");
        header::set_page_no(image, page);
        header::set_lsn(image, self.allocated_at);
        if batch.is_full() {
            self.write_batch(sink)?;
        }
        Ok(page)
    }

    /// Writes the finished pages of the batch. After an error the build is of no use.
    fn write_batch(&mut self, sink: &dyn BulkSink) -> Result {
        if let Some(batch) = self.batch.take_if(|batch| !batch.pages.is_empty()) {
            self.batch = Some(sink.write(batch)?);
        }
        Ok(())
    }

    /// Returns an unused page of the tree. Pages come in order if possible, so that neighbours are
    /// written together.
    fn take_page(&mut self, store: &Store, sink: &dyn BulkSink) -> Result<PageNo> {
        loop {
            if let Some(page) = self.unused.pop_front() {
                return Ok(page);
            }
            sink.admit(REDO_OVERHEAD)?;
            let mut reserved = store.space.reserve_extent(self.tree.id)?;
            let map = reserved.map(&store.pool.hold_frames()?)?;
            let mut mtr = Mtr::begin(&store.log, &store.pool)?;
            let map = map.latch(&mut mtr);
            while reserved.left() > 0 {
                self.unused.push_back(reserved.take(&mut mtr, map));
            }
            self.allocated_at = mtr.commit();
        }
    }

    /// Frees the pages that turned out not to be needed.
    fn free_unused(&mut self, store: &Store, sink: &dyn BulkSink) -> Result {
        let Some(&first) = self.unused.front() else { return Ok(()) };
        sink.admit(REDO_OVERHEAD)?;
        // They are all of one extent.
        let map = store.space.map_of(first, &store.pool.hold_frames()?)?;
        let mut mtr = Mtr::begin(&store.log, &store.pool)?;
        let map = map.latch(&mut mtr);
        for page in self.unused.drain(..) {
            store.space.free(&mut mtr, map, page);
        }
        mtr.commit();
        Ok(())
    }

    /// Finishes the build: writes what is left, level by level, the root last.
    pub(crate) fn finish(&mut self, store: &Store, sink: &dyn BulkSink) -> Result {
        let mut level = 0;
        loop {
            // The last page has no high fence and so no common prefix.
            while self.levels[level].entries.len() > 1
                && SLOTS + self.levels[level].low.len() + self.levels[level].size > fill_limit(store, level)
            {
                self.close_page(store, level, sink)?;
            }
            let pending = &self.levels[level];
            if pending.page.is_none() {
                // All entries of this level fit one page, and that page is the root.
                pending.put_body(pending.entries.len(), 0, &mut self.body);
                self.write_batch(sink)?;
                if !planted(Bug::LoadNotAwaited) {
                    sink.wait_for_writes()?;
                }
                self.free_unused(store, sink)?;
                return self.write_root(store, level as u8, sink);
            }
            let n = pending.entries.len();
            let page = self.write_page(store, level, n, &[], sink)?;
            let low = std::mem::take(&mut self.levels[level].low);
            self.levels[level].drop_first(n);
            level += 1;
            self.add(store, level, NewEntry::child(&low, page), sink)?;
        }
    }

    fn write_root(&self, store: &Store, level: u8, sink: &dyn BulkSink) -> Result {
        sink.admit(self.body.len() + REDO_OVERHEAD)?;
        let root = store.pool.fetch(self.tree.root)?;
        let mut mtr = Mtr::begin(&store.log, &store.pool)?;
        let slot = mtr.add(root.write());
        let head = NodeHead { tree: self.tree.id, level, right: PageNo::NONE, low: &[], high: &[] };
        mtr.apply(slot, &PageOp::Init { head, body: &self.body });
        mtr.commit();
        Ok(())
    }
}

/// Returns how many bytes of a page are filled. Inner pages are filled completely, so that even
/// with the longest keys a page has several children.
fn fill_limit(store: &Store, level: usize) -> usize {
    let page_bytes = store.pool.page_bytes();
    if level == 0 { page_bytes - page_bytes / SPARE } else { page_bytes }
}

impl std::fmt::Debug for BulkBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BulkBuilder({:?}, {} rows)", self.tree, self.rows)
    }
}
