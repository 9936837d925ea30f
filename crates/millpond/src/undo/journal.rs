//! Hardened undo: the files below `undo/`, to which a checkpoint copies the undo of unfinished transactions before it lets
//! go of the redo that could rebuild it (Un4).
//!
//! ```text
//!  file  [ header, 4,096 bytes ][ batch ][ batch ] …          header: magic "MPUNDO\0\0" · format u16 · 0 u16 · number u32
//!  batch, at a multiple of 4,096, zero-padded to one:                 · database id u64 · … · crc32c u32 at 4,092
//!   0  magic "UBAT"   4  payload bytes u32   8  crc32c u32 of payload, file number u32 and offset u64   12  0 u32
//!  16  payload: { transaction u48 · offset in its stream u40 · length u32 · bytes } …
//! ```
//! One batch is written and synced for a checkpoint. Which files count, and how long they are, stands in the checkpoint's
//! list in the log; a file goes when no transaction that has bytes in it is unfinished and a root that does not name it is
//! durable. Each run begins a new file.

use crate::error::{Error, Poison, Result};
use crate::planted::{Bug, planted};
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
const BLOCK: usize = 4096;
const BATCH_HEAD: usize = 16;
/// A file that has grown beyond it is followed by a new one, bytes.
const FILE_BYTES: u64 = 16 << 20;

/// Some bytes of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Whose.
    pub(crate) txn: TxnId,
    /// Where they stand in the stream.
    pub(crate) from: u64,
    /// Whole records.
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct Listed {
    len: u64,
    /// Who has bytes in it.
    txns: BTreeSet<TxnId>,
}

/// The hardened undo of an open database.
#[derive(Debug)]
pub(crate) struct Journal {
    vfs: Vfs,
    dir: PathBuf,
    db_id: u64,
    metrics: Arc<Metrics>,
    poison: Arc<Poison>,
    files: BTreeMap<u32, Listed>,
    current: Option<(u32, Arc<dyn File>)>,
    next: u32,
    /// How far each unfinished transaction's stream is hardened.
    hardened: BTreeMap<TxnId, u64>,
    /// Files that no list names any more once the next root is durable.
    retired: Vec<u32>,
}

fn file_name(number: u32) -> String {
    format!("{number:08}")
}

impl Journal {
    /// Opens the journal in `dir`: reads the bytes of `wanted` (hardened lengths by transaction) from the `listed` files
    /// (number, length). What else stands there is left over and goes with the next checkpoint.
    pub(crate) fn open(
        vfs: &Vfs,
        dir: &Path,
        db_id: u64,
        listed: &[(u32, u64)],
        wanted: &BTreeMap<TxnId, u64>,
        metrics: &Arc<Metrics>,
        poison: &Arc<Poison>,
    ) -> Result<(Journal, BTreeMap<TxnId, Vec<u8>>)> {
        let names = vfs.disk.list(dir).map_err(|e| Error::io("list", dir, e))?;
        let present: BTreeSet<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        let mut journal = Journal {
            vfs: vfs.clone(),
            dir: dir.to_owned(),
            db_id,
            metrics: Arc::clone(metrics),
            poison: Arc::clone(poison),
            files: BTreeMap::new(),
            current: None,
            next: present.iter().chain(listed.iter().map(|(n, _)| n)).max().map_or(1, |n| n + 1),
            hardened: wanted.clone(),
            retired: present.iter().copied().filter(|n| !listed.iter().any(|(l, _)| l == n)).collect(),
        };
        let mut chunks: BTreeMap<TxnId, BTreeMap<u64, Vec<u8>>> = BTreeMap::new();
        for &(number, len) in listed {
            let mut entry = Listed { len, txns: BTreeSet::new() };
            for chunk in journal.read_file(number, len)? {
                if wanted.contains_key(&chunk.txn) {
                    entry.txns.insert(chunk.txn);
                    chunks.entry(chunk.txn).or_default().insert(chunk.from, chunk.bytes);
                }
            }
            journal.files.insert(number, entry);
        }
        let mut streams = BTreeMap::new();
        for (&txn, &hardened) in wanted.iter().filter(|(_, hardened)| **hardened > 0) {
            let mut bytes = Vec::new();
            for (from, chunk) in chunks.remove(&txn).unwrap_or_default() {
                if from == bytes.len() as u64 {
                    bytes.extend_from_slice(&chunk);
                }
            }
            if (bytes.len() as u64) < hardened {
                let has = bytes.len();
                let what = format!("{txn:?} has {has} bytes here, the checkpoint promises {hardened}");
                return Err(Error::corrupt(dir, what));
            }
            bytes.truncate(hardened as usize);
            streams.insert(txn, bytes);
        }
        Ok((journal, streams))
    }

