//! History batches: the undo of many committed transactions, in one batch of an undo file.
//!
//! ```text
//! batch, as in the journal but for its magic "USEG"
//! payload: count u32
//!          · directory, ascending:
//!            { transaction u48 · flags u8 (1: something to purge) · end u32 · crc32c u32 }
//!          · bytes
//! ```
//! `end` is where a transaction's bytes end within `bytes`, and the checksum is that of its bytes.
//! Memory keeps the place of the batch, the set of its ids (about two bits each), and its least and
//! greatest commit LSN. **No snapshot lies between these two.** So a reader that asks for the
//! commit LSN of a member may be given the least one: every snapshot compares with it as with the
//! true one.

use super::fetch::{FilePlace, MemberRank, UndoFile, UndoPiece};
use super::journal::{BATCH_HEAD, BLOCK, FileContent, Journal, fill_batch_head, read_batch};
use super::stream::Stream;
use crate::checkpoint::list::ListedBatches;
use crate::error::{Error, Result};
use crate::page::Damage;
use base::codec::{Put, Reader, Truncated};
use base::{Lsn, TxnId, crc};
use std::sync::Arc;

/// A longer stream does not go into a history batch. Its chunks go to files one by one.
pub(crate) const BATCH_MEMBER_BYTES_MAX: u64 = 64 << 10;
/// A history batch is full with this many transactions, or this many bytes.
pub(crate) const HISTORY_BATCH_TXNS: usize = 1024;
pub(crate) const HISTORY_BATCH_BYTES: usize = 128 << 10;

const MAGIC: u32 = u32::from_le_bytes(*b"USEG");
/// Bytes of an entry of the directory.
const ENTRY: usize = 15;
const PURGE: u8 = 1;
/// Transaction ids in one word of bits.
const WORD: u64 = 64;

/// A transaction that is to go into a history batch.
#[derive(Debug)]
pub(crate) struct BatchMember {
    pub(crate) txn: TxnId,
    /// Its commit LSN.
    pub(crate) lsn: Lsn,
    /// Purge has something to do for it.
    pub(crate) purge: bool,
    /// Its undo, all in memory.
    pub(crate) stream: Arc<Stream>,
    /// The length of its undo, bytes.
    pub(crate) len: usize,
}

/// What memory keeps of a history batch.
#[derive(Debug)]
pub(crate) struct HistoryBatch {
    file: Arc<UndoFile>,
    /// The offset of the batch in the file.
    at: u64,
    /// The offset at which the next batch may begin.
    end: u64,
    /// The length of the payload in bytes, and its CRC32C.
    len: u32,
    crc: u32,
    /// The least and the greatest commit LSN of its members.
    pub(crate) first: Lsn,
    pub(crate) last: Lsn,
    /// Its transaction ids: `id / 64`, and a bit for each id. Ascending.
    ids: Box<[(u64, u64)]>,
    pub(crate) count: u32,
    /// Purge has something to do for it.
    pub(crate) purge: bool,
}

/// A transaction with something to purge, and its whole stream.
pub(crate) type ToPurge = (TxnId, Vec<u8>);

/// Consecutive history batches in a file, still to be purged. No snapshot reads them.
#[derive(Clone, Debug)]
pub(crate) struct HistoryBatchRange {
    file: Arc<UndoFile>,
    at: u64,
    end: u64,
    txns: u64,
}

impl HistoryBatch {
    /// Whether the batch holds the undo of `txn`.
    pub(crate) fn has(&self, txn: TxnId) -> bool {
        let word = self.ids.binary_search_by_key(&(txn.0 / WORD), |(at, _)| *at);
        word.is_ok_and(|at| self.ids[at].1 >> (txn.0 % WORD) & 1 == 1)
    }

    /// Returns the ids divided by `by`, a multiple of 64, each quotient once.
    pub(super) fn blocks(&self, by: u64) -> impl Iterator<Item = u64> {
        let mut last = None;
        let blocks = self.ids.iter().map(move |(at, _)| at / (by / WORD));
        blocks.filter(move |block| last.replace(*block) != Some(*block))
    }

