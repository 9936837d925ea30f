//! One undo record and its bytes.
//!
//! ```text
//! owner u48 · kind u8 · distance varint (to the record that a rollback goes to next; 0: none)
//! 1 insert   tree varint · key prefixed
//! 2 replace  tree varint · key prefixed · flags u8 (old, new << 4)
//!            · before.txn varint · before.undo_at varint
//!            · front varint · back varint · old middle prefixed
//! 3 chain    tree varint · first page varint
//! 4 rewind   end varint · last + 1 varint (0: none)
//! ```
//! The distance follows from the records before it in the stream, so the bytes follow from the redo
//! alone.

use crate::page::Damage;
use crate::page::node::{DELETED, OVERFLOW, Version};
use crate::page::op::{RowChange, RowOp};
use base::codec::{Put, Reader, Truncated};
use base::{PageNo, TreeId, TxnId};

const INSERT: u8 = 1;
const REPLACE: u8 = 2;
const CHAIN: u8 = 3;
const REWIND: u8 = 4;

/// An undo record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UndoRecord<'a> {
    /// The transaction whose stream it is in; checked at every read.
    pub(crate) owner: TxnId,
    /// The record with which a rollback continues: the newest one before this that is not rolled
    /// back yet.
    pub(crate) prev: Option<u64>,
    /// What it undoes.
    pub(crate) entry: UndoEntry<'a>,
}

/// What a record undoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UndoEntry<'a> {
    /// The key was absent.
    Insert { tree: TreeId, key: &'a [u8] },
    /// The row had the value `new[..front] + old_middle + new[len - back..]`, where `new` is the
    /// value after this change.
    Replace {
        tree: TreeId,
        key: &'a [u8],
        before: Version,
        old_flags: u8,
        new_flags: u8,
        front: u16,
        back: u16,
        old_middle: &'a [u8],
    },
    /// An overflow chain was begun. Until a row refers to it, only this record does (Pa5).
    Chain { tree: TreeId, head: PageNo },
    /// A rollback to a savepoint. All records from offset `end` up to here have been rolled back,
    /// and a later rollback continues at `last`. Undoes nothing itself.
    Rewind { end: u64, last: Option<u64> },
}

impl<'a> UndoEntry<'a> {
    /// Returns the entry for a row change.
    pub(crate) fn of(op: &RowOp<'a>) -> UndoEntry<'a> {
        let (tree, key) = (op.tree, op.key);
        match op.change {
            RowChange::Insert { .. } => UndoEntry::Insert { tree, key },
            RowChange::Replace { before, old_flags, new_flags, front, back, old_middle, .. } => {
                UndoEntry::Replace { tree, key, before, old_flags, new_flags, front, back, old_middle }
            }
        }
    }

    /// Whether the row was a delete mark before. Undoing the change restores the mark, perhaps
    /// after the purge of the mark's own transaction has looked for it and not found it.
    pub(super) fn covers_mark(&self) -> bool {
        matches!(*self, UndoEntry::Replace { old_flags, .. } if old_flags & DELETED != 0)
    }

    /// Whether purge has something to do once no snapshot sees the old version: a delete mark or an
    /// old chain to remove.
    ///
    /// Purge can find a chain only because changes to and from chains keep no common bytes:
    /// `old_middle` is then the whole old value, which is the whole reference.
    pub(crate) fn needs_purge(&self) -> bool {
        matches!(*self, UndoEntry::Replace { old_flags, new_flags, .. }
            if new_flags & DELETED != 0 || old_flags & OVERFLOW != 0)
    }
}

/// Encodes the body of the log record of a `Rewind`, which no page change carries: end varint, last
/// + 1 varint (0: none).
pub(crate) fn encode_rewind(end: u64, last: Option<u64>, out: &mut Vec<u8>) {
    out.put_varint(end);
    out.put_varint(last.map_or(0, |last| last + 1));
}

/// Decodes the body of the log record of a `Rewind`.
pub(crate) fn decode_rewind(bytes: &[u8]) -> Result<UndoEntry<'static>, Damage> {
    let mut r = Reader::new(bytes);
    let rewind =
        (|| Ok::<_, Truncated>(UndoEntry::Rewind { end: r.varint()?, last: r.varint()?.checked_sub(1) }))();
    rewind.ok().filter(|_| r.is_empty()).ok_or(Damage("an undo record in the log is cut or malformed"))
}

impl<'a> UndoRecord<'a> {
    /// Returns an upper limit of the record's length.
    pub(super) fn bytes_max(&self) -> usize {
        // Nine numbers of at most seven bytes (ids of 48 bits take seven, lengths and pages five),
        // and three of one byte.
        const NUMBERS: usize = 80;
        match self.entry {
            UndoEntry::Insert { key, .. } => NUMBERS + key.len(),
            UndoEntry::Replace { key, old_middle, .. } => NUMBERS + key.len() + old_middle.len(),
            UndoEntry::Chain { .. } | UndoEntry::Rewind { .. } => NUMBERS,
        }
    }

