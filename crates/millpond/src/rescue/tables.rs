//! The rows of a tree, from its leaves wherever they are found, without its inner pages.

use super::leaves::{FoundLeaf, KeyRange, share};
use super::owners::{Owner, Owners};
use super::pages::Pages;
use super::problem::{Problems, RescueProblem};
use super::source::Source;
use super::versions::Committed;
use crate::error::Result;
use crate::page::header::{self, PageKind};
use crate::page::map::{EXTENT_PAGES, extents_per_map};
use crate::page::node::{Leaf, OVERFLOW};
use crate::page::overflow::{ChainRef, Overflow};
use base::{PageNo, TreeId};
use std::collections::BTreeMap;

/// The pages of the database, sorted.
#[derive(Debug, Default)]
pub(super) struct PageIndex {
    /// The leaves of each tree.
    pub(super) leaves: BTreeMap<TreeId, Vec<PageNo>>,
    /// Pages in use with a flaw, their tree if it is known, and the flaw.
    pub(super) flawed: Vec<(PageNo, Option<TreeId>, String)>,
    /// Pages that were read.
    pub(super) read: u64,
}

impl PageIndex {
    /// Reads all pages.
    pub(super) fn read(pages: &Pages) -> Result<PageIndex> {
        let (mut index, mut owners) = (PageIndex::default(), Owners::new(pages));
        let group = extents_per_map(pages.page_bytes) * EXTENT_PAGES;
        pages.each_page(&mut |no, state| {
            index.read += 1;
            let named = state.bytes.as_ref().map(|bytes| header::tree(bytes));
            if let Some(flaw) = &state.flaw {
                let tree = match owners.of(no) {
                    Owner::Tree(tree) => Some(tree),
                    Owner::Unknown => named,
                };
                let tree = tree.filter(|tree| *tree != TreeId::NONE);
                // The first extent of a group has the map, which belongs to no tree.
                let is_of_map = no.0 % group < EXTENT_PAGES;
                if tree.is_some() || is_of_map || owners.of(no) == Owner::Unknown {
                    index.flawed.push((no, tree, flaw.clone()));
                }
            }
            let is_leaf =
                state.bytes.as_ref().is_some_and(|bytes| header::kind(bytes) == Some(PageKind::Leaf));
            // The leaves of a dropped table stay in the file until others take their place.
            if is_leaf
                && let Some(tree) = named
                && [Owner::Unknown, Owner::Tree(tree)].contains(&owners.of(no))
            {
                index.leaves.entry(tree).or_default().push(no);
            }
            Ok(())
        })?;
        Ok(index)
    }
}

/// A tree whose rows are read.
pub(super) struct TreeReader<'a> {
    pub(super) source: &'a Source,
    pub(super) tree: TreeId,
    /// The name of its table, for problems.
    pub(super) name: &'a str,
}

/// What takes the rows, in key order.
pub(super) type RowSink<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result;

