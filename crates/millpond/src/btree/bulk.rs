//! Building a tree from rows in key order: pages are filled as far as is wanted and written once, level above level.
//!
//! A page's fences, and so the prefix that its keys need not store, are known only when it is closed. So a level holds rows
//! back until they would overflow a page with the longest prefix that they allow, then closes the fullest page that its
//! real fences permit and keeps the rest: memory for about a page a level, and for the batch of pages that is being made.
//!
//! The log has no content of these pages, only that they are taken, an extent at a time (To4). They go to the file in
//! batches, by the flusher, under an LSN that is above all redo of whatever they held before, and are synced there before
//! the root, the last page and the only one that is logged, makes them a tree. A page that a frame still holds from an
//! earlier life could be written over by the cleaner later; such a page is made there, and logged.

use base::aligned::AlignedBuf;
use base::{Lsn, PageNo};
use std::collections::VecDeque;

use super::tree::Tree;
use crate::error::{Error, Result};
use crate::mtr::Mtr;
use crate::page::edit::{push_child, push_row};
use crate::page::node::{CHILD_OVERHEAD, ROW_OVERHEAD, SLOTS, Version, common_prefix, separator};
use crate::page::op::{NodeHead, PageOp};
use crate::page::{header, inline_limit, max_key};
use crate::planted::{Bug, planted};
use crate::store::Store;

/// This part of a page stays free for the first changes: updates that make rows a little longer, an insert between two. A
/// page that is filled to the brim splits at the first of them, into two that are half empty; a sixteenth of space is cheap
/// beside that, and no more is given away in a table that is only read.
const SPARE: usize = 16;

/// Redo of a page besides its content: the record's head. Also enough to take an extent.
const REDO_OVERHEAD: usize = 256;

/// Pages that are made and not written yet, each with its number.
#[derive(Debug)]
pub(crate) struct PageBatch {
    /// In the order in which they were made.
    pub(crate) pages: Vec<PageNo>,
    images: AlignedBuf,
    page_bytes: usize,
}

impl PageBatch {
    /// Room for `pages` pages.
    pub(crate) fn new(pages: usize, page_bytes: usize) -> PageBatch {
        PageBatch {
            pages: Vec::with_capacity(pages),
            images: AlignedBuf::zeroed(pages * page_bytes),
            page_bytes,
        }
    }

    /// Another one of the same size, empty.
    pub(crate) fn another(&self) -> PageBatch {
        PageBatch::new(self.images.len() / self.page_bytes, self.page_bytes)
    }

    /// The pages' numbers, and their bytes in the same order.
    pub(crate) fn parts(&mut self) -> (&[PageNo], &mut [u8]) {
        (&self.pages, &mut self.images[..self.pages.len() * self.page_bytes])
    }

    fn is_full(&self) -> bool {
        (self.pages.len() + 1) * self.page_bytes > self.images.len()
    }

    /// Takes in `page`, whose bytes, all zero, are to be filled. REQUIRES: it is not full.
    fn add(&mut self, page: PageNo) -> &mut [u8] {
        let at = self.pages.len() * self.page_bytes;
        self.pages.push(page);
        let image = &mut self.images[at..at + self.page_bytes];
        image.fill(0);
        image
    }
}

/// What a build asks of the engine. It holds no latch then.
pub(crate) trait BulkSink {
    /// Asks to be let in with so many bytes of redo.
    fn admit(&self, redo_bytes: usize) -> Result;
    /// Pages that can be written at once.
    fn batch_pages(&self) -> usize;
    /// Has pages written that no frame holds. Gives back an empty batch to go on with, perhaps while the pages are still on
    /// their way.
    fn write(&self, batch: PageBatch) -> Result<PageBatch>;
    /// Returns when nothing is on its way any more, also if it fails. All pages are durable if neither this nor a write before
    /// has failed.
    fn wait_for_writes(&self) -> Result;
}

/// A build in progress. Until the catalog names the tree, its extents' owner is all that tells of its pages.
pub(crate) struct BulkBuilder {
    tree: Tree,
    version: Version,
    rows: u64,
    levels: Vec<BulkLevel>,
    body: Vec<u8>,
    /// Pages taken for the tree and not used yet.
    unused: VecDeque<PageNo>,
    /// Where the log says that they are taken.
    allocated_at: Lsn,
    /// Pages that are made and not written yet; none until the first is.
    batch: Option<PageBatch>,
}

