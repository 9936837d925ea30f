//! History batches: the undo of many committed transactions, in one batch of an undo file.
//!
//! The magic of such a [batch](super::batch) is "USEG", and its payload begins with a
//! [directory](super::history_directory). Memory keeps the location of the batch, the set of its
//! ids (about two bits each), and its least and greatest commit LSN. **No snapshot lies between
//! these two.** So a reader that asks for the commit LSN of a member may be given the least one:
//! every snapshot compares with it as with the true one.

use super::batch::{BATCH_HEAD, BLOCK, fill_batch_head, read_batch};
use super::history_directory::{self, Directory, ToPurge, directory_bytes, put_entry};
use super::location::{FileLocation, MemberRank, UndoFile, UndoPiece};
use super::stream::Stream;
use crate::checkpoint::list::ListedBatches;
use crate::error::{Error, Result};
use base::codec::Put;
use base::{Lsn, TxnId, crc};
use std::sync::Arc;

/// A longer stream does not go into a history batch. Its chunks go to files one by one.
pub(crate) const BATCH_MEMBER_BYTES_MAX: u64 = 64 << 10;
/// A history batch is full with this many transactions, or this many bytes.
pub(crate) const HISTORY_BATCH_TXNS: usize = 1024;
pub(crate) const HISTORY_BATCH_BYTES: usize = 128 << 10;
const _: () = assert!(BATCH_MEMBER_BYTES_MAX as usize <= HISTORY_BATCH_BYTES, "each member fits");

const MAGIC: u32 = u32::from_le_bytes(*b"USEG");
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
        let location =
            FileLocation { file: Arc::clone(&self.file), at: self.at + BATCH_HEAD as u64, crc: self.crc };
        UndoPiece { owner: TxnId::NONE, base: 0, len: self.len, location, member: None }
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
    /// after that batch.
    pub(crate) fn next(mut self) -> Result<(Vec<ToPurge>, Option<HistoryBatchRange>)> {
        let (batch, end, next) = read_batch(&self.file, MAGIC, self.at, self.end)?;
        let payload = &batch[BATCH_HEAD..end];
        let damaged = || {
            Error::corrupt(&self.file.path, format!("the history batch at offset {} is malformed", self.at))
        };
        let count = Directory::of(payload).map_err(|_| damaged())?.count;
        let out = history_directory::to_purge(payload).map_err(|_| damaged())?;
        self.txns = self.txns.saturating_sub(count as u64);
        self.at = next;
        let more = self.at < self.end;
        Ok((out, more.then_some(self)))
    }
}

/// Appends a history batch, which will be at offset `at` of `file`, to `out`. Returns what memory
/// keeps of it.
pub(super) fn encode(
    members: &mut [BatchMember],
    file: &Arc<UndoFile>,
    at: u64,
    out: &mut Vec<u8>,
) -> HistoryBatch {
    members.sort_unstable_by_key(|member| member.txn);
    let (start, directory) = (out.len() + BATCH_HEAD, directory_bytes(members.len()));
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
        let end = (out.len() - start - directory) as u32;
        put_entry(&mut head, member.txn, member.purge, end, crc::crc32c(&out[from..]));
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