impl TreeReader<'_> {
    /// Reads all rows from these leaves.
    pub(super) fn read(&self, leaves: &[PageNo], problems: &mut Problems<'_>, sink: RowSink<'_>) -> Result {
        let found: Vec<FoundLeaf> = leaves.iter().filter_map(|page| self.found(*page)).collect();
        let complete: Vec<FoundLeaf> = found.iter().filter(|leaf| !leaf.is_old).cloned().collect();
        let shares = share(found);
        self.name_overlaps(&complete, &shares, problems);
        let mut last: Option<Vec<u8>> = None;
        for (range, page) in shares {
            match page {
                Some(page) => self.read_leaf(page, &range, &mut last, problems, sink)?,
                None => {
                    let KeyRange { from, to } = range;
                    problems.add(RescueProblem::Range { table: self.name.to_owned(), from, to });
                }
            }
        }
        Ok(())
    }

    fn found(&self, page: PageNo) -> Option<FoundLeaf> {
        let state = self.source.pages.page(page);
        let bytes = state.bytes?;
        let leaf = Leaf::new(&bytes);
        Some(FoundLeaf {
            page,
            lsn: header::lsn(&bytes),
            is_old: state.flaw.is_some(),
            low: leaf.low_fence().to_vec(),
            high: leaf.high_fence().map(<[u8]>::to_vec),
        })
    }

    /// Names the leaves that seemed complete, but of whose keys a newer leaf has some: a write of
    /// them was lost.
    fn name_overlaps(
        &self,
        complete: &[FoundLeaf],
        shares: &[(KeyRange, Option<PageNo>)],
        problems: &mut Problems<'_>,
    ) {
        let whole: BTreeMap<PageNo, &KeyRange> =
            shares.iter().filter_map(|(range, page)| Some(((*page)?, range))).collect();
        for leaf in complete {
            let is_whole =
                whole.get(&leaf.page).is_some_and(|range| range.from == leaf.low && range.to == leaf.high);
            if !is_whole {
                problems.add(RescueProblem::Page {
                    page: leaf.page.0,
                    table: Some(self.name.to_owned()),
                    what: "a newer page has some of its keys, so a write of it was lost: its rows may be older than \
                           they were"
                        .to_owned(),
                });
            }
        }
    }

    fn read_leaf(
        &self,
        page: PageNo,
        range: &KeyRange,
        last: &mut Option<Vec<u8>>,
        problems: &mut Problems<'_>,
        sink: RowSink<'_>,
    ) -> Result {
        let state = self.source.pages.page(page);
        let Some(bytes) = state.bytes else { return Ok(()) };
        let leaf = Leaf::new(&bytes);
        for i in 0..leaf.len() {
            let key = leaf.key(i).to_vec();
            if key < range.from || range.to.as_ref().is_some_and(|to| key >= *to) {
                continue;
            }
            if last.as_ref().is_some_and(|last| key <= *last) {
                self.name_row(&key, format!("it is out of order in page {}", page.0), problems);
                continue;
            }
            let value = self.source.transactions.committed(self.tree, &key, leaf.row(i));
            match value.and_then(|row| row.map(|row| self.value(row)).transpose()) {
                Ok(Some((value, is_uncertain))) => {
                    if is_uncertain {
                        let what = "whether its transaction had committed is not known: it is saved as if so";
                        self.name_row(&key, what.to_owned(), problems);
                    }
                    sink(&key, &value)?;
                    *last = Some(key);
                }
                Ok(None) => {}
                Err(what) => self.name_row(&key, what, problems),
            }
        }
        Ok(())
    }

    fn name_row(&self, key: &[u8], what: String, problems: &mut Problems<'_>) {
        problems.add(RescueProblem::Row { table: self.name.to_owned(), key: key.to_vec(), what });
    }

    /// Returns the value of a row, and whether it is uncertain.
    fn value(&self, row: Committed) -> Result<(Vec<u8>, bool), String> {
        if row.flags & OVERFLOW == 0 {
            return Ok((row.value, row.is_uncertain));
        }
        let chain = ChainRef::decode(&row.value);
        let chain = chain.map_err(|_| "the reference to its long value is malformed".to_owned())?;
        Ok((read_chain(&self.source.pages, &chain)?, row.is_uncertain))
    }
}

/// Reads a long value.
fn read_chain(pages: &Pages, chain: &ChainRef) -> Result<Vec<u8>, String> {
    let (mut value, mut at) = (Vec::new(), chain.head);
    while !at.is_none() {
        let state = pages.page(at);
        let why = || state.flaw.clone().unwrap_or_else(|| "another one stands there".to_owned());
        let missing = || format!("page {} of its long value cannot be read: {}", at.0, why());
        let bytes = state.bytes.as_ref().ok_or_else(missing)?;
        let part = Overflow::new(bytes).filter(|part| part.owner() == chain.owner).ok_or_else(missing)?;
        value.extend_from_slice(part.data());
        if part.data().is_empty() || value.len() > chain.len as usize {
            break;
        }
        at = part.next();
    }
    if value.len() == chain.len as usize {
        return Ok(value);
    }
    Err(format!("its long value has {} of {} bytes", value.len(), chain.len))
}
