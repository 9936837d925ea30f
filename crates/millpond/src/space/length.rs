//! Checks that a `pages` file is as long as its own header and map say. Growth is synced before a
//! tree owns the new extents, so a shorter file has lost its end.

use crate::error::{Error, Result};
use crate::page::map::{self, EXTENT_PAGES, extents_per_map};
use base::{PageNo, TreeId};
use std::path::Path;

/// Checks that the file of `pages` pages holds the map page of the last of its groups that the
/// header names.
pub(super) fn holds_map(path: &Path, map: PageNo, pages: u32, groups: u32) -> Result {
    if map.0 < pages {
        return Ok(());
    }
    let what = format!("it has {pages} pages, too few for the {groups} groups that its header names");
    Err(Error::corrupt(path, what))
}

/// Checks that the file of `pages` pages holds every extent with an owner in `map`, whose first
/// extent is `first`.
pub(super) fn holds_owned(path: &Path, map: &[u8], first: u32, pages: u32) -> Result {
    let beyond = (pages / EXTENT_PAGES).saturating_sub(first)..extents_per_map(map.len());
    for index in beyond {
        if map::extent(map, index as u16).tree != TreeId::NONE {
            let extent = first + index;
            let what = format!("it ends at page {pages}, and its map gives extent {extent} an owner");
            return Err(Error::corrupt(path, what));
        }
    }
    Ok(())
}
