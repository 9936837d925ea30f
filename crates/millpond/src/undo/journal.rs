//! The undo files, in the directory `undo`. A checkpoint *hardens* undo: it copies the undo of
//! unfinished transactions to these files and syncs them before the redo that could rebuild it is
//! dropped (Un4). Undo for which there is no memory is *spilled* to them, whatever its
//! transaction's state (Un9).
//!
//! ```text
//!  file  [ header, 4,096 bytes ][ batch ][ batch ] …
//!  header: magic "MPUNDO\0\0" · format u16 · 0 u16 · number u32 · database id u64 · …
//!          · crc32c u32 at 4,092
//!  payload: { transaction u48 · offset in its stream u40 · length u32 · bytes } …
//! ```
//! A file holds either [batches](super::batch) with this payload and the magic "UBAT", which have
//! chunks of single streams, or [history batches](super::history_batch), never both. What a
//! checkpoint lists is synced before; the rest need not be. The checkpoint's list in the log says
//! which files are valid, and how many bytes of each. A file is removed when nothing in memory
//! refers to it and a root that does not name it is durable. Each run begins new files. The files
//! are read and written through the operating system's cache, which has more room for what is read
//! again than the engine takes for itself.

use super::batch::{BATCH_HEAD, BLOCK, fill_batch_head, read_batch};
use super::history_batch::{self, BatchMember, HistoryBatch, HistoryBatchRange};
use super::location::{FileLocation, UndoFile};
use super::stream::ChunkCopy;
use super::streams::Streams;
use crate::ballast::Ballast;
use crate::checkpoint::UndoFiles;
use crate::checkpoint::list::ListedBatches;
use crate::error::{Error, Poison, Result};
use crate::planted::{Bug, planted};
use crate::role;
use base::aligned::AlignedBuf;
use base::codec::fixed::{get_u16, get_u32, get_u64, set_u16, set_u32, set_u64};
use base::codec::{Put, Reader, Truncated};
use base::{TxnId, crc};
use metrics::{FileKind, M, Metrics, SyncReason};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{Create, File, OpenMode, Vfs};

const MAGIC: &[u8; 8] = b"MPUNDO\0\0";
const BATCH_MAGIC: u32 = u32::from_le_bytes(*b"UBAT");
const FORMAT: u16 = 1;
/// Bytes before those of a chunk: transaction, offset and length.
const CHUNK_HEAD: usize = 15;
/// A file that is longer than this is followed by a new one. Bytes.
const FILE_BYTES: u64 = 16 << 20;
/// The least number of files into which the total size of undo files is divided.
const FILES_LEAST: u64 = 8;
/// The least size at which a file is followed by a new one, however small the total may be: a new
/// file costs a sync of the directory. Bytes.
const FILE_BYTES_LEAST: u64 = 32 << 10;

/// An unused file that is written is replaced once it is this long, bytes.
const KEPT_BYTES: u64 = 256 << 10;

/// Memory for batches that is kept from one write to the next, bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// A file that may be in use.
#[derive(Debug)]
struct JournalFile {
    file: Arc<UndoFile>,
    len: u64,
    synced: u64,
    /// A checkpoint's list names it, or has named it and no root without it is durable yet.
    named: bool,
}

impl JournalFile {
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.file) == 1
    }
}

/// What a file holds, see the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileContent {
    Chunks,
    HistoryBatches,
}

/// What a journal is opened with.
#[derive(Debug)]
pub(crate) struct JournalOptions<'a> {
    pub(crate) vfs: &'a Vfs,
    /// The directory of the undo files.
    pub(crate) dir: &'a Path,
    pub(crate) db_id: u64,
    /// The files that the checkpoint's list names, and their lengths.
    pub(crate) listed: &'a [(u32, u64)],
    /// How much undo of each transaction is hardened, bytes.
    pub(crate) hardened: &'a BTreeMap<TxnId, u64>,
    /// The most undo that is read into memory, bytes. Beyond it a stream only learns where its undo
    /// is.
    pub(crate) memory: u64,
    pub(crate) metrics: &'a Arc<Metrics>,
    pub(crate) poison: &'a Arc<Poison>,
}

