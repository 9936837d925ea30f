//! One transaction's undo records: appended by its thread, read by anyone at the offsets that pages show.
//!
//! Offsets count record bytes and nothing else, so they do not depend on how the memory is cut into chunks. A short
//! transaction takes one small chunk; chunks double up to [`CHUNK_BYTES_MAX`].
//!
//! `rollback_to` appends too: a `Rewind` record, after which the chain of `prev` leaves out what was rolled back. It is
//! logged like every other record, so a replayed stream agrees.

use super::record::{Entry, Record};
use crate::page::Damage;
use crate::page::op::RowOp;
use base::TxnId;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Enough for the few changes of a short transaction.
const CHUNK_BYTES_MIN: usize = 512;
const CHUNK_BYTES_MAX: usize = 64 << 10;

/// Offsets must fit the five bytes that a row has for them.
const STREAM_BYTES_MAX: u64 = 1 << 40;

/// A point in a stream that a transaction can be rolled back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Records from this offset on are newer.
    pub(crate) end: u64,
    /// The newest record before it that is not rolled back.
    pub(crate) last: Option<u64>,
}

/// A record that purge must look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Purge {
    /// Where it stands.
    pub(crate) at: u64,
    /// It was rolled back, and with that a delete mark came back that may be nobody else's to remove.
    pub(crate) rewound: bool,
}

/// The undo records of one transaction.
#[derive(Debug)]
pub(crate) struct Stream {
    owner: TxnId,
    /// Memory of all streams, in bytes.
    memory: Arc<AtomicU64>,
    mu: Mutex<Records>,
}

#[derive(Debug, Default)]
struct Records {
    chunks: Vec<Chunk>,
    end: u64,
    last: Option<u64>,
    /// What purge must look at if the transaction commits, oldest first.
    purge: Vec<Purge>,
    /// Offsets of the records that cover delete marks, rewound ones included.
    marks: Vec<u64>,
    /// Each rewind: where its record stands, and where what it took back begins.
    rewinds: Vec<(u64, u64)>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Chunk {
    /// Offset of its first byte.
    base: u64,
    bytes: Vec<u8>,
}

impl Stream {
    pub(super) fn new(owner: TxnId, memory: Arc<AtomicU64>) -> Stream {
        Stream { owner, memory, mu: Mutex::default() }
    }

    /// Forgets everything but the memory of a short transaction, which counts for nobody until it is used again.
    pub(super) fn clear(&mut self) {
        let mut records = self.mu.lock();
        self.memory.fetch_sub(records.bytes(), Ordering::Relaxed);
        records.clear();
        drop(records);
        self.owner = TxnId::NONE;
    }

    /// Makes it another transaction's. REQUIRES: it is cleared.
    pub(super) fn begin(&mut self, owner: TxnId) {
        self.owner = owner;
        self.memory.fetch_add(self.mu.lock().bytes(), Ordering::Relaxed);
    }

    /// Whose records these are.
    pub(crate) fn owner(&self) -> TxnId {
        self.owner
    }

    /// Where the next record will stand.
    pub(crate) fn end(&self) -> u64 {
        self.mu.lock().end
    }

    /// The present point, for a later rollback to it.
    pub(crate) fn mark(&self) -> Mark {
        let mu = self.mu.lock();
        Mark { end: mu.end, last: mu.last }
    }

    /// Whether `mark` is a point that a rollback can still go back to: nothing before it has been rewound since.
    pub(crate) fn reaches(&self, mark: Mark) -> bool {
        let mu = self.mu.lock();
        mark.end <= mu.end && mu.rewinds.iter().all(|&(at, end)| mark.end >= at || mark.end <= end)
    }

    /// Whether nothing has been appended.
    pub(crate) fn is_empty(&self) -> bool {
        self.end() == 0
    }

    /// Appends the record of a row change, whose version already names [`Stream::end`]. From here on the mini-transaction
    /// that makes the change must not fail.
    pub(crate) fn append_row(&self, op: &RowOp<'_>) {
        base::check!(
            op.version.txn == self.owner,
            "{} writes into the undo of {}",
            op.version.txn,
            self.owner
        );
        let at = self.append(Entry::of(op));
        base::check!(
            at == op.version.undo_at,
            "a version names undo at {}, it is at {at}",
            op.version.undo_at
        );
    }

    /// Appends a record; returns its offset. REQUIRES: the entry is logged under that offset before the next one.
    pub(crate) fn append(&self, entry: Entry<'_>) -> u64 {
        self.mu.lock().append(self.owner, entry, &self.memory)
    }