    /// Appends the bytes of the record, which will be at offset `at` of the stream.
    #[inline]
    pub(crate) fn encode(&self, at: u64, out: &mut Vec<u8>) {
        out.put_u48(self.owner.0);
        let kind = match self.entry {
            UndoEntry::Insert { .. } => INSERT,
            UndoEntry::Replace { .. } => REPLACE,
            UndoEntry::Chain { .. } => CHAIN,
            UndoEntry::Rewind { .. } => REWIND,
        };
        out.put_u8(kind);
        out.put_varint(self.prev.map_or(0, |prev| at - prev));
        match self.entry {
            UndoEntry::Insert { tree, key } => {
                out.put_varint(u64::from(tree.0));
                out.put_prefixed(key);
            }
            UndoEntry::Replace { tree, key, before, old_flags, new_flags, front, back, old_middle } => {
                out.put_varint(u64::from(tree.0));
                out.put_prefixed(key);
                out.put_u8(old_flags | new_flags << 4);
                out.put_varint(before.txn.0);
                out.put_varint(before.undo_at);
                out.put_varint(u64::from(front));
                out.put_varint(u64::from(back));
                out.put_prefixed(old_middle);
            }
            UndoEntry::Chain { tree, head } => {
                out.put_varint(u64::from(tree.0));
                out.put_varint(u64::from(head.0));
            }
            UndoEntry::Rewind { end, last } => {
                out.put_varint(end);
                out.put_varint(last.map_or(0, |last| last + 1));
            }
        }
    }

    /// Decodes the record at the front of `bytes`, which are at offset `at` of the stream. Returns
    /// it and its length.
    pub(crate) fn decode(at: u64, bytes: &'a [u8]) -> Result<(UndoRecord<'a>, usize), Damage> {
        UndoRecord::read(at, bytes).map_err(|Truncated| Damage("an undo record is cut or malformed"))
    }

    fn read(at: u64, bytes: &'a [u8]) -> Result<(UndoRecord<'a>, usize), Truncated> {
        let mut r = Reader::new(bytes);
        let owner = TxnId(r.u48()?);
        let kind = r.u8()?;
        let distance = r.varint()?;
        let prev = if distance == 0 { None } else { Some(at.checked_sub(distance).ok_or(Truncated)?) };
        let number = |r: &mut Reader<'a>| u32::try_from(r.varint()?).map_err(|_| Truncated);
        let short = |r: &mut Reader<'a>| u16::try_from(r.varint()?).map_err(|_| Truncated);
        let entry = match kind {
            INSERT => UndoEntry::Insert { tree: TreeId(number(&mut r)?), key: r.prefixed()? },
            REPLACE => {
                let (tree, key, flags) = (TreeId(number(&mut r)?), r.prefixed()?, r.u8()?);
                let before = Version { txn: TxnId(r.varint()?), undo_at: r.varint()? };
                UndoEntry::Replace {
                    tree,
                    key,
                    before,
                    old_flags: flags & 15,
                    new_flags: flags >> 4,
                    front: short(&mut r)?,
                    back: short(&mut r)?,
                    old_middle: r.prefixed()?,
                }
            }
            CHAIN => UndoEntry::Chain { tree: TreeId(number(&mut r)?), head: PageNo(number(&mut r)?) },
            REWIND => UndoEntry::Rewind { end: r.varint()?, last: r.varint()?.checked_sub(1) },
            _ => return Err(Truncated),
        };
        Ok((UndoRecord { owner, prev, entry }, r.taken()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[expect(
        clippy::type_complexity,
        reason = "the fields of all kinds side by side, named where they are used"
    )]
    fn entry() -> impl Strategy<Value = (u8, u32, Vec<u8>, (u64, u64), (u8, u8), (u16, u16), Vec<u8>)> {
        (
            1..=4u8,
            any::<u32>(),
            any::<Vec<u8>>(),
            any::<(u64, u64)>(),
            (0..4u8, 0..4u8),
            any::<(u16, u16)>(),
            any::<Vec<u8>>(),
        )
    }

    proptest! {
        #[test]
        fn an_encoded_record_is_decoded_to_the_same(e in entry(), at in 1u64..1 << 40, owner in 1u64..1 << 48, back: bool) {
            let (kind, tree, key, (a, b), (old_flags, new_flags), (front, rear), old_middle) = e;
            let tree = TreeId(tree);
            let entry = match kind {
                INSERT => UndoEntry::Insert { tree, key: &key },
                REPLACE => UndoEntry::Replace {
                    tree, key: &key, before: Version { txn: TxnId(a), undo_at: b }, old_flags, new_flags, front,
                    back: rear, old_middle: &old_middle,
                },
                CHAIN => UndoEntry::Chain { tree, head: PageNo(a as u32) },
                _ => UndoEntry::Rewind { end: a, last: b.checked_sub(1) },
            };
            let record = UndoRecord { owner: TxnId(owner), prev: back.then_some(at / 2), entry };
            let mut bytes = Vec::new();
            record.encode(at, &mut bytes);
            let len = bytes.len();
            // A row's address takes 40 bits and an id 48. The values made here may take 64.
            prop_assert!(len <= record.bytes_max() + 12);
            bytes.extend_from_slice(b"what follows");
            prop_assert_eq!(UndoRecord::decode(at, &bytes), Ok((record, len)));
            prop_assert!(UndoRecord::decode(at, &bytes[..len - 1]).is_err());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, at: u64) {
            let _ = UndoRecord::decode(at, &bytes);
        }
    }
}