/// The undo files of an open database.
#[derive(Debug)]
pub(crate) struct Journal {
    vfs: Vfs,
    dir: PathBuf,
    db_id: u64,
    metrics: Arc<Metrics>,
    poison: Arc<Poison>,
    /// By number.
    files: BTreeMap<u32, JournalFile>,
    /// A file that is longer than this is followed by a new one. Bytes.
    file_bytes: u64,
    /// The files that are written, one for each [`FileContent`].
    current: [Option<u32>; 2],
    next: u32,
    /// Files that no list names any more once the next root is durable.
    retired: Vec<u32>,
    /// Memory for the next batches.
    buffer: Vec<u8>,
    ballast: BallastUse,
}

/// The ballast, as far as the journal uses it.
#[derive(Debug, Default)]
struct BallastUse {
    ballast: Option<Arc<Ballast>>,
    /// A checkpoint is writing, which may spend it.
    spends: bool,
}

impl BallastUse {
    /// Gives the space of the ballast back to the disk. Returns whether it did.
    fn spend(&self) -> bool {
        self.spends && self.ballast.as_ref().is_some_and(|ballast| ballast.spend())
    }

    fn is_spent(&self) -> bool {
        self.ballast.as_ref().is_some_and(|ballast| !ballast.is_held())
    }
}

fn file_name(number: u32) -> String {
    format!("{number:08}")
}

/// Returns the number after `number`, which a file in `dir` has.
fn next_number(dir: &Path, number: u32) -> Result<u32> {
    let last = || Error::corrupt(&dir.join(file_name(number)), "no number is left for another file");
    number.checked_add(1).ok_or_else(last)
}

impl Journal {
    /// Opens the journal and reads hardened undo into `streams`. The files of the directory that no
    /// list names are removed with the next checkpoint.
    pub(crate) fn open(options: &JournalOptions<'_>, streams: &Streams) -> Result<Journal> {
        let &JournalOptions { vfs, dir, db_id, listed, hardened: wanted, memory, metrics, poison } = options;
        let names = vfs.disk.list(dir).map_err(|e| Error::io("list", dir, e))?;
        let number = |name: &String| name.parse().ok().filter(|number| file_name(*number) == *name);
        let present: BTreeSet<u32> = names.iter().filter_map(number).collect();
        let greatest = present.iter().chain(listed.iter().map(|(number, _)| number)).max();
        let mut journal = Journal {
            vfs: vfs.clone(),
            dir: dir.to_owned(),
            db_id,
            metrics: Arc::clone(metrics),
            poison: Arc::clone(poison),
            files: BTreeMap::new(),
            file_bytes: FILE_BYTES,
            current: [None; 2],
            next: next_number(dir, greatest.copied().unwrap_or(0))?,
            retired: present.iter().copied().filter(|n| !listed.iter().any(|(l, _)| l == n)).collect(),
            buffer: Vec::new(),
            ballast: BallastUse::default(),
        };
        for &(number, len) in listed {
            let file = journal.open_file(number, len)?;
            restore(&file, len, wanted, streams, memory)?;
            journal.files.insert(number, JournalFile { file, len, synced: len, named: true });
        }
        for (&txn, &hardened) in wanted.iter().filter(|(_, hardened)| **hardened > 0) {
            let has = streams.get(txn).map_or(0, |stream| stream.end());
            if has < hardened {
                let what = format!("{txn:?} has {has} bytes here, the checkpoint says {hardened}");
                return Err(Error::corrupt(dir, what));
            }
        }
        Ok(journal)
    }

    /// Sets how many bytes all files may have. A file cannot be removed while any part of it is in
    /// use, so one file must be a small part of the total.
    pub(crate) fn set_total_bytes(&mut self, most: u64) {
        self.file_bytes = (most / FILES_LEAST).clamp(FILE_BYTES_LEAST, FILE_BYTES);
    }

