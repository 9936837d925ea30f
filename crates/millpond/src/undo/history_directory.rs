//! The payload of a history batch: a directory of its members, and their undo.
//!
//! ```text
//! payload: count u32
//!          · directory, ascending:
//!            { transaction u48 · flags u8 (1: something to purge) · end u32 · crc32c u32 }
//!          · bytes
//! ```
//! `end` is where a transaction's bytes end within `bytes`, and the checksum is that of its bytes.

use super::location::{MemberRank, UndoPiece};
use crate::error::{Error, Result};
use crate::page::Damage;
use base::TxnId;
use base::codec::{Put, Reader, Truncated};

/// Bytes of an entry of the directory.
const ENTRY: usize = 15;
const PURGE: u8 = 1;

/// A transaction with something to purge, and its whole stream.
pub(crate) type ToPurge = (TxnId, Vec<u8>);

/// Returns the bytes of the count and of the directory of `count` members.
pub(super) fn directory_bytes(count: usize) -> usize {
    4 + count * ENTRY
}

/// Appends the entry of a member whose bytes end at `end`.
pub(super) fn put_entry(out: &mut Vec<u8>, txn: TxnId, purge: bool, end: u32, crc: u32) {
    out.put_u48(txn.0);
    out.put_u8(if purge { PURGE } else { 0 });
    out.put_u32(end);
    out.put_u32(crc);
}

/// The payload of a history batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directory<'a> {
    pub(super) count: usize,
    entries: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Directory<'a> {
    pub(super) fn of(payload: &'a [u8]) -> Result<Directory<'a>, Truncated> {
        let mut r = Reader::new(payload);
        let count = r.u32()? as usize;
        let entries = r.bytes(count.checked_mul(ENTRY).ok_or(Truncated)?)?;
        Ok(Directory { count, entries, bytes: r.rest() })
    }

    fn entry(&self, at: usize) -> Result<(TxnId, u8, usize), Truncated> {
        let mut r = Reader::new(&self.entries[at * ENTRY..(at + 1) * ENTRY]);
        Ok((TxnId(r.u48()?), r.u8()?, r.u32()? as usize))
    }

    fn get(&self, at: usize) -> Result<(TxnId, bool, &'a [u8]), Truncated> {
        let (txn, flags, end) = self.entry(at)?;
        let from = if at == 0 { 0 } else { self.entry(at - 1)?.2 };
        Ok((txn, flags & PURGE != 0, self.bytes.get(from..end).ok_or(Truncated)?))
    }
}

/// Reads the stream of one member of a history batch, and its checksum.
pub(super) fn read_member(piece: &UndoPiece, rank: MemberRank) -> Result<(Vec<u8>, u32)> {
    let location = &piece.location;
    let damaged = || {
        let what = format!("the history batch at offset {} lacks {:?}", location.at, piece.owner);
        Error::corrupt(&location.file.path, what)
    };
    // The entry before it says where its bytes begin.
    let first = rank.before.saturating_sub(1);
    let mut entries = [0; 2 * ENTRY];
    let entries = &mut entries[..(rank.before - first + 1) as usize * ENTRY];
    location.read(4 + u64::from(first) * ENTRY as u64, entries)?;
    let mut r = Reader::new(entries);
    let mut entry = || Ok::<_, Truncated>((TxnId(r.u48()?), r.u8()?, r.u32()?, r.u32()?));
    let mut from = 0;
    if rank.before > 0 {
        from = entry().map_err(|_| damaged())?.2;
    }
    let (txn, _, end, crc) = entry().map_err(|_| damaged())?;
    if txn != piece.owner || end < from || end > piece.len {
        return Err(damaged());
    }
    let mut bytes = vec![0; (end - from) as usize];
    location.read(4 + u64::from(rank.of) * ENTRY as u64 + u64::from(from), &mut bytes)?;
    Ok((bytes, crc))
}

/// Returns the transactions of a history batch that have something to purge, with their streams.
pub(super) fn to_purge(payload: &[u8]) -> Result<Vec<ToPurge>, Damage> {
    let malformed = |_| Damage("a history batch is malformed");
    let directory = Directory::of(payload).map_err(malformed)?;
    let all = (0..directory.count).map(|at| directory.get(at).map_err(malformed));
    let wanted = all.filter_map(|member| match member {
        Ok((txn, true, bytes)) => Some(Ok((txn, bytes.to_vec()))),
        Ok((_, false, _)) => None,
        Err(damage) => Some(Err(damage)),
    });
    wanted.collect()
}
