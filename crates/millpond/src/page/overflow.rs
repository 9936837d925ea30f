//! A page of an overflow chain, which holds a value too long for its leaf (Pa5).
//!
//! ```text
//! 56  txn      u48  \ who wrote the chain: the transaction, and where its undo record for the chain stands;
//! 62  undo_at  u40  / the same in every page of the chain and in the row's reference, and in no other chain
//! 67  flags    u8   1 = first page
//! 68  next     u32  next page, 0 in the last
//! 72  len      u16  bytes of data here
//! 74  ahead    u16  how many page numbers follow
//! 76  spare    4 B
//! 80  numbers  u32 each, of pages that were set aside to follow this one, in order
//!     data
//! ```
//! The numbers let a reader ask for many pages at once. Which pages the chain really has says `next`: writing that is cut off leaves
//! numbers of pages that another has by now.

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
const AHEAD: usize = 74;
const NUMBERS: usize = 80;
const HEAD: u8 = 1;

/// A page names so many pages ahead at most, and the next that does is the last of them.
pub(crate) const AHEAD_MAX: usize = 64;

/// How many bytes of a value one page of a chain holds that names so many pages ahead.
#[must_use]
pub(crate) const fn capacity(page_bytes: usize, ahead: usize) -> usize {
    page_bytes - NUMBERS - 4 * ahead
}

/// How many pages the one that holds the next of `left` bytes can name ahead: all that are to follow it, if they are not too
/// many.
#[must_use]
pub(crate) fn ahead_for(page_bytes: usize, left: usize) -> usize {
    let all = capacity(page_bytes, 0);
    // Each number takes room from the data.
    left.saturating_sub(all).div_ceil(all - 4).min(AHEAD_MAX)
}

/// How many pages a value of `len` bytes takes.
#[must_use]
pub(crate) fn pages_for(page_bytes: usize, len: usize) -> usize {
    let (mut pages, mut left) = (0, len);
    while left > 0 {
        // One that names others, and those but the last, which may name others itself.
        let names = ahead_for(page_bytes, left);
        let plain = names.saturating_sub(1);
        let held = capacity(page_bytes, names) + plain * capacity(page_bytes, 0);
        (pages, left) = (pages + 1 + plain, left.saturating_sub(held));
    }
    pages
}

/// Page numbers as a page has them.
#[must_use]
pub(crate) fn numbers(pages: &[PageNo]) -> Vec<u8> {
    pages.iter().flat_map(|page| page.0.to_le_bytes()).collect()
}

/// What a row with the flag OVERFLOW has for a value: where the real one stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainRef {
    /// First page.
    pub(crate) head: PageNo,
    /// Length of the value in bytes.
    pub(crate) len: u32,
    /// Who wrote the chain.
    pub(crate) owner: Version,
}

impl ChainRef {
    /// Bytes of an encoded reference.
    pub(crate) const BYTES: usize = 19;

    /// The reference as a row's value: `head u32, len u32, txn u48, undo_at u40`.
    #[must_use]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::BYTES);
        out.put_u32(self.head.0);
        out.put_u32(self.len);
        out.put_u48(self.owner.txn.0);
        out.put_u40(self.owner.undo_at);
        out
    }

    /// Reads a row's value.
    pub(crate) fn decode(value: &[u8]) -> Result<ChainRef, Truncated> {
        let mut r = Reader::new(value);
        let (head, len) = (PageNo(r.u32()?), r.u32()?);
        let owner = Version { txn: TxnId(r.u48()?), undo_at: r.u40()? };
        if r.is_empty() { Ok(ChainRef { head, len, owner }) } else { Err(Truncated) }
    }
}

/// Views an overflow page that passed [`super::verify::quick`].
#[derive(Clone, Copy)]
pub(crate) struct Overflow<'a> {
    page: &'a [u8],
}

impl<'a> Overflow<'a> {
    /// Views `page`; none if it is no overflow page.
    #[must_use]
    pub(crate) fn new(page: &'a [u8]) -> Option<Self> {
        (header::kind(page) == Some(PageKind::Overflow)).then_some(Overflow { page })
    }

    /// Who wrote the chain.
    #[must_use]
    pub(crate) fn owner(&self) -> Version {
        Version { txn: TxnId(get_u48(self.page, TXN)), undo_at: get_u40(self.page, UNDO_AT) }
    }

    /// Whether this is the chain's first page.
    #[must_use]
    pub(crate) fn is_head(&self) -> bool {
        self.page[FLAGS] & HEAD != 0
    }

    /// The next page.
    #[must_use]
    pub(crate) fn next(&self) -> PageNo {
        PageNo(get_u32(self.page, NEXT))
    }

    /// Pages that were set aside to follow this one, in order. Only what [`Overflow::next`] leads to is the chain's.
    pub(crate) fn ahead(&self) -> impl Iterator<Item = PageNo> + use<'a> {
        let numbers = &self.page[NUMBERS..][..4 * usize::from(get_u16(self.page, AHEAD))];
        numbers.chunks_exact(4).map(|number| PageNo(get_u32(number, 0)))
    }

    /// The bytes here.
    #[must_use]
    pub(crate) fn data(&self) -> &'a [u8] {
        let from = NUMBERS + 4 * usize::from(get_u16(self.page, AHEAD));
        &self.page[from..][..usize::from(get_u16(self.page, LEN))]
    }
}

pub(super) fn init(
    page: &mut [u8],
    tree: TreeId,
    owner: Version,
    head: bool,
    ahead: &[u8],
    data: &[u8],
) -> Result<(), Damage> {
    let names = ahead.len() / 4;
    ensure!(
        ahead.len().is_multiple_of(4) && names <= AHEAD_MAX,
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
    set_u16(page, AHEAD, names as u16);
    let (numbers, rest) = page[NUMBERS..].split_at_mut(ahead.len());
    numbers.copy_from_slice(ahead);
    rest[..data.len()].copy_from_slice(data);
    Ok(())
}

pub(super) fn set_next(page: &mut [u8], next: PageNo) -> Result<(), Damage> {
    ensure!(header::kind(page) == Some(PageKind::Overflow), "the page is no overflow page");
    set_u32(page, NEXT, next.0);
    Ok(())
}

/// That the page's lengths can be believed.
pub(super) fn check(page: &[u8]) -> Result<(), Damage> {
    let names = usize::from(get_u16(page, AHEAD));
    ensure!(names <= AHEAD_MAX, "an overflow page names pages in no known way");
    ensure!(
        usize::from(get_u16(page, LEN)) <= capacity(page.len(), names),
        "an overflow page has too much data"
    );
    ensure!(page[FLAGS] & !HEAD == 0, "an overflow page has unknown flags");
    Ok(())
}
