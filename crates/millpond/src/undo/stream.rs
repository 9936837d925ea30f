//! The undo of one transaction: an append-only stream of records.
//!
//! An address is an offset in the encoded bytes of the stream. So it does not depend on how the
//! bytes are cut into chunks, nor on whether a chunk is in memory. A short transaction has one
//! small chunk; later chunks double up to 64 KiB.
//!
//! A *closed* chunk accepts no more records and never changes. Closed chunks are written to the
//! undo files from the first on, for a checkpoint or to free memory. Then their memory may be freed
//! ([`Stream::forget`]). A reader that needs such a record is told to fetch it.
//!
//! A rollback to a savepoint appends too: a `Rewind` record, after which the chain of `prev` leaves
//! out what was rolled back. It is logged like every other record, so a replayed stream is the
//! same.

use super::chunks::{CHUNK_BYTES_MIN, Chunks, STREAM_BYTES_LAST};
use super::fetch::{HeldPiece, PAST_END, UndoAccess};
use super::location::{FileLocation, UndoPiece};
use super::record::{UndoEntry, UndoRecord};
use super::walk::PurgeWalk;
use crate::error::Error;
use crate::page::Damage;
use crate::page::node::Version;
use crate::page::op::RowOp;
use base::TxnId;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, MutexGuard};
use std::sync::Arc;

/// Approximate memory of a transaction with undo, without the bytes of its undo: its stream, its
/// status, its entry in the queue for purge.
pub(super) const STREAM_BYTES: u64 = 400;

/// Freeing a page of a long value, which may have to be read first, costs as much as undoing this
/// many bytes of records.
const PAGE_COST: u64 = 4 << 10;

/// Cache lines of a short transaction's whole chunk.
const FIRST_LINES: usize = CHUNK_BYTES_MIN / 64;

/// Cache lines of a chunk that the first record of a short transaction usually fills.
const PREFETCHED_LINES: usize = 4;

/// A position in a stream to which a transaction can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UndoPosition {
    /// Records from this offset on are newer.
    pub(crate) end: u64,
    /// The newest record before it that is not rolled back.
    pub(crate) last: Option<u64>,
}

/// A copy of a chunk, to be written to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkCopy {
    /// Its transaction.
    pub(crate) txn: TxnId,
    /// Its offset in the stream.
    pub(crate) from: u64,
    /// Whole records.
    pub(crate) bytes: Vec<u8>,
}

/// The undo records of one transaction.
#[derive(Debug)]
pub(crate) struct Stream {
    owner: TxnId,
    /// Memory of all streams, in bytes.
    memory: Arc<AtomicU64>,
    mu: Mutex<Chunks>,
}

/// A locked stream that is about to get the record of a row change.
pub(crate) struct Appender<'s> {
    stream: &'s Stream,
    records: MutexGuard<'s, Chunks>,
}

impl Stream {
    pub(super) fn new(owner: TxnId, memory: Arc<AtomicU64>) -> Stream {
        memory.fetch_add(STREAM_BYTES, Ordering::Relaxed);
        Stream { owner, memory, mu: Mutex::default() }
    }

    /// Removes everything except the memory of a short transaction, which does not count until it
    /// is used again. Returns how much memory it counted for. The caller subtracts that from the
    /// memory of all streams, usually for many streams at once, because all writers update that
    /// counter.
    #[must_use]
    pub(super) fn clear(&mut self) -> u64 {
        let mut records = self.mu.lock();
        let counted = records.bytes() + STREAM_BYTES;
        records.clear();
        drop(records);
        self.owner = TxnId::NONE;
        counted
    }

    /// Makes it the stream of another transaction. REQUIRES: it is cleared.
    pub(super) fn begin(&mut self, owner: TxnId) {
        self.owner = owner;
        let mut records = self.mu.lock();
        // The purging thread used it last.
        base::prefetch::to_write(records.spare.spare_capacity_mut(), PREFETCHED_LINES);
        self.memory.fetch_add(records.bytes() + STREAM_BYTES, Ordering::Relaxed);
    }

    /// Builds a stream of these bytes, for a caller that reads them once.
    pub(crate) fn from_bytes(owner: TxnId, bytes: Vec<u8>) -> Result<Stream, Damage> {
        let stream = Stream::new(owner, Arc::default());
        let mut mu = stream.mu.lock();
        mu.note_records(owner, &bytes, &stream.memory)?;
        mu.push_closed(bytes, None, &stream.memory)?;
        drop(mu);
        Ok(stream)
    }