    /// How far the transaction's stream is hardened.
    pub(crate) fn hardened(&self, txn: TxnId) -> u64 {
        self.hardened.get(&txn).copied().unwrap_or(0)
    }

    /// The files that count and their lengths.
    pub(crate) fn files(&self) -> Vec<(u32, u64)> {
        self.files.iter().map(|(&number, file)| (number, file.len)).collect()
    }

    /// Forgets the transactions that are not `unfinished`, and files in which no other has anything.
    pub(crate) fn retain(&mut self, unfinished: &BTreeSet<TxnId>) {
        self.hardened.retain(|txn, _| unfinished.contains(txn));
        let current = self.current.as_ref().map(|(number, _)| *number);
        for file in self.files.values_mut() {
            file.txns.retain(|txn| unfinished.contains(txn));
        }
        let retired = &mut self.retired;
        self.files.retain(|&number, file| {
            let keep = !file.txns.is_empty() || Some(number) == current;
            if !keep {
                retired.push(number);
            }
            keep
        });
    }

    /// Makes the chunks durable. A full disk leaves everything as it was; any other failure poisons.
    pub(crate) fn append(&mut self, chunks: &[Chunk]) -> Result {
        if chunks.is_empty() {
            return Ok(());
        }
        let full = self.current.as_ref().is_some_and(|(number, _)| self.files[number].len >= FILE_BYTES);
        if self.current.is_none() || full {
            self.begin_file()?;
        }
        let (number, file) = self.current.clone().expect("just begun");
        let at = self.files[&number].len;
        let batch = encode_batch(chunks, number, at);
        let path = self.dir.join(file_name(number));
        if let Err(error) = file.write_at(&batch, at) {
            return Err(self.failed("write", &path, error));
        }
        self.sync(&*file, &path)?;
        let entry = self.files.get_mut(&number).expect("the current file is listed");
        entry.len += batch.len() as u64;
        for chunk in chunks {
            entry.txns.insert(chunk.txn);
            self.hardened.insert(chunk.txn, chunk.from + chunk.bytes.len() as u64);
            self.metrics.add(M::UndoHardenedBytes, chunk.bytes.len() as u64);
        }
        Ok(())
    }