    /// Returns the least id, rounded down to a multiple of 64.
    pub(super) fn least(&self) -> u64 {
        self.ids.first().map_or(u64::MAX, |(at, _)| at * WORD)
    }

    /// Returns the memory of this entry, in bytes.
    pub(super) fn memory(&self) -> u64 {
        (size_of::<HistoryBatch>() + self.ids.len() * size_of::<(u64, u64)>()) as u64
    }

    /// Returns the piece to fetch to read the whole batch.
    pub(crate) fn piece(&self) -> UndoPiece {
        let place =
            FilePlace { file: Arc::clone(&self.file), at: self.at + BATCH_HEAD as u64, crc: self.crc };
        UndoPiece { owner: TxnId::NONE, base: 0, len: self.len, place, member: None }
    }

    /// Returns the piece to fetch to read the undo of `txn`. REQUIRES: the batch has it.
    pub(super) fn member(&self, txn: TxnId) -> UndoPiece {
        let before = self.ids.partition_point(|(at, _)| *at < txn.0 / WORD);
        let ones: u32 = self.ids[..before].iter().map(|(_, bits)| bits.count_ones()).sum();
        let below = self.ids[before].1 & ((1 << (txn.0 % WORD)) - 1);
        let rank = MemberRank { before: ones + below.count_ones(), of: self.count };
        UndoPiece { owner: txn, member: Some(rank), ..self.piece() }
    }

    /// Adds the batch to a checkpoint's list.
    pub(crate) fn list(&self, listed: &mut Vec<ListedBatches>) {
        add(listed, self.file.number, self.at, self.end, self.count.into());
    }
}

fn add(listed: &mut Vec<ListedBatches>, file: u32, from: u64, to: u64, txns: u64) {
    match listed.last_mut().filter(|last| last.file == file && last.to == from) {
        Some(last) => {
            last.to = to;
            last.txns += txns;
        }
        None => listed.push(ListedBatches { file, from, to, txns }),
    }
}

impl HistoryBatchRange {
    /// Adds what is left of the range to a checkpoint's list.
    pub(crate) fn list(&self, listed: &mut Vec<ListedBatches>) {
        add(listed, self.file.number, self.at, self.end, self.txns);
    }

    /// Adds `batches`, joined where they are consecutive, to `ranges`. REQUIRES: no snapshot reads
    /// them.
    pub(crate) fn of_batches(batches: Vec<HistoryBatch>, ranges: &mut Vec<HistoryBatchRange>) {
        for HistoryBatch { file, at, end, count, .. } in batches {
            match ranges.last_mut().filter(|last| Arc::ptr_eq(&last.file, &file) && last.end == at) {
                Some(last) => (last.end, last.txns) = (end, last.txns + u64::from(count)),
                None => ranges.push(HistoryBatchRange { file, at, end, txns: count.into() }),
            }
        }
    }

    pub(super) fn of(file: Arc<UndoFile>, listed: &ListedBatches) -> HistoryBatchRange {
        HistoryBatchRange { file, at: listed.from, end: listed.to, txns: listed.txns }
    }

    /// Returns how many transactions are left.
    pub(crate) fn txns(&self) -> u64 {
        self.txns
    }

    /// Returns the part of the range before `rest`, or the whole range if there is no rest.
    pub(crate) fn before(&self, rest: Option<&HistoryBatchRange>) -> HistoryBatchRange {
        let Some(rest) = rest else { return self.clone() };
        HistoryBatchRange {
            end: rest.at,
            txns: self.txns - rest.txns,
            file: Arc::clone(&self.file),
            at: self.at,
        }
    }

    /// Returns the transactions of the first batch that have something to purge, and the range
    /// behind that batch.
    pub(crate) fn next(mut self) -> Result<(Vec<ToPurge>, Option<HistoryBatchRange>)> {
        let (batch, end, next) = read_batch(&self.file, MAGIC, self.at, self.end)?;
        let payload = &batch[BATCH_HEAD..end];
        let damaged = || {
            Error::corrupt(&self.file.path, format!("the history batch at offset {} is malformed", self.at))
        };
        let count = Directory::of(payload).map_err(|_| damaged())?.count;
        let out = to_purge(payload).map_err(|_| damaged())?;
        self.txns = self.txns.saturating_sub(count as u64);
        self.at = next;
        let more = self.at < self.end;
        Ok((out, more.then_some(self)))
    }
}

