//! The format of groups, the atomic unit of the redo log, and of the records inside a group.
//!
//! ```text
//!  0       4        8
//!  +-------+--------+---------------------------------------------+
//!  | len   | crc32c | records …                                   |
//!  +-------+--------+---------------------------------------------+
//!  record: [varint length of the rest][kind u8][body]
//! ```
//! `len` counts the whole group. The checksum covers everything after itself, then the LSN of the
//! group, its epoch and its length. So bytes of an earlier use of a segment never pass for a group.
//! A length of 0 is no group: the log ends. Bytes of 255 up to the end of a block are padding: a
//! flush sealed its range there.

use base::codec::{Put, Reader, Truncated, fixed};
use base::{Lsn, PageNo, TreeId, TxnId, crc};

/// Bytes before a group's records.
pub(crate) const GROUP_HEADER_BYTES: usize = 8;
/// The longest group: the 64 KiB of page records of a mini-transaction (Pa6) and its header, with
/// room for a page image.
pub(crate) const GROUP_BYTES_MAX: usize = 96 << 10;

/// The low bits of the previous page LSN that a record holds.
pub(crate) const PREV_MASK: u64 = (1 << 40) - 1;

const PAGE: u8 = 1;
const UNDO: u8 = 2;
const COMMIT: u8 = 3;
const PREPARE: u8 = 4;
const ABORT: u8 = 5;
const REVERTED: u8 = 6;
// 7 belonged to an earlier format.
const CHECKPOINT: u8 = 8;
const PURGED: u8 = 9;
const COUNTER: u8 = 10;
const DIRTY_PAGES: u8 = 11;
const FILLER: u8 = 12;
const BOOKMARK: u8 = 13;

/// One record of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// A change of one page.
    Page {
        /// The page.
        page: PageNo,
        /// The LSN of the page before this group, low 40 bits. A mismatch at redo means that a
        /// write of the page was lost.
        prev: u64,
        /// The change, in the encoding of `page::op`.
        op: &'a [u8],
    },
    /// An undo entry that belongs to no page change: for a chain of overflow pages that no row
    /// links yet.
    Undo {
        /// The transaction of the undo stream.
        txn: TxnId,
        /// The address of the entry in the stream.
        at: u64,
        /// The entry.
        entry: &'a [u8],
    },
    /// The transaction is committed; the LSN of the group is its commit LSN.
    Commit {
        /// The transaction.
        txn: TxnId,
    },
    /// The transaction is prepared: an outside coordinator decides by this id whether it commits.
    Prepare {
        /// The transaction.
        txn: TxnId,
        /// The id of the coordinator for it.
        xid: &'a [u8],
    },
    /// The transaction will never commit. Its versions are to be reverted.
    Abort {
        /// The transaction.
        txn: TxnId,
    },
    /// The aborted transaction has been reverted: no page holds any of its versions.
    Reverted {
        /// The transaction.
        txn: TxnId,
    },
    /// A part of the list of unfinished transactions of a checkpoint, in the encoding of
    /// `checkpoint`.
    Checkpoint {
        /// The part.
        body: &'a [u8],
    },
    /// These committed transactions have been purged.
    Purged {
        /// Their ids, see [`put_ids`].
        txns: &'a [u8],
    },
    /// The counter of a table is at this value or beyond.
    Counter {
        /// The table's tree.
        tree: TreeId,
        /// The next value that no row has.
        next: u64,
    },
    /// A part of a list of dirty pages, in the encoding of `checkpoint`.
    DirtyPages {
        /// The part.
        body: &'a [u8],
    },
    /// Says nothing: the log is to go on in the next segment.
    Filler {
        /// Bytes of no meaning.
        body: &'a [u8],
    },
    /// The program's bookmark from here on.
    Bookmark {
        /// What the program keeps; empty: nothing.
        bookmark: &'a [u8],
    },
}

/// Appends the ids of a [`Record::Purged`]: each as the varint of its distance from the id before,
/// ascending. Sorts `txns`.
pub(crate) fn put_ids(out: &mut Vec<u8>, txns: &mut [TxnId]) {
    txns.sort_unstable();
    let mut before = 0;
    for txn in txns {
        out.put_varint(txn.0 - before);
        before = txn.0;
    }
}

/// Reads the ids of a [`Record::Purged`].
pub(crate) fn ids(bytes: &[u8]) -> impl Iterator<Item = Result<TxnId, Truncated>> {
    let (mut reader, mut before) = (Reader::new(bytes), 0u64);
    std::iter::from_fn(move || {
        if reader.is_empty() {
            return None;
        }
        let id = reader.varint().and_then(|step| before.checked_add(step).ok_or(Truncated));
        match id {
            Ok(id) => before = id,
            Err(_) => reader = Reader::new(&[]),
        }
        Some(id.map(TxnId))
    })
}

