//! Checks every page of a tree and the links between them. It can run beside writers. It latches
//! the pages that it compares at the same time, so a difference is damage, not a change in
//! progress.

use base::PageNo;
use pace::read_ahead::ReadAhead;

use super::descend::Latched;
use super::overflow::chain_pages;
use super::read_ahead::LeafReads;
use super::seek::Seek;
use super::tree::Tree;
use crate::buffer::FetchHint;
use crate::error::{Error, Result};
use crate::page::node::{DELETED, Inner, Leaf, Node, OVERFLOW};
use crate::page::overflow::{ChainRef, pages_for};
use crate::page::verify;
use crate::tree_store::Store;

/// The result of a check of a tree.
#[derive(Debug, Default)]
pub(crate) struct TreeCheck {
    /// Every page that the root leads to, including chains of the rows' present versions.
    pub(crate) pages: Vec<PageNo>,
    /// Rows, without deleted ones that purge has not removed yet.
    pub(crate) rows: u64,
    /// Splits that are not posted yet. They are no damage.
    pub(crate) unposted: u64,
    /// All problems; empty for a sound tree.
    pub(crate) problems: Vec<String>,
}

/// What a check has found so far.
#[derive(Default)]
struct Findings {
    report: TreeCheck,
    /// Chains to check, and the keys of the rows that refer to them.
    chains: Vec<(ChainRef, Vec<u8>)>,
}

impl Findings {
    fn problem(&mut self, page: PageNo, what: &str) {
        self.report.problems.push(format!("{page:?}: {what}"));
    }

    fn append(&mut self, mut part: Findings) {
        self.report.pages.append(&mut part.report.pages);
        self.report.problems.append(&mut part.report.problems);
        self.report.rows += part.report.rows;
        self.report.unposted += part.report.unposted;
        self.chains.append(&mut part.chains);
    }
}

/// The result of checking one child of an inner page and the unposted pages to its right.
enum ChildCheck {
    /// Checked. The next child begins at this key, if there is one.
    Done(Option<Vec<u8>>),
    /// This page must be fetched; then check again. With it the key where the next child begins.
    Missing(PageNo, Option<Vec<u8>>),
}

impl Tree {
    /// Checks the whole tree. Damage is reported; an error means that the check itself was
    /// impossible. REQUIRES: no latch held.
    pub(crate) fn check(&self, store: &Store) -> Result<TreeCheck> {
        let mut found = Findings::default();
        let root = match store.pool.fetch(self.root) {
            Ok(pin) => pin.read(),
            Err(e) => return record_damage(e, &mut found.report).map(|()| found.report),
        };
        if let Err(e) = self.verify_root(store, &root) {
            return record_damage(e, &mut found.report).map(|()| found.report);
        }
        let top = Node::new(&root).level();
        check_page(&root, self.root, &mut found);
        drop(root);
        for level in (0..top).rev() {
            self.check_level(store, level, &mut found)?;
        }
        let Findings { mut report, chains } = found;
        for (chain, key) in chains {
            self.check_chain(store, &chain, &key, &mut report)?;
        }
        Ok(report)
    }

    fn check_level(&self, store: &Store, level: u8, found: &mut Findings) -> Result {
        let mut cursor = Some(Vec::new());
        let mut missing = None;
        let mut ahead = ReadAhead::default();
        let mut reads = LeafReads::forward(FetchHint::Normal, &mut ahead, None);
        while let Some(key) = cursor.take() {
            let _kept = match missing.take() {
                None => None,
                Some((page, beyond)) => {
                    reads.read_noted(store);
                    match store.pool.fetch(page) {
                        Ok(pin) => Some(pin),
                        Err(e) => {
                            record_damage(e, &mut found.report)?;
                            cursor = beyond;
                            continue;
                        }
                    }
                }
            };
            match self.check_child(store, level, &key, found, &mut reads) {
                Ok(ChildCheck::Done(next)) => {
                    if next.as_ref().is_some_and(|next| *next <= key) {
                        let what = format!("{:?}: the keys of level {} go back", self.id, level + 1);
                        found.report.problems.push(what);
                        return Ok(());
                    }
                    cursor = next;
                }
                Ok(ChildCheck::Missing(page, beyond)) => {
                    missing = Some((page, beyond));
                    cursor = Some(key);
                }
                Err(e) => return record_damage(e, &mut found.report),
            }
        }
        Ok(())
    }