/// A row or a child whose key begins at `at` in its level's bytes; a row's value follows the key.
#[derive(Clone, Copy, Debug)]
struct PendingEntry {
    at: usize,
    key_len: usize,
    value_len: usize,
    flags: u8,
    child: PageNo,
}

/// Entries of one level that are in no page yet.
#[derive(Debug)]
struct BulkLevel {
    /// 0 for rows.
    number: u8,
    /// Low fence of the page that is being filled.
    low: Vec<u8>,
    /// Its number, if the page before it had to name it.
    page: PageNo,
    entries: Vec<PendingEntry>,
    bytes: Vec<u8>,
    /// What the entries take in a page that stores whole keys, slots included.
    size: usize,
}

impl BulkLevel {
    fn new(number: u8) -> BulkLevel {
        let (low, entries, bytes) = (Vec::new(), Vec::new(), Vec::new());
        BulkLevel { number, low, page: PageNo::NONE, entries, bytes, size: 0 }
    }

    fn size_of(&self, entry: &PendingEntry) -> usize {
        entry.key_len + entry.value_len + if self.number == 0 { ROW_OVERHEAD } else { CHILD_OVERHEAD }
    }

    fn push(&mut self, key: &[u8], value: &[u8], flags: u8, child: PageNo) {
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

    /// Whether the entries may overflow a page of which `limit` bytes may be used, whatever its fences turn out to be.
    fn may_overflow(&self, limit: usize) -> bool {
        let n = self.entries.len();
        n > 1 && {
            let prefix = common_prefix(&self.low, self.key(n - 1));
            SLOTS + self.low.len() + self.size - n * prefix > limit
        }
    }

    /// How many entries the page takes when the next one begins the page after it, and that page's low fence. An entry that
    /// is longer than `limit` gets a page to itself.
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

    /// The first `n` entries as a page with a common prefix of `prefix` bytes holds them.
    fn put_body(&self, version: Version, n: usize, prefix: usize, body: &mut Vec<u8>) {
        body.clear();
        for (i, entry) in self.entries[..n].iter().enumerate() {
            let (key, value) =
                self.bytes[entry.at..][..entry.key_len + entry.value_len].split_at(entry.key_len);
            match self.number {
                0 => push_row(body, &key[prefix..], version, entry.flags, value),
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
    /// Begins to fill `tree`, which nobody else knows, with rows of `version`. What its root holds now is replaced at the
    /// end.
    pub(crate) fn begin(tree: Tree, version: Version) -> BulkBuilder {
        BulkBuilder {
            tree,
            version,
            rows: 0,
            levels: vec![BulkLevel::new(0)],
            body: Vec::new(),
            unused: VecDeque::new(),
            allocated_at: Lsn::ZERO,
            batch: None,
        }
    }

    /// The tree that is being filled.
    pub(crate) fn tree(&self) -> Tree {
        self.tree
    }

    /// How many rows it has taken.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds a row; its key must be above the one before. After an error the build is of no use. REQUIRES: no latch held; key
    /// and value are short enough for a leaf.
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
        self.add(store, 0, key, value, flags, PageNo::NONE, sink)
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of an entry")]
    fn add(
        &mut self,
        store: &Store,
        level: usize,
        key: &[u8],
        value: &[u8],
        flags: u8,
        child: PageNo,
        sink: &dyn BulkSink,
    ) -> Result {
        if level == self.levels.len() {
            self.levels.push(BulkLevel::new(level as u8));
        }
        let at = &mut self.levels[level];
        at.push(key, value, flags, child);
        if at.may_overflow(limit(store, level)) { self.close_page(store, level, sink) } else { Ok(()) }
    }

    /// Writes the fullest page that the entries allow and keeps the rest; there are two entries or more.
    fn close_page(&mut self, store: &Store, level: usize, sink: &dyn BulkSink) -> Result {
        let (n, high) = self.levels[level].full_page(limit(store, level));
        let page = self.write_page(store, level, n, &high, sink)?;
        let at = &mut self.levels[level];
        at.drop_first(n);
        let low = std::mem::replace(&mut at.low, high);
        self.add(store, level + 1, &low, &[], 0, page, sink)
    }

    /// Makes a page of the first `n` entries, the last of its level if there are no more. Returns its number.
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
        let at = &mut self.levels[level];
        at.page = right;
        let head = NodeHead { tree: self.tree.id, level: at.number, right, low: &at.low, high };
        at.put_body(self.version, n, head.prefix(), &mut self.body);
        let op = PageOp::Init { head, body: &self.body };
        if store.pool.holds(page) {
            sink.admit(self.body.len() + REDO_OVERHEAD)?;
            store.log.make_room()?;
            let frame = store.pool.reserve_frame()?;
            let mut mtr = Mtr::begin(&store.log, &store.pool);
            let slot = mtr.add(store.pool.create(page, frame));
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

    /// Has the pages written that are not yet. After an error the build is of no use.
    fn write_batch(&mut self, sink: &dyn BulkSink) -> Result {
        if let Some(batch) = self.batch.take_if(|batch| !batch.pages.is_empty()) {
            self.batch = Some(sink.write(batch)?);
        }
        Ok(())
    }

    /// A page for the tree, in order if possible, so that neighbours go to the file in one write.
    fn take_page(&mut self, store: &Store, sink: &dyn BulkSink) -> Result<PageNo> {
        loop {
            if let Some(page) = self.unused.pop_front() {
                return Ok(page);
            }
            sink.admit(REDO_OVERHEAD)?;
            store.log.make_room()?;
            let mut reserved = store.space.reserve_extent(self.tree.id)?;
            let map = reserved.map()?;
            let mut mtr = Mtr::begin(&store.log, &store.pool);
            let map = map.latch(&mut mtr);
            while reserved.left() > 0 {
                self.unused.push_back(reserved.take(&mut mtr, map));
            }
            self.allocated_at = mtr.commit();
        }
    }

    /// Gives pages back that turned out not to be needed.
    fn free_unused(&mut self, store: &Store, sink: &dyn BulkSink) -> Result {
        let Some(&first) = self.unused.front() else { return Ok(()) };
        sink.admit(REDO_OVERHEAD)?;
        store.log.make_room()?;
        // They are all of one extent.
        let map = store.space.map_of(first)?;
        let mut mtr = Mtr::begin(&store.log, &store.pool);
        let map = map.latch(&mut mtr);
        for page in self.unused.drain(..) {
            store.space.free(&mut mtr, map, page);
        }
        mtr.commit();
        Ok(())
    }

    /// Writes what is left, level by level, the root last.
    pub(crate) fn finish(&mut self, store: &Store, sink: &dyn BulkSink) -> Result {
        let mut level = 0;
        loop {
            // The last page has no high fence and so no common prefix.
            while self.levels[level].entries.len() > 1
                && SLOTS + self.levels[level].low.len() + self.levels[level].size > limit(store, level)
            {
                self.close_page(store, level, sink)?;
            }
            let at = &self.levels[level];
            if at.page.is_none() {
                // Everything of this level fits one page, and that page is the root.
                at.put_body(self.version, at.entries.len(), 0, &mut self.body);
                self.write_batch(sink)?;
                if !planted(Bug::LoadNotAwaited) {
                    sink.wait_for_writes()?;
                }
                self.free_unused(store, sink)?;
                return self.write_root(store, level as u8, sink);
            }
            let n = at.entries.len();
            let page = self.write_page(store, level, n, &[], sink)?;
            let low = std::mem::take(&mut self.levels[level].low);
            self.levels[level].drop_first(n);
            level += 1;
            self.add(store, level, &low, &[], 0, page, sink)?;
        }
    }

    fn write_root(&self, store: &Store, level: u8, sink: &dyn BulkSink) -> Result {
        sink.admit(self.body.len() + REDO_OVERHEAD)?;
        store.log.make_room()?;
        let root = store.pool.fetch(self.tree.root)?.write();
        let mut mtr = Mtr::begin(&store.log, &store.pool);
        let slot = mtr.add(root);
        let head = NodeHead { tree: self.tree.id, level, right: PageNo::NONE, low: &[], high: &[] };
        mtr.apply(slot, &PageOp::Init { head, body: &self.body });
        mtr.commit();
        Ok(())
    }
}

/// How much of a page is filled: inner pages to the brim, so that even the longest keys leave room for several children.
fn limit(store: &Store, level: usize) -> usize {
    let page_bytes = store.pool.page_bytes();
    if level == 0 { page_bytes - page_bytes / SPARE } else { page_bytes }
}

impl std::fmt::Debug for BulkBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BulkBuilder({:?}, {} rows)", self.tree, self.rows)
    }
}