    /// Appends what redo says stood at `at`. What is there already, from hardened undo, is left as it is.
    pub(crate) fn replay(&self, at: u64, entry: Entry<'_>) -> Result<(), Damage> {
        let mut mu = self.mu.lock();
        if at > mu.end {
            return Err(Damage("the redo leaves out an undo record"));
        }
        if at == mu.end {
            mu.append(self.owner, entry, &self.memory);
        }
        Ok(())
    }

    /// Fills an empty stream with hardened bytes from offset 0.
    pub(crate) fn restore(&self, bytes: &[u8]) -> Result<(), Damage> {
        let mut mu = self.mu.lock();
        base::check!(mu.end == 0, "hardened undo comes first");
        let mut at = 0;
        while at < bytes.len() {
            let (record, len) = Record::decode(at as u64, &bytes[at..])?;
            if record.owner != self.owner {
                return Err(Damage("hardened undo of another transaction"));
            }
            mu.append(self.owner, record.entry, &self.memory);
            at += len;
        }
        if mu.end == at as u64 { Ok(()) } else { Err(Damage("hardened undo does not encode to itself")) }
    }

    /// Appends the bytes from offset `from` on to `out`, at most about `max` but whole records' chunks; returns where
    /// they end. For hardening: what is appended never changes.
    pub(crate) fn copy(&self, from: u64, max: usize, out: &mut Vec<u8>) -> u64 {
        let mu = self.mu.lock();
        let mut at = from;
        let start = out.len();
        for chunk in &mu.chunks[mu.chunk_of(from)..] {
            if out.len() - start >= max {
                break;
            }
            out.extend_from_slice(&chunk.bytes[(at - chunk.base) as usize..]);
            at = chunk.base + chunk.bytes.len() as u64;
        }
        at
    }

    /// Shows the record at `at` to `look`, which must neither wait nor come back here.
    pub(crate) fn read<R>(&self, at: u64, look: impl FnOnce(&Record<'_>) -> R) -> Result<R, Damage> {
        let mu = self.mu.lock();
        if at >= mu.end {
            return Err(Damage("an undo address lies behind the end of its stream"));
        }
        let chunk = &mu.chunks[mu.chunk_of(at)];
        let (record, _) = Record::decode(at, &chunk.bytes[(at - chunk.base) as usize..])?;
        if record.owner != self.owner {
            return Err(Damage("an undo record names another owner"));
        }
        Ok(look(&record))
    }

    /// The records that purge must look at when the transaction has committed, oldest first.
    pub(crate) fn purge_list(&self) -> Vec<Purge> {
        self.mu.lock().purge.clone()
    }

    /// Whether purge has anything to look at when the transaction has committed.
    pub(crate) fn needs_purge(&self) -> bool {
        !self.mu.lock().purge.is_empty()
    }

    /// The records that purge must look at when the transaction has been reverted as a whole, oldest first.
    pub(crate) fn mark_list(&self) -> Vec<Purge> {
        self.mu.lock().marks.iter().map(|&at| Purge { at, rewound: true }).collect()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owner != TxnId::NONE {
            self.memory.fetch_sub(self.mu.lock().bytes(), Ordering::Relaxed);
        }
    }
}

impl Records {
    /// What the chunks take.
    fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.bytes.capacity() as u64).sum()
    }

    fn clear(&mut self) {
        let Records { mut chunks, mut scratch, .. } = std::mem::take(self);
        chunks.truncate(1);
        chunks.retain_mut(|chunk| {
            chunk.bytes.clear();
            chunk.bytes.capacity() == CHUNK_BYTES_MIN
        });
        scratch.clear();
        scratch.shrink_to(CHUNK_BYTES_MIN);
        *self = Records { chunks, scratch, ..Records::default() };
    }

    /// Index of the chunk that holds offset `at`; of the last one for the stream's end.
    fn chunk_of(&self, at: u64) -> usize {
        self.chunks.partition_point(|c| c.base <= at).saturating_sub(1)
    }