    /// Checks the child that covers `key` and the pages between it and the next child.
    fn check_child(
        &self,
        store: &Store,
        level: u8,
        key: &[u8],
        found: &mut Findings,
        reads: &mut LeafReads<'_>,
    ) -> Result<ChildCheck> {
        let Some(reached) = self.descend(store, Seek::At(key), level + 1, false)? else {
            return Ok(ChildCheck::Done(None));
        };
        let Latched::Read(parent) = reached.page else { unreachable!("a shared latch was asked for") };
        let inner = Inner::new(&parent);
        let at = inner.find(key);
        let is_last = at + 1 == inner.len();
        let end =
            if is_last { inner.high_fence().map(<[u8]>::to_vec) } else { Some(inner.key(at + 1).to_vec()) };
        let mut begin = inner.key(at).to_vec();
        let mut no = inner.child(at);
        // These count only if no page was missing. Otherwise they are found again.
        let mut part = Findings::default();
        let mut before: Option<crate::buffer::PageRead<'_>> = None;
        loop {
            let Some(pin) = store.pool.try_pin(no) else {
                if before.is_none() {
                    reads.missed(store, &parent, at);
                }
                return Ok(ChildCheck::Missing(no, end));
            };
            reads.at(no);
            if no == parent.page_no() || before.as_ref().is_some_and(|page| page.page_no() == no) {
                return Err(self.damage(store, no, "the page leads to itself"));
            }
            let page = pin.read();
            drop(before.take());
            self.verify_page(store, &page, level, no)?;
            let node = Node::new(&page);
            if node.low_fence() != begin {
                part.problem(no, "it does not begin where its parent or left sibling says");
            }
            check_page(&page, no, &mut part);
            match (node.high_fence(), &end) {
                (None, None) => break,
                (Some(high), Some(end)) if high == end => {
                    if !is_last && node.right() != inner.child(at + 1) {
                        part.problem(no, "its right sibling is not the parent's next child");
                    }
                    break;
                }
                (Some(high), end) if high > &begin[..] && end.as_ref().is_none_or(|end| high < end) => {
                    part.report.unposted += 1;
                    begin = high.to_vec();
                    no = node.right();
                }
                _ => {
                    part.problem(no, "it does not end where its parent says");
                    break;
                }
            }
            before = Some(page);
        }
        found.append(part);
        Ok(ChildCheck::Done(end))
    }

    fn check_chain(&self, store: &Store, chain: &ChainRef, key: &[u8], report: &mut TreeCheck) -> Result {
        match chain_pages(store, chain.head, chain.owner) {
            Ok(pages) => {
                let whole = pages.len() == pages_for(store.pool.page_bytes(), chain.len as usize);
                // Nothing was latched meanwhile. The row may have another value by now, and this
                // chain may be being freed.
                if !self.row_has_chain(store, key, chain)? {
                    return Ok(());
                }
                if !whole {
                    report.problems.push(format!("{:?}: a long value has lost pages", chain.head));
                }
                report.pages.extend(pages);
                Ok(())
            }
            Err(e) => record_damage(e, report),
        }
    }

    /// Returns whether the row of `key` refers to `chain` now.
    fn row_has_chain(&self, store: &Store, key: &[u8], chain: &ChainRef) -> Result<bool> {
        let page = self.leaf_read(store, key)?;
        let leaf = Leaf::new(&page);
        let Ok(slot) = leaf.search(key) else { return Ok(false) };
        let row = leaf.row(slot);
        Ok(row.flags & OVERFLOW != 0 && ChainRef::decode(row.value).is_ok_and(|now| now == *chain))
    }
}

/// Checks one latched page by itself.
fn check_page(page: &[u8], no: PageNo, found: &mut Findings) {
    found.report.pages.push(no);
    found.report.problems.extend(verify::problems(page).iter().map(|damage| format!("{no:?}: {damage}")));
    if Node::new(page).level() > 0 {
        return;
    }
    let leaf = Leaf::new(page);
    let rows = || (0..leaf.len()).map(|i| (i, leaf.row(i)));
    found.report.rows += rows().filter(|(_, row)| row.flags & DELETED == 0).count() as u64;
    for (i, row) in rows().filter(|(_, row)| row.flags & OVERFLOW != 0) {
        match ChainRef::decode(row.value) {
            Ok(chain) => found.chains.push((chain, leaf.key(i).to_vec())),
            Err(_) => found.problem(no, "a row's reference to its long value is damaged"),
        }
    }
}

/// Adds damage to the report; returns any other error, which ends the check.
fn record_damage(error: Error, report: &mut TreeCheck) -> Result {
    match error {
        Error::Corrupt { what, .. } => {
            report.problems.push(what);
            Ok(())
        }
        other => Err(other),
    }
}