    /// Removes the files that the root named before and names no more. REQUIRES: the root that does not is durable.
    pub(crate) fn remove_retired(&mut self) -> Result {
        for number in std::mem::take(&mut self.retired) {
            let path = self.dir.join(file_name(number));
            match self.vfs.disk.remove(&path) {
                Ok(()) => {}
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io("remove", &path, e)),
            }
        }
        Ok(())
    }

    fn begin_file(&mut self) -> Result {
        let number = self.next;
        let path = self.dir.join(file_name(number));
        let mode = OpenMode { create: Create::IfMissing, direct: true, read_only: false };
        let file = self.vfs.disk.open(&path, mode).map_err(|e| Error::io("create", &path, e))?;
        let mut header = AlignedBuf::zeroed(BLOCK);
        header[..8].copy_from_slice(MAGIC);
        set_u16(&mut header, 8, FORMAT);
        set_u32(&mut header, 12, number);
        set_u64(&mut header, 16, self.db_id);
        let crc = crc::crc32c(&header[..BLOCK - 4]);
        set_u32(&mut header, BLOCK - 4, crc);
        if let Err(error) = file.write_at(&header, 0) {
            return Err(self.failed("write", &path, error));
        }
        let start = self.vfs.clock.now_us();
        self.vfs.disk.sync_dir(&self.dir).map_err(|e| self.poison.set(Error::io("sync", &self.dir, e)))?;
        self.metrics.fsync(FileKind::Dir, SyncReason::Harden, self.vfs.clock.now_us() - start, 0);
        self.next += 1;
        self.files.insert(number, Listed { len: BLOCK as u64, txns: BTreeSet::new() });
        self.current = Some((number, file));
        Ok(())
    }

    fn sync(&self, file: &dyn File, path: &Path) -> Result {
        let start = self.vfs.clock.now_us();
        if planted(Bug::NoUndoSync) {
            return Ok(());
        }
        file.sync().map_err(|e| self.poison.set(Error::io("sync", path, e)))?;
        self.metrics.fsync(FileKind::Undo, SyncReason::Harden, self.vfs.clock.now_us() - start, 0);
        Ok(())
    }

    fn failed(&self, op: &'static str, path: &Path, error: std::io::Error) -> Error {
        match Error::io(op, path, error) {
            full @ Error::DiskFull { .. } => full,
            other => self.poison.set(other),
        }
    }

    fn read_file(&self, number: u32, len: u64) -> Result<Vec<Chunk>> {
        let path = self.dir.join(file_name(number));
        let damaged = |what: &str| Error::corrupt(&path, what);
        let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
        let file = self.vfs.disk.open(&path, mode).map_err(|e| Error::io("open", &path, e))?;
        let has = file.len().map_err(|e| Error::io("measure", &path, e))?;
        if has < len || len < BLOCK as u64 || !len.is_multiple_of(BLOCK as u64) {
            return Err(damaged("it is shorter than the checkpoint says"));
        }
        let mut bytes = AlignedBuf::zeroed(len as usize);
        file.read_at(&mut bytes, 0).map_err(|e| Error::io("read", &path, e))?;
        let header = &bytes[..BLOCK];
        if &header[..8] != MAGIC || get_u32(header, BLOCK - 4) != crc::crc32c(&header[..BLOCK - 4]) {
            return Err(damaged("its header is not one of an undo file"));
        }
        if get_u16(header, 8) != FORMAT {
            let what = format!("has format {}, this program knows {FORMAT}", get_u16(header, 8));
            return Err(Error::Foreign { file: path.clone(), what });
        }
        if get_u64(header, 16) != self.db_id || get_u32(header, 12) != number {
            return Err(Error::Foreign { file: path.clone(), what: "belongs to another database".into() });
        }
        let (mut chunks, mut at) = (Vec::new(), BLOCK);
        while at < bytes.len() {
            let batch = &bytes[at..];
            let payload_len = get_u32(batch, 4) as usize;
            if get_u32(batch, 0) != BATCH_MAGIC || payload_len > batch.len() - BATCH_HEAD {
                return Err(damaged(&format!("no batch stands at offset {at}")));
            }
            let payload = &batch[BATCH_HEAD..BATCH_HEAD + payload_len];
            if get_u32(batch, 8) != batch_crc(payload, number, at as u64) {
                return Err(damaged(&format!("the batch at offset {at} fails its checksum")));
            }
            decode_payload(payload, &mut chunks)
                .map_err(|_| damaged(&format!("the batch at offset {at} is malformed")))?;
            at += (BATCH_HEAD + payload_len).next_multiple_of(BLOCK);
        }
        Ok(chunks)
    }
}

fn batch_crc(payload: &[u8], number: u32, at: u64) -> u32 {
    let mut place = Vec::with_capacity(12);
    place.put_u32(number);
    place.put_u64(at);
    crc::crc32c(payload) ^ crc::crc32c(&place)
}

fn encode_batch(chunks: &[Chunk], number: u32, at: u64) -> AlignedBuf {
    let mut payload = Vec::new();
    for chunk in chunks {
        payload.put_u48(chunk.txn.0);
        payload.put_u40(chunk.from);
        payload.put_u32(chunk.bytes.len() as u32);
        payload.extend_from_slice(&chunk.bytes);
    }
    let mut batch = AlignedBuf::zeroed((BATCH_HEAD + payload.len()).next_multiple_of(BLOCK));
    set_u32(&mut batch, 0, BATCH_MAGIC);
    set_u32(&mut batch, 4, payload.len() as u32);
    set_u32(&mut batch, 8, batch_crc(&payload, number, at));
    batch[BATCH_HEAD..BATCH_HEAD + payload.len()].copy_from_slice(&payload);
    batch
}