    fn append(&mut self, owner: TxnId, entry: Entry<'_>, memory: &AtomicU64) -> u64 {
        let at = self.end;
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        Record { owner, prev: self.last, entry }.encode(at, &mut bytes);
        self.room(bytes.len(), memory).extend_from_slice(&bytes);
        self.end += bytes.len() as u64;
        base::check!(self.end < STREAM_BYTES_MAX, "{owner} has a terabyte of undo");
        self.scratch = bytes;
        match entry {
            Entry::Rewind { end, last } => {
                self.last = last;
                self.rewinds.push((at, end));
                self.purge.retain(|p| p.at < end);
                let rewound = self.marks.partition_point(|&at| at < end);
                let back = self.marks[rewound..].iter().map(|&at| Purge { at, rewound: true });
                self.purge.extend(back);
            }
            _ => self.last = Some(at),
        }
        if entry.needs_purge() {
            self.purge.push(Purge { at, rewound: false });
        }
        if entry.covers_mark() {
            self.marks.push(at);
        }
        at
    }

    /// A chunk with room for a whole record, so that a record is one slice.
    fn room(&mut self, len: usize, memory: &AtomicU64) -> &mut Vec<u8> {
        let fits = |c: &Chunk| c.bytes.capacity() - c.bytes.len() >= len;
        if !self.chunks.last().is_some_and(fits) {
            let usual = (CHUNK_BYTES_MIN << self.chunks.len().min(16)).min(CHUNK_BYTES_MAX);
            let bytes = Vec::with_capacity(usual.max(len));
            memory.fetch_add(bytes.capacity() as u64, Ordering::Relaxed);
            self.chunks.push(Chunk { base: self.end, bytes });
        }
        &mut self.chunks.last_mut().expect("just made").bytes
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

    fn insert(s: &Stream, key: &[u8]) -> u64 {
        s.append(Entry::Insert { tree: TREE, key })
    }

    /// The keys that a rollback meets, newest first.
    fn backward(s: &Stream, mark: Mark) -> Vec<String> {
        let (mut keys, mut next) = (Vec::new(), s.mark().last);
        while let Some(at) = next.filter(|&at| at >= mark.end) {
            next = s
                .read(at, |r| {
                    let Entry::Insert { key, .. } = r.entry else { panic!("{r:?}") };
                    keys.push(String::from_utf8_lossy(key).into_owned());
                    r.prev
                })
                .unwrap();
        }
        keys
    }

    #[test]
    fn a_rollback_leaves_out_what_an_earlier_one_undid() {
        let s = stream();
        insert(&s, b"a");
        let mark = s.mark();
        for round in 0..3 {
            insert(&s, b"b");
            insert(&s, b"c");
            assert_eq!(backward(&s, mark), ["c", "b"], "round {round} walks its own records only");
            s.append(Entry::Rewind { end: mark.end, last: mark.last });
            assert_eq!(backward(&s, mark), [""; 0]);
        }
        insert(&s, b"d");
        assert_eq!(backward(&s, Mark { end: 0, last: None }), ["d", "a"]);
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
        assert_eq!(s.copy(0, usize::MAX, &mut whole), s.end());
        for hardened in [0, starts[1], starts[77], s.end()] {
            let again = stream();
            again.restore(&whole[..hardened as usize]).unwrap();
            for (i, &at) in starts.iter().enumerate() {
                again.replay(at, Entry::Insert { tree: TREE, key: &long[..i * 15] }).unwrap();
            }
            let mut bytes = Vec::new();
            again.copy(0, usize::MAX, &mut bytes);
            assert!(bytes == whole, "hardened up to {hardened}");
        }
        assert!(stream().replay(5, Entry::Insert { tree: TREE, key: b"" }).is_err());
        assert!(stream().restore(&whole[1..]).is_err());
    }

    #[test]
    fn a_copy_goes_on_where_the_last_one_stopped() {
        let s = stream();
        for _ in 0..300 {
            insert(&s, b"some key");
        }
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        s.copy(0, usize::MAX, &mut whole);
        let mut at = 0;
        while at < s.end() {
            at = s.copy(at, 100, &mut parts);
        }
        assert!(whole == parts);
        assert_eq!(s.copy(at, 100, &mut parts), at);
    }

    #[test]
    fn memory_is_counted_and_given_back() {
        let memory = Arc::new(AtomicU64::new(0));
        let s = Stream::new(TxnId(1), Arc::clone(&memory));
        assert_eq!(memory.load(Ordering::Relaxed), 0, "a reader's transaction costs nothing");
        s.append(Entry::Insert { tree: TREE, key: b"k" });
        assert_eq!(memory.load(Ordering::Relaxed), 512);
        drop(s);
        assert_eq!(memory.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_address_that_is_none_is_refused() {
        let s = stream();
        let at = insert(&s, b"key");
        assert!(s.read(at, |_| ()).is_ok());
        assert!(s.read(at + 1, |_| ()).is_err());
        assert!(s.read(s.end(), |_| ()).is_err());
    }
}
