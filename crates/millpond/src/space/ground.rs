//! [`Ground`]: what all parts of the space map work on, and the reading of the map.

use super::state::SpaceState;
use crate::buffer::{FetchHint, Pool, fetch_many};
use crate::error::{Error, Poison, Result};
use crate::log::Log;
use crate::page::map::{self, EXTENT_PAGES, extents_per_map};
use crate::page::owners;
use crate::page_file::PageFile;
use base::sync::Mutex;
use base::{PageNo, TreeId};
use metrics::Metrics;
use std::path::Path;
use std::sync::Arc;

/// Map pages that are read together.
const MAPS_TOGETHER: usize = 64;

/// The map in memory, and the pages with it.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) log: Arc<Log>,
    pub(super) pool: Arc<Pool>,
    pub(super) file: Arc<PageFile>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) poison: Arc<Poison>,
    pub(super) state: Mutex<SpaceState>,
}

impl Ground {
    pub(super) fn page_bytes(&self) -> usize {
        self.pool.page_bytes()
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the extents of a group.
    pub(super) fn group_extents(&self) -> u32 {
        extents_per_map(self.page_bytes())
    }

    /// Returns the pages of a group.
    pub(super) fn group_pages(&self) -> u32 {
        self.group_extents() * EXTENT_PAGES
    }

    pub(super) fn extent_bytes(&self) -> u64 {
        u64::from(EXTENT_PAGES) * self.page_bytes() as u64
    }

    pub(super) fn map_page(&self, group: u32) -> PageNo {
        map::page_of_group(self.page_bytes(), group)
    }

    /// Returns the map pages of groups.
    pub(super) fn maps(&self, groups: impl IntoIterator<Item = u32>) -> Vec<PageNo> {
        groups.into_iter().map(|group| self.map_page(group)).collect()
    }

    /// Returns the map page that describes `extent`, and the extent's index in it.
    pub(super) fn map_entry(&self, extent: u32) -> (PageNo, u16) {
        let group_extents = self.group_extents();
        (self.map_page(extent / group_extents), (extent % group_extents) as u16)
    }

    /// Returns the page of owners of an extent's pages.
    pub(super) fn owners_page(&self, extent: u32) -> PageNo {
        owners::page_of(self.page_bytes(), extent)
    }

    /// Whether trees share the extent. It stays shared while one of its pages is in use or
    /// reserved.
    pub(super) fn is_shared(&self, extent: u32) -> bool {
        self.state.lock().shared.holds(extent)
    }

    /// Returns the pages in use of a shared extent, each with its tree.
    pub(super) fn owned_pages(&self, extent: u32) -> Result<impl Iterator<Item = (TreeId, PageNo)>> {
        let page = self.pool.fetch(self.owners_page(extent))?.read();
        let owners = owners::of_extent(&page, extent);
        let numbered = owners.into_iter().zip(extent * EXTENT_PAGES..);
        Ok(numbered.filter(|(tree, _)| *tree != TreeId::NONE).map(|(tree, page)| (tree, PageNo(page))))
    }

    /// Shows `look` pages of the map, in order and with their index in `pages`, and reads many at
    /// once. REQUIRES: no latch held.
    pub(super) fn each_page(&self, pages: &[PageNo], mut look: impl FnMut(usize, &[u8]) -> Result) -> Result {
        for (n, &page) in pages.iter().enumerate() {
            self.read_maps_together(pages, n);
            let page = self.pool.fetch_with(page, FetchHint::Scan)?.read();
            look(n, &page)?;
        }
        Ok(())
    }

    /// Reads the next pages of the map with many reads in flight, each time `n` comes to such a
    /// batch. A file of half a terabyte has eight thousand map pages, and a small pool has few
    /// frames. Errors are ignored here: the fetch of the single page returns them.
    pub(super) fn read_maps_together(&self, pages: &[PageNo], n: usize) {
        let together = MAPS_TOGETHER.min(self.pool.frame_count() / 8).max(1);
        if n.is_multiple_of(together) {
            let _ = fetch_many(&self.pool, &pages[n..pages.len().min(n + together)], FetchHint::Scan);
        }
    }

    /// Returns an error if a page of the map holds impossible values. Otherwise an extent might
    /// look free and be handed out, and then the map page would refuse the change in the middle of
    /// a mini-transaction.
    pub(super) fn check_page(&self, no: PageNo, page: &[u8]) -> Result {
        match crate::page::verify::problems(page).first() {
            None => Ok(()),
            Some(damage) => Err(Error::corrupt(self.path(), format!("{no:?}: {damage}"))),
        }
    }
}
