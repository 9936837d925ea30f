//! A page of an overflow chain, which holds a value too long for its leaf (Pa5).
//!
//! ```text
//! 56  txn      u48  \ who wrote the chain: the transaction, and where its undo record for the chain stands;
//! 62  undo_at  u40  / the same in every page of the chain and in the row's reference, and in no other chain
//! 67  flags    u8   1 = first page
//! 68  next     u32  next page, 0 in the last
//! 72  len      u16  bytes of data here
//! 74  spare    6 B
//! 80  data
//! ```

use base::codec::fixed::{get_u16, get_u32, get_u40, get_u48, set_u16, set_u32, set_u40, set_u48};
use base::codec::{Put, Reader, Truncated};
use base::{PageNo, TreeId, TxnId};

use super::header::{self, HEADER_BYTES, Kind};
use super::node::Version;
use super::{Damage, ensure};

const TXN: usize = 56;
const UNDO_AT: usize = 62;
const FLAGS: usize = 67;
const NEXT: usize = 68;
const LEN: usize = 72;
const DATA: usize = 80;
const HEAD: u8 = 1;

/// How many bytes of a value one page of a chain holds.
#[must_use]
pub(crate) const fn capacity(page_bytes: usize) -> usize {
    page_bytes - DATA
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
        (header::kind(page) == Some(Kind::Overflow)).then_some(Overflow { page })
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

    /// The bytes here.
    #[must_use]
    pub(crate) fn data(&self) -> &'a [u8] {
        &self.page[DATA..][..usize::from(get_u16(self.page, LEN))]
    }
}

pub(super) fn init(
    page: &mut [u8],
    tree: TreeId,
    owner: Version,
    head: bool,
    data: &[u8],
) -> Result<(), Damage> {
    ensure!(data.len() <= capacity(page.len()), "an overflow page has too much data");
    ensure!(owner.txn.0 >> 48 == 0 && owner.undo_at >> 40 == 0, "the chain's owner is out of range");
    header::begin(page, Kind::Overflow, tree);
    page[HEADER_BYTES..].fill(0);
    set_u48(page, TXN, owner.txn.0);
    set_u40(page, UNDO_AT, owner.undo_at);
    page[FLAGS] = if head { HEAD } else { 0 };
    set_u16(page, LEN, data.len() as u16);
    page[DATA..DATA + data.len()].copy_from_slice(data);
    Ok(())
}

pub(super) fn set_next(page: &mut [u8], next: PageNo) -> Result<(), Damage> {
    ensure!(header::kind(page) == Some(Kind::Overflow), "the page is no overflow page");
    set_u32(page, NEXT, next.0);
    Ok(())
}

/// That the page's length field can be believed.
pub(super) fn check(page: &[u8]) -> Result<(), Damage> {
    ensure!(usize::from(get_u16(page, LEN)) <= capacity(page.len()), "an overflow page has too much data");
    ensure!(page[FLAGS] & !HEAD == 0, "an overflow page has unknown flags");
    Ok(())
}
