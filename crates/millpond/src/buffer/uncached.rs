//! Reads pages without the pool: into memory of the caller, in a few large reads. It takes no
//! frames.
//!
//! This is for pages that do not change while they are read and will not be read again soon: those
//! of a long value. It leaves out a page that is in a frame, because its file may be older than the
//! frame. It also leaves out a damaged page, because the pool knows what to do about it. The caller
//! fetches the pages that were left out.

use base::PageNo;
use base::aligned::AlignedBuf;
use metrics::{Latency, M};

use super::pool::{FetchHint, Pool};
use super::read_hook::Arrival;
use crate::page_file::accept;

/// Pages as they are in the file.
#[derive(Debug, Default)]
pub(crate) struct PageImages {
    page_bytes: usize,
    memory: Option<AlignedBuf>,
    /// The pages that were read, ascending, and the index of each in the memory.
    indexes: Vec<(PageNo, usize)>,
}

impl PageImages {
    /// Returns the bytes of a page, if it was read.
    pub(crate) fn get(&self, page: PageNo) -> Option<&[u8]> {
        let index = self.indexes.binary_search_by_key(&page, |entry| entry.0).ok()?;
        let at = self.indexes[index].1 * self.page_bytes;
        Some(&self.memory.as_ref()?[at..at + self.page_bytes])
    }

    /// Reads the pages that are in no frame; they replace those of before. Returns no errors: a
    /// page that cannot be read is left out. REQUIRES: the caller holds no latch. Before the caller
    /// trusts an image, it checks that no thread has changed the page since before this call.
    pub(crate) fn read(&mut self, pool: &Pool, pages: impl IntoIterator<Item = PageNo>) {
        let page_bytes = pool.page_bytes();
        self.page_bytes = page_bytes;
        self.indexes.clear();
        self.indexes.extend(pages.into_iter().filter(|page| !pool.holds(*page)).map(|page| (page, 0)));
        self.indexes.sort_unstable();
        self.indexes.dedup();
        self.indexes.iter_mut().enumerate().for_each(|(index, entry)| entry.1 = index);
        let bytes = self.indexes.len() * page_bytes;
        if bytes == 0 {
            return;
        }
        let enough = self.memory.take().filter(|memory| memory.len() >= bytes);
        let memory = self.memory.insert(enough.unwrap_or_else(|| AlignedBuf::zeroed(bytes)));
        let indexes = &mut self.indexes;
        let begun_us = pool.clock.now_us();
        let pages = indexes.iter().map(|(page, _)| *page);
        let (reads, read) = pool.file().read_runs(pages, &mut memory[..bytes]);
        pool.metrics.add(M::PageReadsIo, reads);
        pool.metrics.time(Latency::PageRead, pool.clock.now_us().saturating_sub(begun_us));
        if read.is_err() {
            return indexes.clear();
        }
        pool.metrics.add(M::PagesRead, indexes.len() as u64);
        indexes.retain(|&(page, index)| {
            let image = &mut memory[index * page_bytes..][..page_bytes];
            let sound = accept(image, page);
            let mut arrival = || pool.hook().after_read(page, image, sound);
            sound.is_ok() && matches!(arrival(), Ok(Arrival::AsRead))
        });
    }

    /// Puts the pages that were read into frames, as many as are available without waiting, for
    /// other readers. REQUIRES: no thread has changed the pages since they were read, or will
    /// before this returns.
    pub(crate) fn cache(&self, pool: &Pool) {
        for &(page, _) in &self.indexes {
            let Some(free) = pool.try_take_frame(FetchHint::Normal) else { return };
            // Another thread may have read the page meanwhile.
            if let (Ok(loading), Some(image)) = (pool.install(free, page), self.get(page)) {
                pool.fill(loading, image);
            }
        }
    }
}
