//! A page of an overflow chain. The chain stores a value that is too long for its leaf (Pa5).
//!
//! ```text
//! 56  txn      u48  \ the writer of the chain: its transaction and the address of its undo record
//! 62  undo_at  u40  / for the chain; the same in all pages of the chain and in the row's
//!                     reference, and in no other chain
//! 67  flags    u8   1 = first page
//! 68  next     u32  next page, 0 in the last
//! 72  len      u16  bytes of data here
//! 74  count    u16  how many page numbers follow
//! 76  spare    4 B
//! 80  numbers  u32 each: pages that were reserved to follow this one, in order
//!     data
//! ```
//! With the numbers, a reader can ask for many pages at once. They are hints: only `next` says
//! which pages belong to the chain. If writing is cut off, the numbers of pages that were never
//! used remain, and another owner may have those pages by now. Only of a chain that was written to
//! its end all numbers are its pages. When a part of it is freed, those numbers go.

use base::codec::fixed::{get_u16, get_u32, get_u40, get_u48, set_u16, set_u32, set_u40, set_u48};
use base::codec::{Put, Reader, Truncated};
use base::{PageNo, TreeId, TxnId};

use super::header::{self, HEADER_BYTES, PageKind};
use super::node::Version;
use super::{Damage, ensure};

const TXN: usize = 56;
const UNDO_AT: usize = 62;
const FLAGS: usize = 67;
const NEXT: usize = 68;
const LEN: usize = 72;
const FOLLOWING: usize = 74;
const NUMBERS: usize = 80;
const HEAD: u8 = 1;

/// The most following pages that one page names. The last of them is the next to name others.
const FOLLOWING_MAX: usize = 64;

/// Returns how many bytes of a value fit one page that names `following` pages.
#[must_use]
pub(crate) const fn capacity(page_bytes: usize, following: usize) -> usize {
    page_bytes - NUMBERS - 4 * following
}

/// Returns how many following pages a page can name when `left` bytes of the value are still to be
/// written: all pages that follow it, at most [`FOLLOWING_MAX`].
#[must_use]
pub(crate) fn following_for(page_bytes: usize, left: usize) -> usize {
    let all = capacity(page_bytes, 0);
    // Each number takes space from the data.
    left.saturating_sub(all).div_ceil(all - 4).min(FOLLOWING_MAX)
}

/// Returns how many pages a value of `len` bytes takes.
#[must_use]
pub(crate) fn pages_for(page_bytes: usize, len: usize) -> usize {
    let (mut pages, mut left) = (0, len);
    while left > 0 {
        // One page that names others, and all pages that it names but the last. That last one may
        // name others itself.
        let names = following_for(page_bytes, left);
        let plain = names.saturating_sub(1);
        let held = capacity(page_bytes, names) + plain * capacity(page_bytes, 0);
        (pages, left) = (pages + 1 + plain, left.saturating_sub(held));
    }
    pages
}

/// Encodes page numbers as a page stores them.
#[must_use]
pub(crate) fn numbers(pages: &[PageNo]) -> Vec<u8> {
    pages.iter().flat_map(|page| page.0.to_le_bytes()).collect()
}

/// The value of a row with the flag OVERFLOW: a reference to the chain that holds the real value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainRef {
    /// First page.
    pub(crate) head: PageNo,
    /// Length of the value in bytes.
    pub(crate) len: u32,
    /// The version that wrote the chain.
    pub(crate) owner: Version,
}

impl ChainRef {
    /// Bytes of an encoded reference.
    pub(crate) const BYTES: usize = 19;

    /// Returns the reference as a row's value: `head u32, len u32, txn u48, undo_at u40`.
    #[must_use]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::BYTES);
        out.put_u32(self.head.0);
        out.put_u32(self.len);
        out.put_u48(self.owner.txn.0);
        out.put_u40(self.owner.undo_at);
        out
    }

    /// Decodes a row's value.
    pub(crate) fn decode(value: &[u8]) -> Result<ChainRef, Truncated> {
        let mut r = Reader::new(value);
        let (head, len) = (PageNo(r.u32()?), r.u32()?);
        let owner = Version { txn: TxnId(r.u48()?), undo_at: r.u40()? };
        if r.is_empty() { Ok(ChainRef { head, len, owner }) } else { Err(Truncated) }
    }
}