    /// Sets the ballast, which has the space that a checkpoint must have on a full disk.
    pub(crate) fn set_ballast(&mut self, ballast: Arc<Ballast>) {
        self.ballast.ballast = Some(ballast);
    }

    /// Says whether the next writes are those of a checkpoint, which may spend the ballast. For all
    /// others a full disk is an error.
    pub(crate) fn may_spend_ballast(&mut self, spends: bool) {
        self.ballast.spends = spends;
    }

    /// Writes at the end of a file.
    fn grow(&self, file: &dyn File, bytes: &[u8], at: u64, path: &Path) -> Result {
        let written = match file.write_at(bytes, at).map_err(|e| Error::io("write", path, e)) {
            Err(Error::DiskFull { .. }) if self.ballast.spend() => {
                file.write_at(bytes, at).map_err(|e| Error::io("write", path, e))
            }
            written => written,
        };
        written.map_err(|error| self.answer_or_poison(error))
    }

    /// Returns an error that may pass, and poisons the database with any other.
    fn answer_or_poison(&self, error: Error) -> Error {
        if error.may_pass() { error } else { self.poison.set(error) }
    }

    /// Opens the history batches that a checkpoint's list names, for their purge.
    pub(crate) fn open_history_batches(
        &mut self,
        listed: &[ListedBatches],
    ) -> Result<Vec<HistoryBatchRange>> {
        let mut ranges = Vec::new();
        for batches in listed {
            let (number, len) = (batches.file, batches.to);
            if batches.from < BLOCK as u64 || batches.from > len || !batches.from.is_multiple_of(BLOCK as u64)
            {
                let what = "the checkpoint names history batches where none can be";
                return Err(Error::corrupt(&self.dir.join(file_name(number)), what));
            }
            self.retired.retain(|retired| *retired != number);
            let known = self.files.get(&number).map(|kept| Arc::clone(&kept.file));
            let file = match known {
                Some(file) => file,
                None => self.open_file(number, len)?,
            };
            ranges.push(HistoryBatchRange::of(Arc::clone(&file), batches));
            let kept = self.files.entry(number).or_insert(JournalFile { file, len, synced: 0, named: true });
            kept.len = kept.len.max(len);
            kept.synced = kept.len;
            self.next = self.next.max(next_number(&self.dir, number)?);
        }
        Ok(ranges)
    }

    fn count_bytes(&self) {
        self.metrics.set(M::UndoFileBytes, self.bytes());
    }

