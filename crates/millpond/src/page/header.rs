//! The header at the start of every page of the `pages` file.
//!
//! ```text
//!  0  crc       u32   CRC32C of bytes 4.. of the page, in its image; see `page_file`
//!  4  format    u8    1; 0 only in a page that was never written
//!  5  kind      u8    see `PageKind`
//!  6  flags     u16   0
//!  8  page_no   u32   the page's own number: detects a write that went to a wrong place
//! 12  tree      u32   owning tree, 0 if none
//! 16  page_lsn  u64   start LSN of the last group that changed the page
//! 24  reserved  32 B  0; for nonce and tag of an encrypted page
//! 56  …               depends on the kind
//! ```
//! All numbers are little-endian.

use base::codec::fixed::{get_u16, get_u32, get_u64, set_u16, set_u32, set_u64};
use base::{Lsn, PageNo, TreeId};

use super::{Damage, ensure};

const FORMAT: usize = 4;
const KIND: usize = 5;
const FLAGS: usize = 6;
const PAGE_NO: usize = 8;
const TREE: usize = 12;
const LSN: usize = 16;
const RESERVED: usize = 24;

/// Where the part that depends on the kind begins.
pub(crate) const HEADER_BYTES: usize = 56;
const _: () = assert!(RESERVED + 32 == HEADER_BYTES && HEADER_BYTES.is_multiple_of(8));

/// The page format that this engine writes.
const FORMAT_1: u8 = 1;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PageKind {
    /// Nothing: freed, or never used.
    Free = 0,
    /// A part of the space map.
    Map = 1,
    /// A leaf: rows.
    Leaf = 2,
    /// An inner page: separator keys and children.
    Inner = 3,
    /// A part of a long value.
    Overflow = 4,
    /// The file's own header (page 0).
    File = 5,
    /// A part of the space map: owners of single pages.
    Owners = 6,
}

impl PageKind {
    /// All kinds, by their numbers.
    pub(crate) const ALL: [PageKind; 7] = [
        PageKind::Free,
        PageKind::Map,
        PageKind::Leaf,
        PageKind::Inner,
        PageKind::Overflow,
        PageKind::File,
        PageKind::Owners,
    ];

    fn from_u8(v: u8) -> Option<PageKind> {
        Self::ALL.get(usize::from(v)).copied()
    }
}

/// Returns the page number that the page names as its own.
#[inline]
#[must_use]
pub(crate) fn page_no(page: &[u8]) -> PageNo {
    PageNo(get_u32(page, PAGE_NO))
}

/// Returns the owning tree.
#[inline]
#[must_use]
pub(crate) fn tree(page: &[u8]) -> TreeId {
    TreeId(get_u32(page, TREE))
}

/// Returns the page LSN: the start LSN of the last group that changed the page.
#[inline]
#[must_use]
pub(crate) fn lsn(page: &[u8]) -> Lsn {
    Lsn(get_u64(page, LSN))
}

/// Returns the kind of the page; `None` for a kind that this format does not know.
#[inline]
#[must_use]
pub(crate) fn kind(page: &[u8]) -> Option<PageKind> {
    PageKind::from_u8(page[KIND])
}

/// Sets the page's number. Inits keep it, so it is set once, when the page is created in memory.
#[inline]
pub(crate) fn set_page_no(page: &mut [u8], no: PageNo) {
    set_u32(page, PAGE_NO, no.0);
}

/// Sets the page LSN to the start LSN of the group that changes the page.
#[inline]
pub(crate) fn set_lsn(page: &mut [u8], lsn: Lsn) {
    set_u64(page, LSN, lsn.0);
}

/// Writes the header of a fresh page of `kind`. The page's number, its LSN and all bytes after the
/// header stay.
pub(super) fn init(page: &mut [u8], kind: PageKind, tree: TreeId) {
    page[FORMAT] = FORMAT_1;
    page[KIND] = kind as u8;
    set_u16(page, FLAGS, 0);
    set_u32(page, TREE, tree.0);
    page[RESERVED..HEADER_BYTES].fill(0);
}

/// Makes the page the file's own header, of kind [`PageKind::File`], with the given content; the
/// rest is zero.
pub(crate) fn init_file(page: &mut [u8], content: &[u8]) {
    init(page, PageKind::File, TreeId::NONE);
    let body = &mut page[HEADER_BYTES..];
    body.fill(0);
    body[..content.len()].copy_from_slice(content);
}

/// Returns whether the page was never written: all zeros, as in a file that has just grown.
#[must_use]
pub(crate) fn is_blank(page: &[u8]) -> bool {
    page.iter().all(|&b| b == 0)
}

/// Checks format, kind and flags. [`super::verify::quick`] checks the content.
pub(crate) fn check_format(page: &[u8]) -> Result<(), Damage> {
    ensure!(page[FORMAT] == FORMAT_1, "the page has an unknown format");
    ensure!(kind(page).is_some(), "the page has an unknown kind");
    ensure!(get_u16(page, FLAGS) == 0, "the page has unknown flags");
    Ok(())
}
