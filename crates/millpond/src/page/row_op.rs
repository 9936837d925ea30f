//! [`RowOp`]: a change of a row, and its encoding in a redo record.
//!
//! Most records are such changes, so their numbers are not varints: a byte, the *form*, gives the
//! widths of all of them. They come first, then the byte strings. The last one has no length: it
//! ends with the record.
//!
//! ```text
//! 23 row insert   form slot tree txn undo_at flags(1) length of key | key value
//! 24 row replace  form slot tree txn undo_at flags(1: old, new << 4) length of key
//!                 before.txn before.undo_at front back length of old_middle
//!                 | key old_middle new_middle
//!
//! form: bit 0     slot, front, back and lengths have 2 bytes, not 1
//!       bits 1-2  tree has 1 byte more than this
//!       bits 3-4  txn and before.txn have 3 bytes more
//!       bits 5-6  undo_at and before.undo_at have 2 bytes more
//!       bit 7     before.txn and before.undo_at are 0, and have no bytes
//! ```
//!
//! Earlier versions wrote tags 1 and 2, with varints:
//!
//! ```text
//! 1 row insert   slot tree txn undo_at flags(1) key | value
//! 2 row replace  slot tree txn undo_at flags(1: old, new << 4) key before.txn before.undo_at
//!                front back old_middle | new_middle
//! ```

use super::node::Version;
use super::op_fields::{number, rest, version};
use base::codec::{Reader, Truncated};
use base::{TreeId, TxnId};

/// Tag of [`RowChange::Insert`].
pub(super) const INSERT: u8 = 23;
/// Tag of [`RowChange::Replace`].
pub(super) const REPLACE: u8 = 24;

const WIDE: u8 = 1;
const NONE_BEFORE: u8 = 1 << 7;

/// Room for the numbers of any form, 37 bytes, read and written eight bytes at a time.
const ROOM: usize = 48;

/// A transactional change of one row: page change and undo in one redo record (Lo4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowOp<'a> {
    /// Slot in the leaf.
    pub(crate) slot: u16,
    /// The tree, because undo works without the page.
    pub(crate) tree: TreeId,
    /// The whole key, for the same reason.
    pub(crate) key: &'a [u8],
    /// The new version: its transaction, and the address of its undo record, which this op is.
    pub(crate) version: Version,
    /// The change.
    pub(crate) change: RowChange<'a>,
}

/// The kinds of a [`RowOp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowChange<'a> {
    /// Inserts a row; the page does not hold the key yet.
    Insert {
        /// Flags of the new row.
        flags: u8,
        /// Value of the new row.
        value: &'a [u8],
    },
    /// Gives the row the value `old[..front] + new_middle + old[len - back..]`. It is an update, a
    /// delete mark (flags only), or an insert over a delete mark.
    Replace {
        /// The replaced version.
        before: Version,
        /// Its flags.
        old_flags: u8,
        /// The new version's flags.
        new_flags: u8,
        /// Bytes that stay at the front of the value.
        front: u16,
        /// Bytes that stay at the end of the value.
        back: u16,
        /// The bytes between them in the old value.
        old_middle: &'a [u8],
        /// The bytes between them in the new value.
        new_middle: &'a [u8],
    },
}

/// How many bytes each number has.
#[derive(Clone, Copy, Debug)]
struct Widths {
    /// Of the slot, and of all lengths.
    short: usize,
    tree: usize,
    txn: usize,
    undo_at: usize,
}

impl Widths {
    #[inline(always)]
    fn of(form: u8) -> Widths {
        let bits = |at: u32| usize::from(form >> at & 3);
        Widths {
            short: 1 + usize::from(form & WIDE),
            tree: 1 + bits(1),
            txn: 3 + bits(3),
            undo_at: 2 + bits(5),
        }
    }
}

/// Returns the slot of an encoded change that begins with a tag, this form and these bytes.
#[inline]
pub(super) fn slot_of(form: u8, low: u8, high: u8) -> u16 {
    if form & WIDE == 0 { low.into() } else { u16::from_le_bytes([low, high]) }
}

/// Numbers as they are written.
struct Numbers {
    bytes: [u8; ROOM],
    len: usize,
}

impl Numbers {
    #[inline(always)]
    fn put(&mut self, number: u64, width: usize) {
        self.bytes[self.len..self.len + 8].copy_from_slice(&number.to_le_bytes());
        self.len += width;
    }

    #[inline(always)]
    fn put_version(&mut self, version: Version, widths: Widths) {
        self.put(version.txn.0, widths.txn);
        self.put(version.undo_at, widths.undo_at);
    }
}

