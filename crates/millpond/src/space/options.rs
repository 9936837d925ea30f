//! What a space map is made with, and what the file's format says of it.

use crate::ballast::Ballast;
use crate::page::map::EXTENT_PAGES;
use crate::page_file::PageFile;
use base::sync::Unparker;
use std::sync::Arc;

/// The file's header begins with it.
pub(crate) const FILE_MAGIC: &[u8; 8] = b"MPPAGES\0";

/// The number of pages that page numbers can name, in whole extents.
pub(crate) const PAGES_MAX: u32 = u32::MAX / EXTENT_PAGES * EXTENT_PAGES;

/// The parameters of the space map.
#[derive(Debug)]
pub(crate) struct SpaceOptions {
    /// The pages.
    pub(crate) file: Arc<PageFile>,
    /// The id of the database.
    pub(crate) db_id: u64,
    /// Pages of one step of growth.
    pub(crate) grow_pages: u32,
    /// The most pages of the file; [`PAGES_MAX`] except in tests.
    pub(crate) pages_max: u32,
    /// Wakes the thread that grows the file ahead of need.
    pub(crate) grower: Unparker,
    /// The ballast, which must be held before the file grows.
    pub(crate) ballast: Arc<Ballast>,
}