    /// Returns the bytes of all files that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.values().map(|kept| kept.len).sum()
    }

    /// Returns what the files are needed for.
    pub(crate) fn uses(&self) -> UndoFiles {
        let spare = |(number, kept): (&u32, &JournalFile)| self.is_idle(*number, kept);
        UndoFiles {
            used: self.files.values().any(|kept| !kept.is_unused()),
            spare: !self.retired.is_empty() || self.files.iter().any(spare),
            waits: false,
        }
    }

    /// Returns the bytes of the files that are in use. The others wait for the next root, or are
    /// still written; expiring a snapshot would not make them shorter.
    pub(crate) fn bytes_in_use(&self) -> u64 {
        self.files.values().filter(|kept| !kept.is_unused()).map(|kept| kept.len).sum()
    }

    /// Writes the chunks. Returns where each of them is. They can be read at once, and are durable
    /// after a [`Journal::sync`]. If the disk is full nothing changes; any other failure poisons.
    pub(crate) fn append(&mut self, chunks: &[ChunkCopy]) -> Result<Vec<FileLocation>> {
        if chunks.is_empty() {
            return Ok(Vec::new());
        }
        let (file, at) = self.room_for_batch(FileContent::Chunks)?;
        let batch = encode_batch(chunks, file.number, at);
        self.write(&file, &batch, at)?;
        let mut from = at + BATCH_HEAD as u64;
        let location = |chunk: &ChunkCopy| {
            let at = from + CHUNK_HEAD as u64;
            from = at + chunk.bytes.len() as u64;
            FileLocation { file: Arc::clone(&file), at, crc: crc::crc32c(&chunk.bytes) }
        };
        Ok(chunks.iter().map(location).collect())
    }

    /// Writes one history batch for each of `groups`. No group may be empty; the order in a group
    /// does not matter. The batches can be read at once and are not durable. If the disk is full
    /// nothing changes.
    pub(crate) fn append_history_batches<'a>(
        &mut self,
        groups: impl Iterator<Item = &'a mut [BatchMember]>,
    ) -> Result<Vec<HistoryBatch>> {
        let (file, start) = self.room_for_batch(FileContent::HistoryBatches)?;
        let mut bytes = self.take_buffer();
        let mut batches = Vec::new();
        for members in groups {
            batches.push(history_batch::encode(members, &file, start + bytes.len() as u64, &mut bytes));
        }
        let written = self.write(&file, &bytes, start);
        self.keep_buffer(bytes);
        written.map(|()| batches)
    }

    /// Returns the file for batches of this content, and where the next batch goes.
    fn room_for_batch(&mut self, content: FileContent) -> Result<(Arc<UndoFile>, u64)> {
        let current = self.current[content as usize].and_then(|number| self.files.get(&number));
        let number = match current.filter(|kept| kept.len < self.file_bytes) {
            Some(kept) => kept.file.number,
            None => self.begin_file(content)?,
        };
        let kept = &self.files[&number];
        Ok((Arc::clone(&kept.file), kept.len))
    }

    /// Writes the batch for which [`Journal::room_for_batch`] has found the location.
    fn write(&mut self, file: &UndoFile, batch: &[u8], at: u64) -> Result {
        let skipped =
            planted(Bug::ForgottenEarly) && self.current[FileContent::Chunks as usize] == Some(file.number);
        if !skipped && let Err(error) = self.grow(&*file.file, batch, at, &file.path) {
            // No more is written to this file, so that it can be removed once it is unused.
            for current in &mut self.current {
                current.take_if(|number| *number == file.number);
            }
            return Err(error);
        }
        self.files.get_mut(&file.number).expect("it grows").len = at + batch.len() as u64;
        self.count_bytes();
        Ok(())
    }

    /// Returns empty memory for a batch. [`Journal::keep_buffer`] takes it back.
    fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Keeps the memory of [`Journal::take_buffer`] for the next batch.
    fn keep_buffer(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        buffer.shrink_to(BUFFER_BYTES);
        self.buffer = buffer;
    }

    /// Syncs the files of these numbers, which a checkpoint's list is to name. Returns their
    /// lengths.
    pub(crate) fn sync(&mut self, numbers: &BTreeSet<u32>) -> Result<Vec<(u32, u64)>> {
        for number in numbers {
            let is_history = self.current[FileContent::HistoryBatches as usize] == Some(*number);
            let kept = self.files.get_mut(number).expect("a file that a list names is kept");
            kept.named = true;
            if kept.synced == kept.len
                || planted(Bug::NoUndoSync)
                || (is_history && planted(Bug::HistoryNotSynced))
            {
                continue;
            }
            let start = self.vfs.clock.now_us();
            let synced = kept.file.file.sync();
            if let Err(error) = synced.map_err(|e| Error::io("sync", &kept.file.path, e)) {
                return Err(self.answer_or_poison(error));
            }
            self.metrics.fsync(
                FileKind::Undo,
                SyncReason::Harden,
                self.vfs.clock.now_us() - start,
                role::callers(),
            );
            kept.synced = kept.len;
        }
        Ok(numbers.iter().map(|number| (*number, self.files[number].len)).collect())
    }

    /// Removes unused files that no root may name.
    pub(crate) fn sweep(&mut self) -> Result {
        for number in self.idle() {
            if !self.files[&number].named {
                self.files.remove(&number);
                self.count_bytes();
                self.remove(number)?;
            }
        }
        Ok(())
    }

    /// As [`Journal::sweep`], before a checkpoint collects its list. A file that is unused now will
    /// not be in the list, and is removed when the next root is durable.
    pub(crate) fn retire(&mut self) -> Result {
        self.sweep()?;
        let idle = self.idle();
        idle.iter().for_each(|number| drop(self.files.remove(number)));
        self.retired.extend(idle);
        self.count_bytes();
        Ok(())
    }

    /// Returns the unused files that are not written any more.
    fn idle(&mut self) -> Vec<u32> {
        let idle = self.files.iter().filter(|(number, kept)| self.is_idle(**number, kept));
        let idle: Vec<u32> = idle.map(|(number, _)| *number).collect();
        for current in &mut self.current {
            current.take_if(|number| idle.contains(number));
        }
        idle
    }

    /// An unused file that is written is kept for a while, because a new one costs a sync of the
    /// directory. On a full disk its space is needed.
    fn is_idle(&self, number: u32, kept: &JournalFile) -> bool {
        let grows = self.current.contains(&Some(number)) && kept.len < KEPT_BYTES;
        kept.is_unused() && (!grows || self.ballast.is_spent())
    }

    /// Removes the files that the previous root named and this one does not. REQUIRES: this root is
    /// durable.
    pub(crate) fn remove_retired(&mut self) -> Result {
        std::mem::take(&mut self.retired).into_iter().try_for_each(|number| self.remove(number))
    }

    fn remove(&self, number: u32) -> Result {
        let path = self.dir.join(file_name(number));
        match self.vfs.disk.remove(&path) {
            Ok(()) => Ok(()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(Error::io("remove", &path, e)),
        }
    }

    fn begin_file(&mut self, content: FileContent) -> Result<u32> {
        let number = self.next;
        let next = next_number(&self.dir, number)?;
        let path = self.dir.join(file_name(number));
        let mode = OpenMode { create: Create::IfMissing, direct: false, read_only: false };
        let file = self.vfs.disk.open(&path, mode).map_err(|e| Error::io("create", &path, e))?;
        let mut header = AlignedBuf::zeroed(BLOCK);
        header[..8].copy_from_slice(MAGIC);
        set_u16(&mut header, 8, FORMAT);
        set_u32(&mut header, 12, number);
        set_u64(&mut header, 16, self.db_id);
        let crc = crc::crc32c(&header[..BLOCK - 4]);
        set_u32(&mut header, BLOCK - 4, crc);
        if let Err(error) = self.grow(&*file, &header, 0, &path) {
            // Nothing refers to the file yet, and an empty file takes an entry of the directory.
            let _ = self.vfs.disk.remove(&path);
            return Err(error);
        }
        let start = self.vfs.clock.now_us();
        let synced = self.vfs.disk.sync_dir(&self.dir).map_err(|e| Error::io("sync", &self.dir, e));
        synced.map_err(|error| self.answer_or_poison(error))?;
        self.metrics.fsync(
            FileKind::Dir,
            SyncReason::Harden,
            self.vfs.clock.now_us() - start,
            role::callers(),
        );
        self.next = next;
        let file = Arc::new(UndoFile { number, path, file });
        self.files.insert(number, JournalFile { file, len: BLOCK as u64, synced: 0, named: false });
        self.current[content as usize] = Some(number);
        Ok(number)
    }

    /// Opens a file of an earlier run that has `len` valid bytes.
    fn open_file(&self, number: u32, len: u64) -> Result<Arc<UndoFile>> {
        let path = self.dir.join(file_name(number));
        let damaged = |what: &str| Error::corrupt(&path, what);
        let mode = OpenMode { create: Create::Never, direct: false, read_only: true };
        let file = self.vfs.disk.open(&path, mode).map_err(|e| Error::io("open", &path, e))?;
        let has = file.len().map_err(|e| Error::io("measure", &path, e))?;
        if has < len || len < BLOCK as u64 || !len.is_multiple_of(BLOCK as u64) {
            return Err(damaged("it is shorter than the checkpoint says"));
        }
        let mut header = AlignedBuf::zeroed(BLOCK);
        file.read_at(&mut header, 0).map_err(|e| Error::io("read", &path, e))?;
        if &header[..8] != MAGIC || get_u32(&header, BLOCK - 4) != crc::crc32c(&header[..BLOCK - 4]) {
            return Err(damaged("its header is not one of an undo file"));
        }
        if get_u16(&header, 8) != FORMAT {
            return Err(Error::other_format(&path, get_u16(&header, 8).into(), FORMAT.into()));
        }
        if get_u64(&header, 16) != self.db_id || get_u32(&header, 12) != number {
            return Err(Error::Foreign { file: path.clone(), what: "belongs to another database".into() });
        }
        Ok(Arc::new(UndoFile { number, path, file }))
    }
}