/// Reads numbers from the front of a record.
struct NumberReader<'b> {
    bytes: &'b [u8; ROOM],
    at: usize,
}

impl NumberReader<'_> {
    #[inline(always)]
    fn take(&mut self, width: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[self.at..self.at + 8]);
        self.at += width;
        u64::from_le_bytes(word) & (u64::MAX >> (64 - 8 * width))
    }

    #[inline(always)]
    fn version(&mut self, widths: Widths) -> Version {
        Version { txn: TxnId(self.take(widths.txn)), undo_at: self.take(widths.undo_at) }
    }
}

/// Returns how many bytes a number has, `least` or more.
fn width(number: u64, least: usize) -> usize {
    least.max((64 - number.leading_zeros() as usize).div_ceil(8))
}

impl<'a> RowOp<'a> {
    fn form(&self) -> u8 {
        let (before, lengths) = match self.change {
            RowChange::Insert { .. } => (Version::default(), 0),
            RowChange::Replace { before, front, back, old_middle, .. } => {
                (before, usize::from(front | back) | old_middle.len())
            }
        };
        let wide = (lengths | self.key.len() | usize::from(self.slot)) > 0xff;
        let txn = width(self.version.txn.0 | before.txn.0, 3) - 3;
        let undo_at = width(self.version.undo_at | before.undo_at, 2) - 2;
        let tree = width(self.tree.0.into(), 1) - 1;
        let form = u8::from(wide) | (tree << 1 | txn << 3 | undo_at << 5) as u8;
        let none_before = matches!(self.change, RowChange::Replace { .. }) && before == Version::default();
        if none_before { form | NONE_BEFORE } else { form }
    }