fn decode_payload(payload: &[u8], out: &mut Vec<Chunk>) -> Result<(), Truncated> {
    let mut r = Reader::new(payload);
    while !r.is_empty() {
        let (txn, from, len) = (TxnId(r.u48()?), r.u40()?, r.u32()?);
        out.push(Chunk { txn, from, bytes: r.bytes(len as usize)?.to_vec() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::mem::MemDisk;

    const DIR: &str = "/undo";

    fn open(
        disk: &MemDisk,
        files: &[(u32, u64)],
        wanted: &[(u64, u64)],
    ) -> Result<(Journal, BTreeMap<TxnId, Vec<u8>>)> {
        let wanted = wanted.iter().map(|&(txn, len)| (TxnId(txn), len)).collect();
        let vfs = disk.vfs(1);
        let _ = vfs.disk.create_dir(Path::new(DIR));
        Journal::open(&vfs, Path::new(DIR), 9, files, &wanted, &Arc::default(), &Arc::default())
    }

    fn chunk(txn: u64, from: u64, len: usize) -> Chunk {
        Chunk { txn: TxnId(txn), from, bytes: (0..len).map(|i| (i as u64 + from + txn) as u8).collect() }
    }

    #[test]
    fn what_was_hardened_comes_back_and_no_more_than_the_list_promises() {
        let disk = MemDisk::default();
        let (mut journal, none) = open(&disk, &[], &[]).unwrap();
        assert!(none.is_empty());
        journal.append(&[chunk(1, 0, 100), chunk(2, 0, 5000)]).unwrap();
        journal.append(&[chunk(1, 100, 30)]).unwrap();
        assert_eq!(journal.hardened(TxnId(1)), 130);
        let files = journal.files();
        let (_, streams) = open(&disk, &files, &[(1, 120), (2, 5000), (3, 0)]).unwrap();
        assert_eq!(streams.len(), 2);
        let both: Vec<u8> = [chunk(1, 0, 100).bytes, chunk(1, 100, 30).bytes].concat();
        assert!(streams[&TxnId(1)] == both[..120] && streams[&TxnId(2)] == chunk(2, 0, 5000).bytes);
        let missing = open(&disk, &files, &[(1, 131)]).unwrap_err();
        assert!(matches!(missing, Error::Corrupt { .. }), "{missing}");
    }

    #[test]
    fn a_file_goes_when_nobody_has_anything_in_it() {
        let disk = MemDisk::default();
        let (mut journal, _) = open(&disk, &[], &[]).unwrap();
        journal.append(&[chunk(1, 0, 10)]).unwrap();
        let files = journal.files();
        // Another run: its own file, beside that of the transaction which is still unfinished.
        let (mut journal, _) = open(&disk, &files, &[(1, 10)]).unwrap();
        journal.append(&[chunk(2, 0, 10)]).unwrap();
        journal.retain(&BTreeSet::from([TxnId(1), TxnId(2)]));
        journal.remove_retired().unwrap();
        assert_eq!(journal.files().len(), 2);
        journal.retain(&BTreeSet::from([TxnId(2)]));
        assert_eq!(journal.files().len(), 1);
        let names = |disk: &MemDisk| disk.vfs(1).disk.list(Path::new(DIR)).unwrap();
        assert_eq!(names(&disk), ["00000001", "00000002"], "the durable root may still name it");
        journal.remove_retired().unwrap();
        assert_eq!(names(&disk), ["00000002"]);
    }

    #[test]
    fn every_flipped_byte_that_matters_is_seen() {
        let disk = MemDisk::default();
        let (mut journal, _) = open(&disk, &[], &[]).unwrap();
        journal.append(&[chunk(1, 0, 200)]).unwrap();
        let files = journal.files();
        let used = (0..BLOCK).chain(BLOCK..BLOCK + 12).chain(BLOCK + BATCH_HEAD..BLOCK + BATCH_HEAD + 215);
        for at in used.step_by(7) {
            let disk = disk.fork();
            disk.flip(Path::new("/undo/00000001"), at as u64, 1).unwrap();
            assert!(open(&disk, &files, &[(1, 200)]).is_err(), "byte {at}");
        }
    }
}