/// Adds the undo of `wanted` that a file holds to the streams. They keep at most `memory` bytes of
/// it in memory.
fn restore(
    file: &Arc<UndoFile>,
    len: u64,
    wanted: &BTreeMap<TxnId, u64>,
    streams: &Streams,
    memory: u64,
) -> Result {
    let mut at = BLOCK as u64;
    while at < len {
        let (batch, end, next) = read_batch(file, BATCH_MAGIC, at, len)?;
        let damaged = |what: &str| Error::corrupt(&file.path, format!("the batch at offset {at}: {what}"));
        let mut r = Reader::new(&batch[BATCH_HEAD..end]);
        while !r.is_empty() {
            let mut head = || Ok::<_, Truncated>((TxnId(r.u48()?), r.u40()?, r.u32()?));
            let (txn, from, count) = head().map_err(|_| damaged("it is malformed"))?;
            let start = at + (BATCH_HEAD + r.taken()) as u64;
            let bytes = r.bytes(count as usize).map_err(|_| damaged("it is malformed"))?;
            let Some(&hardened) = wanted.get(&txn) else { continue };
            let stream = streams.get(txn).unwrap_or_else(|| streams.begin(txn));
            // The file may hold the undo of a transaction twice: from an earlier run that had
            // finished it, and from a later run that found it in the redo again. Replay yields the
            // same bytes, but not the same chunks.
            let end = stream.end();
            let to = hardened.min(from + u64::from(count));
            if from > end || to <= end {
                continue;
            }
            let bytes = &bytes[(end - from) as usize..(to - from) as usize];
            let at = start + (end - from);
            let location = FileLocation { file: Arc::clone(file), at, crc: crc::crc32c(bytes) };
            stream.restore(bytes, location).map_err(|damage| damaged(&format!("{txn:?}: {damage}")))?;
            if streams.bytes() > memory {
                stream.forget(u64::MAX);
            }
        }
        at = next;
    }
    Ok(())
}

fn encode_batch(chunks: &[ChunkCopy], number: u32, at: u64) -> AlignedBuf {
    let payload: usize = chunks.iter().map(|chunk| CHUNK_HEAD + chunk.bytes.len()).sum();
    let mut batch = AlignedBuf::zeroed((BATCH_HEAD + payload).next_multiple_of(BLOCK));
    let (mut head, mut to) = (Vec::with_capacity(CHUNK_HEAD), BATCH_HEAD);
    for chunk in chunks {
        head.clear();
        head.put_u48(chunk.txn.0);
        head.put_u40(chunk.from);
        head.put_u32(chunk.bytes.len() as u32);
        for bytes in [&head, &chunk.bytes] {
            batch[to..to + bytes.len()].copy_from_slice(bytes);
            to += bytes.len();
        }
    }
    fill_batch_head(&mut batch, BATCH_MAGIC, payload, number, at);
    batch
}

#[cfg(test)]
mod tests;