/// A view of an overflow page that passed [`super::verify::quick`].
#[derive(Clone, Copy)]
pub(crate) struct Overflow<'a> {
    page: &'a [u8],
}

impl<'a> Overflow<'a> {
    /// Views `page`; none if it is not an overflow page.
    #[must_use]
    pub(crate) fn new(page: &'a [u8]) -> Option<Self> {
        (header::kind(page) == Some(PageKind::Overflow)).then_some(Overflow { page })
    }

    /// Returns the version that wrote the chain.
    #[must_use]
    pub(crate) fn owner(&self) -> Version {
        Version { txn: TxnId(get_u48(self.page, TXN)), undo_at: get_u40(self.page, UNDO_AT) }
    }

    /// Returns whether this is the chain's first page.
    #[must_use]
    pub(crate) fn is_head(&self) -> bool {
        self.page[FLAGS] & HEAD != 0
    }

    /// Returns the next page of the chain.
    #[must_use]
    pub(crate) fn next(&self) -> PageNo {
        PageNo(get_u32(self.page, NEXT))
    }

    /// Returns the pages that were reserved to follow this one, in order. Only pages that
    /// [`Overflow::next`] leads to belong to the chain.
    pub(crate) fn following(&self) -> impl Iterator<Item = PageNo> + use<'a> {
        let numbers = &self.page[NUMBERS..][..4 * usize::from(get_u16(self.page, FOLLOWING))];
        numbers.chunks_exact(4).map(|number| PageNo(get_u32(number, 0)))
    }

    /// Returns the bytes of the value that this page holds.
    #[must_use]
    pub(crate) fn data(&self) -> &'a [u8] {
        let from = NUMBERS + 4 * usize::from(get_u16(self.page, FOLLOWING));
        &self.page[from..][..usize::from(get_u16(self.page, LEN))]
    }
}

pub(super) fn init(
    page: &mut [u8],
    tree: TreeId,
    owner: Version,
    head: bool,
    following: &[u8],
    data: &[u8],
) -> Result<(), Damage> {
    let names = following.len() / 4;
    ensure!(
        following.len().is_multiple_of(4) && names <= FOLLOWING_MAX,
        "an overflow page names pages in no known way"
    );
    ensure!(data.len() <= capacity(page.len(), names), "an overflow page has too much data");
    ensure!(owner.txn.0 >> 48 == 0 && owner.undo_at >> 40 == 0, "the chain's owner is out of range");
    header::init(page, PageKind::Overflow, tree);
    page[HEADER_BYTES..].fill(0);
    set_u48(page, TXN, owner.txn.0);
    set_u40(page, UNDO_AT, owner.undo_at);
    page[FLAGS] = if head { HEAD } else { 0 };
    set_u16(page, LEN, data.len() as u16);
    set_u16(page, FOLLOWING, names as u16);
    let (numbers, rest) = page[NUMBERS..].split_at_mut(following.len());
    numbers.copy_from_slice(following);
    rest[..data.len()].copy_from_slice(data);
    Ok(())
}

pub(super) fn set_next(page: &mut [u8], next: PageNo) -> Result<(), Damage> {
    ensure!(header::kind(page) == Some(PageKind::Overflow), "the page is no overflow page");
    set_u32(page, NEXT, next.0);
    Ok(())
}

/// Leaves only the first `names` pages that the page names. REQUIRES: its value is not read any
/// more; the bytes of the other names become a part of it.
pub(super) fn cut_names(page: &mut [u8], names: u16) -> Result<(), Damage> {
    ensure!(header::kind(page) == Some(PageKind::Overflow), "the page is no overflow page");
    ensure!(names < get_u16(page, FOLLOWING), "the overflow page does not name so many pages");
    set_u16(page, FOLLOWING, names);
    Ok(())
}

/// Checks that the page's lengths are in range.
pub(super) fn check(page: &[u8]) -> Result<(), Damage> {
    let names = usize::from(get_u16(page, FOLLOWING));
    ensure!(names <= FOLLOWING_MAX, "an overflow page names pages in no known way");
    ensure!(
        usize::from(get_u16(page, LEN)) <= capacity(page.len(), names),
        "an overflow page has too much data"
    );
    ensure!(page[FLAGS] & !HEAD == 0, "an overflow page has unknown flags");
    Ok(())
}