/// Appends `record` to `out`.
pub(crate) fn put_record(out: &mut Vec<u8>, record: &Record<'_>) {
    match *record {
        Record::Page { page, prev, op } => {
            let len = 1 + 4 + 5 + op.len();
            out.put_varint(len as u64);
            out.put_u8(PAGE);
            out.put_u32(page.0);
            out.put_u40(prev);
            out.extend_from_slice(op);
        }
        Record::Undo { txn, at, entry } => {
            out.put_varint((1 + 6 + 5 + entry.len()) as u64);
            out.put_u8(UNDO);
            out.put_u48(txn.0);
            out.put_u40(at);
            out.extend_from_slice(entry);
        }
        Record::Commit { txn } => put_txn(out, COMMIT, txn),
        Record::Abort { txn } => put_txn(out, ABORT, txn),
        Record::Reverted { txn } => put_txn(out, REVERTED, txn),
        Record::Prepare { txn, xid } => {
            out.put_varint((1 + 6 + xid.len()) as u64);
            out.put_u8(PREPARE);
            out.put_u48(txn.0);
            out.extend_from_slice(xid);
        }
        Record::Checkpoint { body } => {
            out.put_varint((1 + body.len()) as u64);
            out.put_u8(CHECKPOINT);
            out.extend_from_slice(body);
        }
        Record::DirtyPages { body } => {
            out.put_varint((1 + body.len()) as u64);
            out.put_u8(DIRTY_PAGES);
            out.extend_from_slice(body);
        }
        Record::Filler { body } => {
            out.put_varint((1 + body.len()) as u64);
            out.put_u8(FILLER);
            out.extend_from_slice(body);
        }
        Record::Bookmark { bookmark } => {
            out.put_varint((1 + bookmark.len()) as u64);
            out.put_u8(BOOKMARK);
            out.extend_from_slice(bookmark);
        }
        Record::Purged { txns } => {
            out.put_varint((1 + txns.len()) as u64);
            out.put_u8(PURGED);
            out.extend_from_slice(txns);
        }
        Record::Counter { tree, next } => {
            out.put_varint(1 + 4 + 8);
            out.put_u8(COUNTER);
            out.put_u32(tree.0);
            out.put_u64(next);
        }
    }
}

/// Appends a [`Record::Page`] whose change `encode` appends, which saves a copy.
pub(crate) fn put_page(out: &mut Vec<u8>, page: PageNo, prev: u64, encode: impl FnOnce(&mut Vec<u8>)) {
    // Most lengths take two bytes.
    let start = out.len();
    out.extend_from_slice(&[0; 2]);
    out.put_u8(PAGE);
    out.put_u32(page.0);
    out.put_u40(prev);
    encode(out);
    let len = out.len() - start - 2;
    match len {
        0..0x80 => drop(out.remove(start)),
        0x80..0x4000 => {}
        _ => out.insert(start, 0),
    }
    let last = out.len() - len - 1 - start;
    for (n, byte) in out[start..=start + last].iter_mut().enumerate() {
        *byte = (len >> (7 * n)) as u8 & 0x7f | if n < last { 0x80 } else { 0 };
    }
}

fn put_txn(out: &mut Vec<u8>, kind: u8, txn: TxnId) {
    out.put_varint(1 + 6);
    out.put_u8(kind);
    out.put_u48(txn.0);
}

/// Iterates over the records of a group whose checksum has been verified.
#[derive(Clone, Debug)]
pub(crate) struct Records<'a> {
    reader: Reader<'a>,
}

impl<'a> Records<'a> {
    /// Starts at the first record of `body`: a group without its header.
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Records { reader: Reader::new(body) }
    }

    fn record(&mut self) -> Result<Record<'a>, Truncated> {
        let mut r = Reader::new(self.reader.prefixed()?);
        let record = match r.u8()? {
            PAGE => Record::Page { page: PageNo(r.u32()?), prev: r.u40()?, op: r.rest() },
            UNDO => Record::Undo { txn: TxnId(r.u48()?), at: r.u40()?, entry: r.rest() },
            COMMIT => Record::Commit { txn: TxnId(r.u48()?) },
            PREPARE => Record::Prepare { txn: TxnId(r.u48()?), xid: r.rest() },
            ABORT => Record::Abort { txn: TxnId(r.u48()?) },
            REVERTED => Record::Reverted { txn: TxnId(r.u48()?) },
            CHECKPOINT => Record::Checkpoint { body: r.rest() },
            DIRTY_PAGES => Record::DirtyPages { body: r.rest() },
            FILLER => Record::Filler { body: r.rest() },
            BOOKMARK => Record::Bookmark { bookmark: r.rest() },
            PURGED => Record::Purged { txns: r.rest() },
            COUNTER => Record::Counter { tree: TreeId(r.u32()?), next: r.u64()? },
            _ => return Err(Truncated),
        };
        Ok(record)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Truncated>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(record)
    }
}

/// Clears `out` and leaves room for the header of the group.
pub(crate) fn begin(out: &mut Vec<u8>) {
    out.clear();
    out.resize(GROUP_HEADER_BYTES, 0);
}

