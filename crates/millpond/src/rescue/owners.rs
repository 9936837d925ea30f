//! Which tree a page belongs to, according to the space map.

use super::pages::Pages;
use crate::page::header::{self, PageKind};
use crate::page::map::{self, EXTENT_PAGES, SHARED, extents_per_map, page_of_group};
use crate::page::owners;
use base::{PageNo, TreeId};

/// The owner of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// This tree; [`TreeId::NONE`]: no tree uses the page.
    Tree(TreeId),
    /// The page of the map that tells it cannot be read, or may be old.
    Unknown,
}

/// Reads the space map. It keeps the pages of the map that it read last.
pub(super) struct Owners<'a> {
    pages: &'a Pages,
    map: Option<(PageNo, Option<Vec<u8>>)>,
    shared: Option<(PageNo, Option<Vec<u8>>)>,
}

/// Returns a sound page of a kind, from `kept` if it is that one.
fn sound<'k>(
    pages: &Pages,
    kept: &'k mut Option<(PageNo, Option<Vec<u8>>)>,
    no: PageNo,
    kind: PageKind,
) -> Option<&'k [u8]> {
    if kept.as_ref().is_none_or(|(kept, _)| *kept != no) {
        let state = pages.page(no);
        let is_sound = |bytes: &Vec<u8>| state.flaw.is_none() && header::kind(bytes) == Some(kind);
        *kept = Some((no, state.bytes.as_ref().filter(|bytes| is_sound(bytes)).cloned()));
    }
    kept.as_ref().and_then(|(_, bytes)| bytes.as_deref())
}

impl Owners<'_> {
    pub(super) fn new(pages: &Pages) -> Owners<'_> {
        Owners { pages, map: None, shared: None }
    }

    /// Returns the owner of a page.
    pub(super) fn of(&mut self, page: PageNo) -> Owner {
        let (page_bytes, extent) = (self.pages.page_bytes, page.0 / EXTENT_PAGES);
        let each = extents_per_map(page_bytes);
        let map_page = page_of_group(page_bytes, extent / each);
        let Some(map) = sound(self.pages, &mut self.map, map_page, PageKind::Map) else {
            return Owner::Unknown;
        };
        let entry = map::extent(map, (extent % each) as u16);
        if entry.tree != SHARED {
            let is_used = entry.used & 1 << (page.0 % EXTENT_PAGES) != 0;
            return Owner::Tree(if is_used { entry.tree } else { TreeId::NONE });
        }
        let owners_page = owners::page_of(page_bytes, extent);
        match sound(self.pages, &mut self.shared, owners_page, PageKind::Owners) {
            Some(shared) => Owner::Tree(owners::owner(shared, owners::index_of(page_bytes, page))),
            None => Owner::Unknown,
        }
    }
}