    /// Returns its transaction.
    pub(crate) fn owner(&self) -> TxnId {
        self.owner
    }

    /// Returns the offset of the next record.
    pub(crate) fn end(&self) -> u64 {
        self.mu.lock().end
    }

    /// Returns the approximate cost of undoing all of it, in bytes of undo.
    pub(crate) fn cost(&self) -> u64 {
        let mu = self.mu.lock();
        mu.end + mu.pages * PAGE_COST
    }

    /// Counts pages of long values, which undoing the transaction must free.
    pub(crate) fn add_pages(&self, pages: u64) {
        self.mu.lock().pages += pages;
    }

    /// Returns the present position, for a later rollback to it.
    pub(crate) fn position(&self) -> UndoPosition {
        let mu = self.mu.lock();
        UndoPosition { end: mu.end, last: mu.last }
    }

    /// Whether a rollback can still go back to this position: nothing before it has been rewound
    /// since.
    pub(crate) fn reaches(&self, to: UndoPosition) -> bool {
        let mu = self.mu.lock();
        to.end <= mu.end && mu.rewinds.reach(to.end)
    }

    /// Whether the stream can store one more rollback, to this position.
    pub(crate) fn can_rewind(&self, to: UndoPosition) -> bool {
        self.mu.lock().rewinds.has_room(to.end)
    }

    /// Whether nothing has been appended.
    pub(crate) fn is_empty(&self) -> bool {
        self.end() == 0
    }

