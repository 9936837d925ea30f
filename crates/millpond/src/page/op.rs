//! [`PageOp`]: the only definition of every change of a page, and its encoding in a redo record.
//!
//! Encoding: a tag byte, then the fields in the order below. Numbers are LEB128 varints. Byte
//! strings are a varint length and the bytes. Exceptions are noted. The last byte string of an op
//! (after `|`) has no length: it ends with the record.
//!
//! ```text
//! 1, 2, 23, 24   see `page::row_op`
//! 3 restore      slot txn undo_at flags(1) front back | middle
//! 4 remove       slot
//! 5 init         tree level(1) right low high | body
//! 6 put child    slot child | key
//! 7 remove child slot
//! 8 cut          slot right | high
//! 9 absorb       right high | body
//! 10 free
//! 11 init map
//! 12 map own     extent tree
//! 13 map set     extent page(1)
//! 14 map clear   extent pages(varint: a bit for each)
//! 15 map release extent
//! 16 init overflow  tree txn undo_at flags(1: 1 = head) following | data
//! 17 set next    next
//! 18 init file | content
//! 19 init owners
//! 20 owner set   page tree
//! 21 owner clear page
//! 22 cut names   names
//! ```

use base::codec::{Put, Reader, Truncated};
use base::{PageNo, TreeId};

pub(crate) use super::edit::NodeHead;
use super::node::{SLOT_BYTES, SLOTS, Version, common_prefix};
use super::op_fields::{number, put_tagged, put_version, rest, version};
use super::row_op::{INSERT, REPLACE, slot_of};
pub(crate) use super::row_op::{RowChange, RowOp};

/// A change of one page. [`PageOp::apply`] makes it, in normal operation and in redo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageOp<'a> {
    /// A transactional row change.
    Row(RowOp<'a>),
    /// Restores an older version of row `slot`. Carries no undo.
    Restore {
        /// Slot in the leaf.
        slot: u16,
        /// The version to restore.
        version: Version,
        /// Its flags.
        flags: u8,
        /// Bytes that stay at the front of the value.
        front: u16,
        /// Bytes that stay at the end of the value.
        back: u16,
        /// The bytes to put between them.
        middle: &'a [u8],
    },
    /// Removes row `slot`: purge, or the revert of an insert.
    Remove {
        /// Slot in the leaf.
        slot: u16,
    },
    /// Makes a leaf or inner page.
    Init {
        /// Owner, level, sibling and fences.
        head: NodeHead<'a>,
        /// The entries, see `edit::body_of`.
        body: &'a [u8],
    },
    /// Inserts a separator and the child that holds the keys from the separator on.
    PutChild {
        /// Slot in the inner page, at least 1.
        slot: u16,
        /// The child.
        child: PageNo,
        /// The separator, with its prefix.
        key: &'a [u8],
    },
    /// Removes a child that was merged into its left neighbour.
    RemoveChild {
        /// Slot in the inner page, at least 1.
        slot: u16,
    },
    /// Removes all entries from `slot` on, the second half of a split: they are in the new right
    /// sibling.
    Cut {
        /// The first entry to remove.
        slot: u16,
        /// The new right sibling.
        right: PageNo,
        /// The new high fence.
        high: &'a [u8],
    },
    /// Takes over the right sibling's entries, sibling and high fence (a merge).
    Absorb {
        /// The right sibling's right sibling.
        right: PageNo,
        /// The new high fence.
        high: &'a [u8],
        /// The entries, stored for the page's new common prefix.
        body: &'a [u8],
    },
    /// Makes the page a free one.
    Free,
    /// Makes an empty part of the space map.
    InitMap,
    /// Gives a free extent to a tree.
    MapOwn {
        /// Index of the extent within this map page.
        extent: u16,
        /// The new owner.
        tree: TreeId,
    },
    /// Marks a page as used.
    MapSet {
        /// Index of the extent within this map page.
        extent: u16,
        /// Index of the page within the extent.
        page: u8,
    },
    /// Marks pages as unused.
    MapClear {
        /// Index of the extent within this map page.
        extent: u16,
        /// Bit i: page i of the extent.
        pages: u16,
    },
    /// Takes an extent back from its owner, with all pages that are still in use.
    MapRelease {
        /// Index of the extent within this map page.
        extent: u16,
    },
    /// Makes one page of an overflow chain, for the time being the last one.
    InitOverflow {
        /// The tree whose row will own the chain.
        tree: TreeId,
        /// The version that writes the chain: its transaction, and the address of its undo record
        /// for the chain.
        owner: Version,
        /// Whether this is the first page.
        head: bool,
        /// Numbers of pages that are reserved to follow, encoded as the page stores them.
        following: &'a [u8],
        /// The bytes of the value.
        data: &'a [u8],
    },
    /// Links an overflow page to the next, or to none.
    SetNext {
        /// The next page of the chain.
        next: PageNo,
    },
    /// Leaves only the first of the pages that an overflow page names: the others are free.
    CutNames {
        /// How many names stay.
        names: u16,
    },
    /// Makes the header of the `pages` file.
    InitFile {
        /// Its content.
        content: &'a [u8],
    },
    /// Makes a page of owners; all pages that it describes are free.
    InitOwners,
    /// Gives a free page of a shared extent to a tree.
    OwnerSet {
        /// Index of the page within this page of owners.
        page: u16,
        /// The new owner.
        tree: TreeId,
    },
    /// Takes a page of a shared extent back from its owner.
    OwnerClear {
        /// Index of the page within this page of owners.
        page: u16,
    },
}

