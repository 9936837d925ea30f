//! Which pages lack redo of the last run, and where the last change of each begins.

use base::{Lsn, PageNo};
use std::collections::BTreeMap;

/// Page numbers are dense, so the table has them in chunks of as many entries.
const CHUNK_PAGES: usize = 4096;

/// For each page the LSN of its last change that the page may lack; eight bytes a page.
#[derive(Debug, Default)]
pub(crate) struct RedoTable {
    /// By page number: one more than the LSN, or 0 for a page that lacks nothing.
    chunks: BTreeMap<u32, Box<[u64; CHUNK_PAGES]>>,
}

impl RedoTable {
    fn place(page: PageNo) -> (u32, usize) {
        (page.0 / CHUNK_PAGES as u32, page.0 as usize % CHUNK_PAGES)
    }

    /// Notes a change of the page. A change that the table knows already, or a later one, stays.
    pub(crate) fn note(&mut self, page: PageNo, lsn: Lsn) {
        let (chunk, at) = RedoTable::place(page);
        let chunk = self.chunks.entry(chunk).or_insert_with(|| Box::new([0; CHUNK_PAGES]));
        chunk[at] = chunk[at].max(lsn.0 + 1);
    }

    /// Returns the LSN of the last change that the page may lack.
    pub(crate) fn last(&self, page: PageNo) -> Option<Lsn> {
        let (chunk, at) = RedoTable::place(page);
        self.chunks.get(&chunk).and_then(|chunk| chunk[at].checked_sub(1)).map(Lsn)
    }

    /// Notes that the page lacks nothing.
    pub(crate) fn done(&mut self, page: PageNo) {
        let (chunk, at) = RedoTable::place(page);
        if let Some(chunk) = self.chunks.get_mut(&chunk) {
            chunk[at] = 0;
        }
    }

    /// Returns how many pages lack something.
    pub(crate) fn count(&self) -> usize {
        self.chunks.values().map(|chunk| chunk.iter().filter(|entry| **entry > 0).count()).sum()
    }

    /// Returns the memory that it takes, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.chunks.len() * size_of::<[u64; CHUNK_PAGES]>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_each_page_counts() {
        let mut table = RedoTable::default();
        for (page, lsn) in [(7, 90), (7, 40), (4096, 0), (7, 95), (u32::MAX, 3)] {
            table.note(PageNo(page), Lsn(lsn));
        }
        let last = |table: &RedoTable, page| table.last(PageNo(page));
        assert_eq!(last(&table, 7), Some(Lsn(95)));
        assert_eq!(last(&table, 4096), Some(Lsn(0)));
        assert_eq!(last(&table, u32::MAX), Some(Lsn(3)));
        assert_eq!((last(&table, 8), last(&table, 1 << 20)), (None, None));
        assert_eq!(table.count(), 3);
        table.done(PageNo(7));
        table.done(PageNo(1 << 20));
        assert_eq!((last(&table, 7), table.count()), (None, 2));
        assert_eq!(table.bytes(), 3 * 4096 * 8);
    }
}