/// Fills in the length, and returns the checksum of the records. [`finish_checksum`] finishes it
/// once the LSN is known.
pub(crate) fn close(group: &mut [u8]) -> u32 {
    let len = u32::try_from(group.len()).expect("a group is short");
    assert!(group.len() > GROUP_HEADER_BYTES && group.len() <= GROUP_BYTES_MAX, "group of {len} bytes");
    group[..4].copy_from_slice(&len.to_le_bytes());
    crc::crc32c(&group[GROUP_HEADER_BYTES..])
}

/// Finishes the checksum of a closed group for its LSN and epoch.
pub(crate) fn finish_checksum(group: &mut [u8], records_crc: u32, lsn: Lsn, epoch: u32) {
    let crc = with_position(records_crc, group.len(), lsn, epoch);
    fixed::set_u32(group, 4, crc);
    base::verify!(verify(group, lsn, epoch), "the group at {lsn} is not read back");
}

/// Extends the checksum of the records over the length, the LSN and the epoch of the group.
fn with_position(records_crc: u32, len: usize, lsn: Lsn, epoch: u32) -> u32 {
    let [lsn, rest] = position(len, lsn, epoch);
    crc::crc32c_append(crc::crc32c_append(records_crc, &lsn.to_le_bytes()), &rest.to_le_bytes())
}

/// Returns what the checksum covers after the records.
#[inline]
fn position(len: usize, lsn: Lsn, epoch: u32) -> [u64; 2] {
    [lsn.0, u64::from(epoch) | (len as u64) << 32]
}

/// Returns the length that the header of a group claims; `None` if no group can have it.
pub(crate) fn claimed_len(header: &[u8; GROUP_HEADER_BYTES]) -> Option<usize> {
    let len = fixed::get_u32(header, 0) as usize;
    (len > GROUP_HEADER_BYTES && len <= GROUP_BYTES_MAX).then_some(len)
}

/// Whether `group` is whole and was written at this LSN in this epoch.
#[inline]
pub(crate) fn verify(group: &[u8], lsn: Lsn, epoch: u32) -> bool {
    let Some((header, records)) = group.split_at_checked(GROUP_HEADER_BYTES) else { return false };
    !records.is_empty()
        && fixed::get_u32(header, 0) as usize == group.len()
        && fixed::get_u32(header, 4) == crc::crc32c_then(records, position(group.len(), lsn, epoch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8]) -> Vec<Record<'_>> {
        vec![
            Record::Page { page: PageNo(9), prev: 0xff_ffff_ffff, op: bytes },
            Record::Undo { txn: TxnId(5), at: 17, entry: bytes },
            Record::Commit { txn: TxnId(1 << 47) },
            Record::Prepare { txn: TxnId(2), xid: bytes },
            Record::Abort { txn: TxnId(3) },
            Record::Reverted { txn: TxnId(4) },
            Record::Checkpoint { body: bytes },
            Record::DirtyPages { body: bytes },
            Record::Filler { body: bytes },
            Record::Bookmark { bookmark: bytes },
            Record::Purged { txns: bytes },
            Record::Counter { tree: TreeId(7), next: u64::MAX },
        ]
    }

    #[test]
    fn every_kind_of_record_is_read_back() {
        let mut out = Vec::new();
        begin(&mut out);
        for record in all(b"some bytes") {
            put_record(&mut out, &record);
        }
        let crc = close(&mut out);
        finish_checksum(&mut out, crc, Lsn(100), 2);
        assert!(verify(&out, Lsn(100), 2));
        assert!(!verify(&out, Lsn(101), 2), "another position");
        assert!(!verify(&out, Lsn(100), 3), "another epoch");
        let read: Vec<_> = Records::new(&out[GROUP_HEADER_BYTES..]).map(Result::unwrap).collect();
        assert_eq!(read, all(b"some bytes"));
    }

    #[test]
    fn put_page_and_put_record_agree_at_any_length() {
        for len in [0, 1, 100, 117, 118, 119, 1000, 16_373, 16_374, 16_375, 70_000] {
            let op = vec![7; len];
            let (mut whole, mut in_place) = (vec![1], vec![1]);
            put_record(&mut whole, &Record::Page { page: PageNo(9), prev: 5, op: &op });
            put_page(&mut in_place, PageNo(9), 5, |out| out.extend_from_slice(&op));
            assert_eq!(whole, in_place, "{len}");
        }
    }

    proptest! {
        #[test]
        fn ids_are_read_back_in_order(mut txns in proptest::collection::vec(0u64..1 << 48, 0..50)) {
            let mut bytes = Vec::new();
            let mut all: Vec<TxnId> = txns.iter().copied().map(TxnId).collect();
            put_ids(&mut bytes, &mut all);
            txns.sort_unstable();
            let read: Vec<u64> = ids(&bytes).map(|id| id.unwrap().0).collect();
            prop_assert_eq!(read, txns);
        }

        #[test]
        fn foreign_bytes_are_refused_without_a_panic(bytes: Vec<u8>) {
            let _ = (Records::new(&bytes).count(), ids(&bytes).count());
            prop_assert!(!verify(&bytes, Lsn(1), 1));
        }
    }
}