/// Cache lines that are prefetched from an entry: those of a row of 300 bytes.
const ENTRY_LINES: usize = 5;

/// Asks the processor for the memory of the entry that an encoded op may change. REQUIRES: `page`
/// is a leaf or an inner page, or the op is none of a row.
#[inline]
pub(crate) fn prefetch_entry(page: &[u8], op: &[u8]) {
    let slot = match *op {
        [INSERT | REPLACE, form, low, high, ..] => slot_of(form, low, high),
        // A varint of two bytes at most.
        [3 | 4, slot @ ..0x80, ..] => u16::from(slot),
        [3 | 4, low, high, ..] => u16::from(low & 0x7f) | u16::from(high) << 7,
        _ => return,
    };
    if let Some(entry) = entry_if_there(page, slot) {
        base::prefetch::to_read(entry, ENTRY_LINES);
    }
}

/// Returns the bytes of entry `i` of a page that may have fewer.
#[inline]
fn entry_if_there(page: &[u8], i: u16) -> Option<&[u8]> {
    let slot = page.get(SLOTS + SLOT_BYTES * usize::from(i)..)?.first_chunk()?;
    let both = u32::from_le_bytes(*slot) as usize;
    page.get(both & 0xffff..)?.get(..both >> 16)
}

impl<'a> PageOp<'a> {
    /// Returns whether the op sets the whole content of the page, so that redo needs no old image.
    #[must_use]
    pub(crate) fn is_init(&self) -> bool {
        use PageOp::{Free, Init, InitFile, InitMap, InitOverflow, InitOwners};
        matches!(self, Init { .. } | Free | InitMap | InitOverflow { .. } | InitFile { .. } | InitOwners)
    }