    /// Appends the encoding. REQUIRES: the key and the value fit a page, so that their lengths have
    /// two bytes at most.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let form = self.form();
        let widths = Widths::of(form);
        let mut numbers = Numbers { bytes: [0; ROOM], len: 0 };
        let (tag, flags) = match self.change {
            RowChange::Insert { flags, .. } => (INSERT, flags),
            RowChange::Replace { old_flags, new_flags, .. } => (REPLACE, old_flags | new_flags << 4),
        };
        numbers.put(u64::from_le_bytes([tag, form, 0, 0, 0, 0, 0, 0]), 2);
        numbers.put(self.slot.into(), widths.short);
        numbers.put(self.tree.0.into(), widths.tree);
        numbers.put_version(self.version, widths);
        numbers.put(flags.into(), 1);
        numbers.put(self.key.len() as u64, widths.short);
        let (middle, last) = match self.change {
            RowChange::Insert { value, .. } => (&[][..], value),
            RowChange::Replace { before, front, back, old_middle, new_middle, .. } => {
                if form & NONE_BEFORE == 0 {
                    numbers.put_version(before, widths);
                }
                numbers.put(front.into(), widths.short);
                numbers.put(back.into(), widths.short);
                numbers.put(old_middle.len() as u64, widths.short);
                (old_middle, new_middle)
            }
        };
        base::verify!(self.key.len().max(middle.len()) <= 0xffff, "a key or a value is longer than a page");
        out.extend_from_slice(&numbers.bytes[..numbers.len]);
        out.extend_from_slice(self.key);
        out.extend_from_slice(middle);
        out.extend_from_slice(last);
    }

    /// Decodes a change with this tag from what follows the tag.
    #[inline(always)]
    pub(super) fn decode(tag: u8, bytes: &'a [u8]) -> Result<RowOp<'a>, Truncated> {
        let (&form, bytes) = bytes.split_first().ok_or(Truncated)?;
        let widths = Widths::of(form);
        let mut room = [0; ROOM];
        let head = match bytes.first_chunk() {
            Some(head) => head,
            None => {
                room[..bytes.len()].copy_from_slice(bytes);
                &room
            }
        };
        let mut numbers = NumberReader { bytes: head, at: 0 };
        let slot = numbers.take(widths.short) as u16;
        let tree = TreeId(numbers.take(widths.tree) as u32);
        let version = numbers.version(widths);
        let flags = numbers.take(1) as u8;
        let key = numbers.take(widths.short) as usize;
        if tag == INSERT {
            let (key, value) =
                bytes.get(numbers.at..).and_then(|rest| rest.split_at_checked(key)).ok_or(Truncated)?;
            return Ok(RowOp { slot, tree, key, version, change: RowChange::Insert { flags, value } });
        }
        let before = if form & NONE_BEFORE == 0 { numbers.version(widths) } else { Version::default() };
        let (front, back) = (numbers.take(widths.short) as u16, numbers.take(widths.short) as u16);
        let middle = numbers.take(widths.short) as usize;
        let strings = bytes.get(numbers.at..).and_then(|rest| rest.split_at_checked(key));
        let (key, middles) = strings.ok_or(Truncated)?;
        let (old_middle, new_middle) = middles.split_at_checked(middle).ok_or(Truncated)?;
        let (old_flags, new_flags) = (flags & 15, flags >> 4);
        let change = RowChange::Replace { before, old_flags, new_flags, front, back, old_middle, new_middle };
        Ok(RowOp { slot, tree, key, version, change })
    }

    /// Decodes a change that an earlier version has written.
    #[cold]
    pub(super) fn decode_varints(tag: u8, r: &mut Reader<'a>) -> Result<RowOp<'a>, Truncated> {
        let (slot, tree, version_) = (number(r)?, TreeId(number(r)?), version(r)?);
        let flags = r.u8()?;
        let key = r.prefixed()?;
        let change = if tag == 1 {
            RowChange::Insert { flags, value: rest(r)? }
        } else {
            RowChange::Replace {
                before: version(r)?,
                old_flags: flags & 15,
                new_flags: flags >> 4,
                front: number(r)?,
                back: number(r)?,
                old_middle: r.prefixed()?,
                new_middle: rest(r)?,
            }
        };
        Ok(RowOp { slot, tree, key, version: version_, change })
    }
}

#[cfg(test)]
mod tests {
    use super::super::op::PageOp;
    use super::*;
    use proptest::prelude::*;

    /// Numbers of every length.
    fn bits(most: u32) -> impl Strategy<Value = u64> {
        (0..=most, any::<u64>()).prop_map(|(bits, number)| number & ((1u64 << bits) - 1))
    }

    fn some_version() -> impl Strategy<Value = Version> {
        (bits(48), bits(40)).prop_map(|(txn, undo_at)| Version { txn: TxnId(txn), undo_at })
    }

    proptest! {
        #[test]
        fn a_change_is_read_back_and_no_part_of_it_is_another(
            (slot, tree, version, before) in (bits(16), bits(32), some_version(), some_version()),
            (front, back, flags) in (bits(16), bits(16), bits(8)),
            (key, old_middle, last) in (bits(12), bits(14), bits(9)),
            inserts in any::<bool>(),
        ) {
            let strings = [key, old_middle, last].map(|len| (0..len).map(|n| n as u8).collect::<Vec<_>>());
            let [key, old_middle, last] = &strings;
            let change = if inserts {
                RowChange::Insert { flags: flags as u8, value: last }
            } else {
                let (old_flags, new_flags) = (flags as u8 & 15, flags as u8 >> 4);
                let (front, back) = (front as u16, back as u16);
                RowChange::Replace { before, old_flags, new_flags, front, back, old_middle, new_middle: last }
            };
            let op = PageOp::Row(RowOp { slot: slot as u16, tree: TreeId(tree as u32), key, version, change });
            let mut bytes = Vec::new();
            op.encode(&mut bytes);
            prop_assert_eq!(PageOp::decode(&bytes), Ok(op));
            // What ends before the last string is refused; a part of that is only a shorter one.
            let strings = bytes.len() - last.len();
            for end in (0..strings).rev().take(100).chain(0..strings.min(60)) {
                prop_assert_eq!(PageOp::decode(&bytes[..end]), Err(Truncated), "{} of {}", end, bytes.len());
            }
        }
    }

    /// A database that was not closed may have been written by an earlier version.
    #[test]
    fn changes_with_varints_are_still_read() {
        let version = Version { txn: TxnId(300), undo_at: 5 };
        let insert = RowChange::Insert { flags: 4, value: b"v" };
        let replace = RowChange::Replace {
            before: Version { txn: TxnId(1), undo_at: 128 },
            old_flags: 1,
            new_flags: 2,
            front: 3,
            back: 200,
            old_middle: b"old",
            new_middle: b"n",
        };
        let op = |change| PageOp::Row(RowOp { slot: 130, tree: TreeId(7), key: b"key", version, change });
        assert_eq!(PageOp::decode(b"\x01\x82\x01\x07\xac\x02\x05\x04\x03keyv"), Ok(op(insert)));
        let bytes = b"\x02\x82\x01\x07\xac\x02\x05\x21\x03key\x01\x80\x01\x03\xc8\x01\x03oldn";
        assert_eq!(PageOp::decode(bytes), Ok(op(replace)));
        assert_eq!(PageOp::decode(&bytes[..10]), Err(Truncated));
    }
}
