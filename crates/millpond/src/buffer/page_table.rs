//! Page number → frame, as a flat array: page numbers are dense, so there is nothing to hash and nothing to lock.
//!
//! An entry is the frame's index plus one, 0 for "not resident". It is a hint until the frame, once pinned, confirms
//! that it holds the page.

use std::sync::OnceLock;

use base::PageNo;
use base::sync::atomic::{AtomicU32, Ordering};

/// Entries of one chunk, allocated when a page of it is first fetched: 512 KiB of table for 1 GiB of 8 KiB pages.
const CHUNK: usize = 1 << 17;
const CHUNKS: usize = (1 << 32) / CHUNK;

type Chunk = Box<[AtomicU32]>;

/// The table.
#[derive(Debug)]
pub(super) struct PageTable {
    /// Filled by an initialiser that waits for nobody, so the cell is no hidden wait.
    chunks: Box<[OnceLock<Chunk>]>,
}

impl PageTable {
    /// An empty table.
    pub(super) fn new() -> Self {
        PageTable { chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect() }
    }

    /// The frame that holds `page`, if the table knows one.
    #[inline]
    pub(super) fn get(&self, page: PageNo) -> Option<u32> {
        let index = page.0 as usize;
        let entry = self.chunks[index / CHUNK].get()?[index % CHUNK].load(Ordering::Acquire);
        entry.checked_sub(1)
    }

    fn entry(&self, page: PageNo) -> &AtomicU32 {
        let index = page.0 as usize;
        let chunk =
            self.chunks[index / CHUNK].get_or_init(|| (0..CHUNK).map(|_| AtomicU32::new(0)).collect());
        &chunk[index % CHUNK]
    }

    /// Enters `page` unless it has a frame.
    pub(super) fn enter(&self, page: PageNo, frame: u32) -> bool {
        self.entry(page).compare_exchange(0, frame + 1, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Takes `page` out; `frame` must be what it has.
    pub(super) fn remove(&self, page: PageNo, frame: u32) {
        let gone = self.entry(page).compare_exchange(frame + 1, 0, Ordering::AcqRel, Ordering::Acquire);
        assert!(gone.is_ok(), "{page:?} is not in the frame that gives it up");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_frame_a_page_up_to_the_last_page_number() {
        let table = PageTable::new();
        for page in [PageNo(0), PageNo(CHUNK as u32 - 1), PageNo(CHUNK as u32), PageNo(u32::MAX)] {
            assert_eq!(table.get(page), None);
            assert!(table.enter(page, 0));
            assert!(!table.enter(page, 7));
            assert_eq!(table.get(page), Some(0));
            table.remove(page, 0);
            assert!(table.enter(page, 7));
            assert_eq!(table.get(page), Some(7));
        }
    }
}