    /// Appends the op's encoding to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            PageOp::Row(ref row) => row.encode(out),
            PageOp::Restore { slot, version, flags, front, back, middle } => {
                out.put_u8(3);
                out.put_varint(slot.into());
                put_version(out, version);
                out.put_u8(flags);
                out.put_varint(front.into());
                out.put_varint(back.into());
                out.extend_from_slice(middle);
            }
            PageOp::Remove { slot } => put_tagged(out, 4, &[slot.into()]),
            PageOp::Init { head, body } => {
                out.put_u8(5);
                out.put_varint(head.tree.0.into());
                out.put_u8(head.level);
                out.put_varint(head.right.0.into());
                out.put_prefixed(head.low);
                out.put_prefixed(head.high);
                out.extend_from_slice(body);
            }
            PageOp::PutChild { slot, child, key } => {
                put_tagged(out, 6, &[slot.into(), child.0.into()]);
                out.extend_from_slice(key);
            }
            PageOp::RemoveChild { slot } => put_tagged(out, 7, &[slot.into()]),
            PageOp::Cut { slot, right, high } => {
                put_tagged(out, 8, &[slot.into(), right.0.into()]);
                out.extend_from_slice(high);
            }
            PageOp::Absorb { right, high, body } => {
                put_tagged(out, 9, &[right.0.into()]);
                out.put_prefixed(high);
                out.extend_from_slice(body);
            }
            PageOp::Free => out.put_u8(10),
            PageOp::InitMap => out.put_u8(11),
            PageOp::MapOwn { extent, tree } => put_tagged(out, 12, &[extent.into(), tree.0.into()]),
            PageOp::MapSet { extent, page } => {
                put_tagged(out, 13, &[extent.into()]);
                out.put_u8(page);
            }
            PageOp::MapClear { extent, pages } => put_tagged(out, 14, &[extent.into(), pages.into()]),
            PageOp::MapRelease { extent } => put_tagged(out, 15, &[extent.into()]),
            PageOp::InitOverflow { tree, owner, head, following, data } => {
                put_tagged(out, 16, &[tree.0.into()]);
                put_version(out, owner);
                out.put_u8(head.into());
                out.put_prefixed(following);
                out.extend_from_slice(data);
            }
            PageOp::SetNext { next } => put_tagged(out, 17, &[next.0.into()]),
            PageOp::InitFile { content } => {
                out.put_u8(18);
                out.extend_from_slice(content);
            }
            PageOp::InitOwners => out.put_u8(19),
            PageOp::OwnerSet { page, tree } => put_tagged(out, 20, &[page.into(), tree.0.into()]),
            PageOp::OwnerClear { page } => put_tagged(out, 21, &[page.into()]),
            PageOp::CutNames { names } => put_tagged(out, 22, &[names.into()]),
        }
    }

    /// Decodes an op from all of `bytes`. Bytes that are not an op give `Truncated` too.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<PageOp<'a>, Truncated> {
        let r = &mut Reader::new(bytes);
        let op = match r.u8()? {
            tag @ (INSERT | REPLACE) => return RowOp::decode(tag, r.rest()).map(PageOp::Row),
            tag @ (1 | 2) => PageOp::Row(RowOp::decode_varints(tag, r)?),
            3 => PageOp::Restore {
                slot: number(r)?,
                version: version(r)?,
                flags: r.u8()?,
                front: number(r)?,
                back: number(r)?,
                middle: rest(r)?,
            },
            4 => PageOp::Remove { slot: number(r)? },
            5 => {
                let (tree, level, right) = (TreeId(number(r)?), r.u8()?, PageNo(number(r)?));
                let head = NodeHead { tree, level, right, low: r.prefixed()?, high: r.prefixed()? };
                PageOp::Init { head, body: rest(r)? }
            }
            6 => PageOp::PutChild { slot: number(r)?, child: PageNo(number(r)?), key: rest(r)? },
            7 => PageOp::RemoveChild { slot: number(r)? },
            8 => PageOp::Cut { slot: number(r)?, right: PageNo(number(r)?), high: rest(r)? },
            9 => PageOp::Absorb { right: PageNo(number(r)?), high: r.prefixed()?, body: rest(r)? },
            10 => PageOp::Free,
            11 => PageOp::InitMap,
            12 => PageOp::MapOwn { extent: number(r)?, tree: TreeId(number(r)?) },
            13 => PageOp::MapSet { extent: number(r)?, page: r.u8()? },
            14 => PageOp::MapClear { extent: number(r)?, pages: number(r)? },
            15 => PageOp::MapRelease { extent: number(r)? },
            16 => {
                let (tree, owner) = (TreeId(number(r)?), version(r)?);
                let head = match r.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Truncated),
                };
                PageOp::InitOverflow { tree, owner, head, following: r.prefixed()?, data: rest(r)? }
            }
            17 => PageOp::SetNext { next: PageNo(number(r)?) },
            18 => PageOp::InitFile { content: rest(r)? },
            19 => PageOp::InitOwners,
            20 => PageOp::OwnerSet { page: number(r)?, tree: TreeId(number(r)?) },
            21 => PageOp::OwnerClear { page: number(r)? },
            22 => PageOp::CutNames { names: number(r)? },
            _ => return Err(Truncated),
        };
        if r.is_empty() { Ok(op) } else { Err(Truncated) }
    }
}

/// Returns how many bytes `old` and `new` share at the front, and how many of the rest at the end.
/// A replace does not log them.
#[must_use]
pub(crate) fn common_ends(old: &[u8], new: &[u8]) -> (u16, u16) {
    let front = common_prefix(old, new);
    let back = old[front..].iter().rev().zip(new[front..].iter().rev()).take_while(|(a, b)| a == b).count();
    (front as u16, back as u16)
}