    /// Locks the stream for the change of a row: no other thread reads or appends until the record
    /// is appended. The caller takes no other mutex meanwhile.
    pub(crate) fn begin_row(&self) -> Appender<'_> {
        Appender { stream: self, records: self.mu.lock() }
    }

    /// Appends the record of a row change, whose version already names [`Stream::end`]; see
    /// [`Appender::append`].
    pub(crate) fn append_row(&self, op: &RowOp<'_>) {
        self.begin_row().append(op);
    }

    /// Appends a record and returns its offset. REQUIRES: the entry is logged under that offset
    /// before the next one.
    pub(crate) fn append(&self, entry: UndoEntry<'_>) -> u64 {
        self.mu.lock().append(self.owner, entry, &self.memory)
    }

    /// Appends the record that redo says was at `at`. Does nothing if hardened undo has it already.
    pub(crate) fn replay(&self, at: u64, entry: UndoEntry<'_>) -> Result<(), Damage> {
        let mut mu = self.mu.lock();
        if at > mu.end {
            return Err(Damage("the redo leaves out an undo record"));
        }
        if at == mu.end {
            mu.append(self.owner, entry, &self.memory);
        }
        Ok(())
    }

    /// Appends hardened bytes, which are at `location`, as a chunk of their own.
    pub(crate) fn restore(&self, bytes: &[u8], location: FileLocation) -> Result<(), Damage> {
        let mut mu = self.mu.lock();
        base::check!(mu.placed == mu.chunks.len(), "hardened undo comes first");
        mu.note_records(self.owner, bytes, &self.memory)?;
        mu.push_closed(bytes.to_vec(), Some(location), &self.memory)?;
        mu.placed += 1;
        Ok(())
    }

    /// Returns copies of the chunks that are in no file yet, from the first on, until they are
    /// `max` bytes or more. With `tail` the last chunk is closed and included. Without it, a chunk
    /// that may take more records is not.
    pub(crate) fn unplaced(&self, tail: bool, max: usize) -> Vec<ChunkCopy> {
        let mut mu = self.mu.lock();
        if tail && !mu.closed {
            mu.close(&self.memory);
        }
        let closed = mu.chunks.len() - usize::from(!mu.closed && !mu.chunks.is_empty());
        let (mut out, mut bytes) = (Vec::new(), 0);
        for chunk in &mu.chunks[mu.placed.min(closed)..closed] {
            if bytes >= max {
                break;
            }
            bytes += chunk.bytes.len();
            out.push(ChunkCopy { txn: self.owner, from: chunk.base, bytes: chunk.bytes.clone() });
        }
        out
    }

    /// Stores that the chunk at offset `from`, the first that was in no file, is now at `location`.
    pub(crate) fn set_location(&self, from: u64, location: FileLocation) {
        let mut mu = self.mu.lock();
        let next = mu.placed;
        base::check!(mu.chunks[next].base == from, "undo of {} is written to files out of order", self.owner);
        mu.chunks[next].location = Some(location);
        mu.placed += 1;
    }

    /// Frees the memory of chunks that are in files, from the first on, until `max` bytes or more
    /// are free. Returns how many bytes it freed.
    pub(crate) fn forget(&self, max: u64) -> u64 {
        let mut mu = self.mu.lock();
        let mut freed = 0;
        while mu.forgotten < mu.placed && freed < max {
            let next = mu.forgotten;
            freed += std::mem::take(&mut mu.chunks[next].bytes).capacity() as u64;
            mu.forgotten += 1;
        }
        self.memory.fetch_sub(freed, Ordering::Relaxed);
        freed
    }

    /// Returns how many bytes, from the first on, are in files.
    pub(crate) fn in_files(&self) -> u64 {
        let mu = self.mu.lock();
        mu.chunks.get(mu.placed).map_or(mu.end, |chunk| chunk.base)
    }

    /// Returns its length if all of it is in memory.
    pub(crate) fn in_memory(&self) -> Option<u64> {
        let mu = self.mu.lock();
        base::prefetch::to_read(&mu.chunks, usize::MAX);
        (mu.forgotten == 0).then_some(mu.end)
    }

    /// As [`Stream::in_memory`], before its bytes are copied. Also returns whether purge has work
    /// when the transaction has committed.
    pub(crate) fn whole(&self) -> Option<(u64, bool)> {
        let mu = self.mu.lock();
        mu.chunks.iter().take(1).for_each(|first| base::prefetch::to_read(&first.bytes, FIRST_LINES));
        (mu.forgotten == 0).then(|| (mu.end, mu.left.any()))
    }

    /// Prefetches the stream for the thread that will use it soon.
    #[inline]
    pub(crate) fn prefetch(&self) {
        base::prefetch::to_read(std::slice::from_ref(self), usize::MAX);
    }

    /// Returns how many bytes of memory could be freed, with `tail` including the last chunk.
    pub(super) fn idle_bytes(&self, tail: bool) -> u64 {
        let mu = self.mu.lock();
        let chunks = &mu.chunks[mu.forgotten..];
        let open = usize::from(!tail && !mu.closed && !chunks.is_empty());
        chunks[..chunks.len() - open].iter().map(|chunk| chunk.bytes.capacity() as u64).sum()
    }

    /// Appends to `out` the numbers of the files that it has bytes in, each once or a few times.
    pub(crate) fn files(&self, out: &mut Vec<u32>) {
        let mu = self.mu.lock();
        for chunk in &mu.chunks[..mu.placed] {
            let number = chunk.location.as_ref().expect("a chunk in a file has a location").file();
            if out.last() != Some(&number) {
                out.push(number);
            }
        }
    }

    /// Shows `look` all records that were not taken back, with their offsets, oldest first.
    /// REQUIRES: all of it is in memory.
    pub(crate) fn each(&self, mut look: impl FnMut(u64, &UndoRecord<'_>)) -> Result<(), Damage> {
        let mu = self.mu.lock();
        for chunk in &mu.chunks {
            let mut from = 0;
            while from < chunk.bytes.len() {
                let at = chunk.base + from as u64;
                let (record, len) = UndoRecord::decode(at, &chunk.bytes[from..])?;
                if !mu.rewinds.covers(at) {
                    look(at, &record);
                }
                from += len;
            }
        }
        Ok(())
    }

    /// Appends all bytes to `out`. Returns false if they are not all in memory.
    pub(crate) fn copy(&self, out: &mut Vec<u8>) -> bool {
        let mu = self.mu.lock();
        if mu.forgotten > 0 {
            return false;
        }
        mu.chunks.iter().for_each(|chunk| out.extend_from_slice(&chunk.bytes));
        true
    }

    /// Shows `look` the record at `at`, from memory or from the held piece. `look` must neither
    /// wait nor use the stream.
    pub(crate) fn read<R>(
        &self,
        at: u64,
        held: &HeldPiece,
        look: impl FnOnce(&UndoRecord<'_>) -> R,
    ) -> Result<UndoAccess<R>, Damage> {
        self.read_next(at, held, |record, _| look(record))
    }

    /// As [`Stream::read`], and also returns the offset of the next record.
    pub(crate) fn read_on<R>(
        &self,
        at: u64,
        held: &HeldPiece,
        look: impl FnOnce(&UndoRecord<'_>) -> R,
    ) -> Result<UndoAccess<(R, u64)>, Damage> {
        self.read_next(at, held, |record, next| (look(record), next))
    }

    fn read_next<R>(
        &self,
        at: u64,
        held: &HeldPiece,
        look: impl FnOnce(&UndoRecord<'_>, u64) -> R,
    ) -> Result<UndoAccess<R>, Damage> {
        let mu = self.mu.lock();
        if at >= mu.end {
            return Err(PAST_END);
        }
        let index = mu.chunk_of(at);
        let chunk = &mu.chunks[index];
        if index < mu.forgotten {
            let location = chunk.location.clone().expect("a chunk that is not in memory has a location");
            let piece =
                UndoPiece { owner: self.owner, base: chunk.base, len: chunk.len, location, member: None };
            drop(mu);
            return held.record(piece, at, look);
        }
        let (record, len) = UndoRecord::decode(at, &chunk.bytes[(at - chunk.base) as usize..])?;
        if record.owner != self.owner {
            return Err(Damage("an undo record names another owner"));
        }
        Ok(UndoAccess::Here(look(&record, at + len as u64)))
    }

    /// Whether purge has work when the transaction has committed.
    pub(crate) fn needs_purge(&self) -> bool {
        self.mu.lock().left.any()
    }

    /// Whether purge has work when the transaction has been reverted as a whole.
    pub(crate) fn covers_marks(&self) -> bool {
        self.mu.lock().left.any_marks()
    }

    /// Returns a walk over the records with work for purge, if the transaction has committed, or
    /// else has been reverted.
    pub(crate) fn walk(&self, committed: bool) -> PurgeWalk {
        let mu = self.mu.lock();
        PurgeWalk::new(&mu.left, &mu.rewinds, mu.end, committed)
    }

    /// Continues a walk up to the next record with work for purge, and shows it to `look`. Returns
    /// `None` if none is left. After [`UndoAccess::Away`] the walk has not moved.
    pub(crate) fn walk_on<R>(
        &self,
        walk: &mut PurgeWalk,
        held: &HeldPiece,
        look: impl FnOnce(&UndoRecord<'_>, super::walk::PurgeItem) -> R,
    ) -> Result<UndoAccess<Option<R>>, Damage> {
        let mut look = Some(look);
        while walk.at < walk.end {
            let step = self.read_next(walk.at, held, |record, next| {
                let judged = walk.judge(record);
                (judged.and_then(|purge| look.take().map(|look| look(record, purge))), next)
            })?;
            match step {
                UndoAccess::Away(piece) => return Ok(UndoAccess::Away(piece)),
                UndoAccess::Here((found, next)) => {
                    walk.at = next;
                    if found.is_some() {
                        return Ok(UndoAccess::Here(found));
                    }
                }
            }
        }
        Ok(UndoAccess::Here(None))
    }
}

impl Appender<'_> {
    /// Returns an error if the transaction has as much undo as a row's version can address.
    #[inline]
    pub(crate) fn check_room(&self) -> Result<(), Error> {
        if self.records.end < STREAM_BYTES_LAST {
            return Ok(());
        }
        let what = format!("{} has a terabyte of undo, the most that one can have", self.stream.owner);
        Err(Error::Limit { what })
    }

    /// Returns the version that the change makes: this transaction, and the offset of the record.
    pub(crate) fn version(&self) -> Version {
        Version { txn: self.stream.owner, undo_at: self.records.end }
    }

    /// Appends the record of a row change, whose version is [`Appender::version`]. From here on the
    /// mini-transaction that makes the change must not fail.
    pub(crate) fn append(mut self, op: &RowOp<'_>) {
        let version = self.version();
        base::check!(op.version == version, "{:?} names undo that will be at {version:?}", op.version);
        self.records.append(version.txn, UndoEntry::of(op), &self.stream.memory);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owner != TxnId::NONE {
            self.memory.fetch_sub(self.mu.lock().bytes() + STREAM_BYTES, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::TreeId;

    const TREE: TreeId = TreeId(3);

    fn stream() -> Stream {
        Stream::new(TxnId(9), Arc::default())
    }

    #[test]
    fn a_terabyte_of_undo_is_an_error_before_anything_is_changed() {
        let s = stream();
        s.mu.lock().end = STREAM_BYTES_LAST - 1;
        s.begin_row().check_room().unwrap();
        s.mu.lock().end = STREAM_BYTES_LAST;
        let error = s.begin_row().check_room().unwrap_err();
        assert!(matches!(&error, Error::Limit { what } if what.contains("a terabyte of undo")), "{error}");
    }

    fn insert(s: &Stream, key: &[u8]) -> u64 {
        s.append(UndoEntry::Insert { tree: TREE, key })
    }

    /// The keys that a rollback undoes, newest first.
    fn backward(s: &Stream, to: UndoPosition) -> Vec<String> {
        let (mut keys, mut next) = (Vec::new(), s.position().last);
        while let Some(at) = next.filter(|&at| at >= to.end) {
            let read = s.read(at, HeldPiece::NONE, |r| {
                let UndoEntry::Insert { key, .. } = r.entry else { panic!("{r:?}") };
                keys.push(String::from_utf8_lossy(key).into_owned());
                r.prev
            });
            let Ok(UndoAccess::Here(prev)) = read else { panic!("{read:?}") };
            next = prev;
        }
        keys
    }

    #[test]
    fn a_rollback_skips_what_an_earlier_one_undid() {
        let s = stream();
        insert(&s, b"a");
        let position = s.position();
        for round in 0..3 {
            insert(&s, b"b");
            insert(&s, b"c");
            assert_eq!(backward(&s, position), ["c", "b"], "round {round} walks its own records only");
            s.append(UndoEntry::Rewind { end: position.end, last: position.last });
            assert_eq!(backward(&s, position), [""; 0]);
        }
        insert(&s, b"d");
        assert_eq!(backward(&s, UndoPosition { end: 0, last: None }), ["d", "a"]);
    }

    #[test]
    fn a_replayed_stream_has_the_same_bytes_wherever_hardening_stopped() {
        let s = stream();
        let long = vec![b'x'; 3000];
        let mut starts = Vec::new();
        for i in 0..200usize {
            starts.push(insert(&s, &long[..i * 15]));
        }
        let mut whole = Vec::new();
        assert!(s.copy(&mut whole));
        assert_eq!(whole.len() as u64, s.end());
        for hardened in [0, starts[1], starts[77], s.end()] {
            let again = stream();
            again.restore(&whole[..hardened as usize], FileLocation::nowhere()).unwrap();
            for (i, &at) in starts.iter().enumerate() {
                again.replay(at, UndoEntry::Insert { tree: TREE, key: &long[..i * 15] }).unwrap();
            }
            let mut bytes = Vec::new();
            again.copy(&mut bytes);
            assert!(bytes == whole, "hardened up to {hardened}");
        }
        assert!(stream().replay(5, UndoEntry::Insert { tree: TREE, key: b"" }).is_err());
        assert!(stream().restore(&whole[1..], FileLocation::nowhere()).is_err());
    }

    #[test]
    fn a_chunk_that_was_closed_for_a_file_takes_no_more_records() {
        let s = stream();
        insert(&s, b"a");
        assert!(s.unplaced(false, usize::MAX).is_empty() && s.idle_bytes(false) == 0);
        let chunks = s.unplaced(true, usize::MAX);
        assert_eq!((chunks.len(), chunks[0].bytes.len() as u64), (1, s.end()));
        s.set_location(0, FileLocation::nowhere());
        let at = insert(&s, b"b");
        assert_eq!((s.in_files(), s.idle_bytes(true) > s.idle_bytes(false)), (at, true));
        s.forget(u64::MAX);
        assert!(matches!(s.read(0, HeldPiece::NONE, |_| ()), Ok(UndoAccess::Away(_))));
        assert!(matches!(s.read(at, HeldPiece::NONE, |_| ()), Ok(UndoAccess::Here(()))));
    }

    #[test]
    fn memory_is_counted_and_freed() {
        let memory = Arc::new(AtomicU64::new(0));
        let s = Stream::new(TxnId(1), Arc::clone(&memory));
        assert_eq!(memory.load(Ordering::Relaxed), STREAM_BYTES);
        s.append(UndoEntry::Insert { tree: TREE, key: b"k" });
        assert_eq!(memory.load(Ordering::Relaxed), STREAM_BYTES + 512);
        drop(s);
        assert_eq!(memory.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_invalid_address_is_refused() {
        let s = stream();
        let at = insert(&s, b"key");
        assert!(s.read(at, HeldPiece::NONE, |_| ()).is_ok());
        assert!(s.read(at + 1, HeldPiece::NONE, |_| ()).is_err());
        assert!(s.read(s.end(), HeldPiece::NONE, |_| ()).is_err());
    }
}
