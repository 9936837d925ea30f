//! Reads undo that is in a file and not in memory.
//!
//! A reader that holds a page latch must not wait for a file (INV-9). Instead it gets a
//! [`UndoPiece`] that says what is missing. It releases the latch, fetches the piece and starts
//! again. It *holds* the fetched piece until it is done, so it makes progress even if the small
//! shared cache has dropped the piece meanwhile.

use super::history_batch;
use super::record::UndoRecord;
use crate::error::{Error, Result};
use crate::page::Damage;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use base::{TxnId, crc};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use vfs::File;

pub(super) const BEHIND: Damage = Damage("an undo address lies behind the end of its stream");

/// The number of pieces that the cache keeps.
const CACHED: usize = 32;

/// An undo file. It is removed when only the journal still refers to it.
#[derive(Debug)]
pub(crate) struct UndoFile {
    pub(super) number: u32,
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
}

/// Where a piece of undo is in the undo files.
#[derive(Clone, Debug)]
pub(crate) struct FilePlace {
    pub(super) file: Arc<UndoFile>,
    /// Offset in the file, bytes.
    pub(super) at: u64,
    /// CRC32C of the bytes.
    pub(super) crc: u32,
}

impl FilePlace {
    /// Returns the number of the file.
    pub(crate) fn file(&self) -> u32 {
        self.file.number
    }

    /// Fills `bytes` from offset `from` behind the place.
    pub(super) fn read(&self, from: u64, bytes: &mut [u8]) -> Result {
        self.file.file.read_at(bytes, self.at + from).map_err(|e| Error::io("read", &self.file.path, e))
    }

    /// A place for tests that never read it.
    #[cfg(test)]
    pub(super) fn nowhere() -> FilePlace {
        let vfs = vfs::mem::MemDisk::default().vfs(1);
        let mode = vfs::OpenMode { create: vfs::Create::IfMissing, direct: false, read_only: false };
        let path = PathBuf::from("/nowhere");
        let file = vfs.disk.open(&path, mode).expect("an empty disk");
        FilePlace { file: Arc::new(UndoFile { number: 1, path, file }), at: 0, crc: 0 }
    }
}

/// A piece of undo that is not in memory.
#[derive(Clone, Debug)]
pub(crate) struct UndoPiece {
    /// Its transaction, or none if it is a whole history batch.
    pub(super) owner: TxnId,
    /// Where it begins in its stream.
    pub(super) base: u64,
    /// Its length in bytes. For a member of a history batch: the length of the batch.
    pub(super) len: u32,
    pub(super) place: FilePlace,
    /// If set, the piece is the whole stream of this member of the history batch at `place`.
    pub(super) member: Option<MemberRank>,
}

/// A member's position in the directory of a history batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemberRank {
    /// The number of members before it.
    pub(super) before: u32,
    /// The number of members of the batch.
    pub(super) of: u32,
}

/// The result of reading a record.
#[derive(Debug)]
pub(crate) enum UndoAccess<R> {
    /// The record was in memory or held. This is what the caller's function made of it.
    Here(R),
    /// The record is in a file. This piece must be fetched first.
    Away(UndoPiece),
}

/// A piece in memory.
#[derive(Debug)]
struct FetchedPiece {
    /// The number of the file. Callers that know the piece keep the file alive.
    file: u32,
    at: u64,
    owner: TxnId,
    bytes: Vec<u8>,
}

impl FetchedPiece {
    fn read(piece: &UndoPiece) -> Result<FetchedPiece> {
        let (bytes, crc) = match piece.member {
            Some(rank) => history_batch::read_member(piece, rank)?,
            None => {
                let mut bytes = vec![0; piece.len as usize];
                piece.place.read(0, &mut bytes)?;
                (bytes, piece.place.crc)
            }
        };
        let FilePlace { file, at, .. } = &piece.place;
        if crc::crc32c(&bytes) != crc {
            let what = format!("the undo of {:?} at offset {at} fails its checksum", piece.owner);
            return Err(Error::corrupt(&file.path, what));
        }
        Ok(FetchedPiece { file: file.number, at: *at, owner: piece.owner, bytes })
    }

    fn is(&self, piece: &UndoPiece) -> bool {
        let FilePlace { file, at, .. } = &piece.place;
        self.file == file.number && self.at == *at && self.owner == piece.owner
    }
}

/// The piece that a reader fetched last.
#[derive(Debug, Default)]
pub(crate) struct HeldPiece(Option<Arc<FetchedPiece>>);

impl HeldPiece {
    /// Holds no piece.
    pub(crate) const NONE: &'static HeldPiece = &HeldPiece(None);

    /// Returns the bytes of `piece` if this is the held piece.
    pub(super) fn bytes(&self, piece: &UndoPiece) -> Option<&[u8]> {
        self.0.as_ref().filter(|fetched| fetched.is(piece)).map(|fetched| &fetched.bytes[..])
    }

    /// Shows `look` the record at `at` of the stream that `piece` is a part of, and the offset of
    /// the next record.
    pub(super) fn record<R>(
        &self,
        piece: UndoPiece,
        at: u64,
        look: impl FnOnce(&UndoRecord<'_>, u64) -> R,
    ) -> Result<UndoAccess<R>, Damage> {
        let Some(bytes) = self.bytes(&piece) else { return Ok(UndoAccess::Away(piece)) };
        let (record, len) = UndoRecord::decode(at, bytes.get((at - piece.base) as usize..).ok_or(BEHIND)?)?;
        if record.owner != piece.owner {
            return Err(Damage("an undo record names another owner"));
        }
        Ok(UndoAccess::Here(look(&record, at + len as u64)))
    }
}

/// A cache of the pieces that were fetched last by any reader. Members of history batches are not
/// cached: they are small, and the operating system caches them too.
#[derive(Debug, Default)]
pub(crate) struct PieceCache {
    mu: Mutex<VecDeque<Arc<FetchedPiece>>>,
    reads: AtomicU64,
}

impl PieceCache {
    /// Makes `held` hold `piece`, from the cache or from the file. REQUIRES: no latch held.
    pub(crate) fn fetch(&self, piece: &UndoPiece, held: &mut HeldPiece) -> Result {
        if held.bytes(piece).is_some() {
            return Ok(());
        }
        let cached = self.mu.lock().iter().find(|fetched| fetched.is(piece)).cloned();
        if let Some(cached) = cached {
            held.0 = Some(cached);
            return Ok(());
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        let fetched = Arc::new(FetchedPiece::read(piece)?);
        held.0 = Some(Arc::clone(&fetched));
        if piece.member.is_some() {
            return Ok(());
        }
        let mut cache = self.mu.lock();
        if cache.len() >= CACHED {
            cache.pop_front();
        }
        cache.push_back(fetched);
        Ok(())
    }

    /// Returns how often a file was read.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}