/// The payload of a history batch.
#[derive(Clone, Copy, Debug)]
struct Directory<'a> {
    count: usize,
    entries: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Directory<'a> {
    fn of(payload: &'a [u8]) -> Result<Directory<'a>, Truncated> {
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
    let place = &piece.place;
    let damaged = || {
        let what = format!("the history batch at offset {} lacks {:?}", place.at, piece.owner);
        Error::corrupt(&place.file.path, what)
    };
    // The entry before it says where its bytes begin.
    let first = rank.before.saturating_sub(1);
    let mut entries = [0; 2 * ENTRY];
    let entries = &mut entries[..(rank.before - first + 1) as usize * ENTRY];
    place.read(4 + u64::from(first) * ENTRY as u64, entries)?;
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
    place.read(4 + u64::from(rank.of) * ENTRY as u64 + u64::from(from), &mut bytes)?;
    Ok((bytes, crc))
}

/// Returns the transactions of a history batch that have something to purge, with their streams.
pub(crate) fn to_purge(payload: &[u8]) -> Result<Vec<ToPurge>, Damage> {
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

/// Appends a history batch, which will be at offset `at` of `file`, to `out`. Returns what memory
/// keeps of it.
fn encode(members: &mut [BatchMember], file: &Arc<UndoFile>, at: u64, out: &mut Vec<u8>) -> HistoryBatch {
    members.sort_unstable_by_key(|member| member.txn);
    let (start, directory) = (out.len() + BATCH_HEAD, 4 + members.len() * ENTRY);
    let len = directory + members.iter().map(|member| member.len).sum::<usize>();
    let end = (start + len).next_multiple_of(BLOCK);
    out.reserve(end - out.len());
    out.resize(start + directory, 0);
    let mut head = Vec::with_capacity(directory);
    head.put_u32(members.len() as u32);
    let mut ids: Vec<(u64, u64)> = Vec::new();
    for member in &*members {
        let from = out.len();
        member.stream.copy(out);
        base::check!(out.len() - from == member.len, "the undo of {} has changed", member.txn);
        head.put_u48(member.txn.0);
        head.put_u8(if member.purge { PURGE } else { 0 });
        head.put_u32((out.len() - start - directory) as u32);
        head.put_u32(crc::crc32c(&out[from..]));
        let (word, bit) = (member.txn.0 / WORD, 1 << (member.txn.0 % WORD));
        match ids.last_mut().filter(|(at, _)| *at == word) {
            Some((_, bits)) => *bits |= bit,
            None => ids.push((word, bit)),
        }
    }
    out[start..start + directory].copy_from_slice(&head);
    out.resize(end, 0);
    let crc = fill_batch_head(&mut out[start - BATCH_HEAD..], MAGIC, len, file.number, at);
    HistoryBatch {
        file: Arc::clone(file),
        at,
        end: at + (end + BATCH_HEAD - start) as u64,
        len: len as u32,
        crc,
        first: members.iter().map(|member| member.lsn).min().expect("a batch has members"),
        last: members.iter().map(|member| member.lsn).max().expect("a batch has members"),
        ids: ids.into(),
        count: members.len() as u32,
        purge: members.iter().any(|member| member.purge),
    }
}

impl Journal {
    /// Writes one history batch for each of `groups`. No group may be empty; the order in a group
    /// does not matter. The batches can be read at once and are not durable. If the disk is full
    /// nothing changes.
    pub(crate) fn append_history_batches<'a>(
        &mut self,
        groups: impl Iterator<Item = &'a mut [BatchMember]>,
    ) -> Result<Vec<HistoryBatch>> {
        let (file, start) = self.place_for_batch(FileContent::History)?;
        let mut bytes = self.take_buffer();
        let mut batches = Vec::new();
        for members in groups {
            batches.push(encode(members, &file, start + bytes.len() as u64, &mut bytes));
        }
        let written = self.write(&file, &bytes, start);
        self.keep_buffer(bytes);
        written.map(|()| batches)
    }
}
