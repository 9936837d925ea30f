//! Reads undo that is in a file and not in memory.
//!
//! A reader that holds a page latch must not wait for a file (INV-9). Instead it gets a
//! [`UndoPiece`] that says what is missing. It releases the latch, fetches the piece and starts
//! again. It *holds* the fetched piece until it is done, so it makes progress even if the small
//! shared cache has dropped the piece meanwhile.

use super::history_directory::{self, ToPurge};
use super::location::{FileLocation, UndoPiece};
use super::record::UndoRecord;
use crate::error::{Error, Result};
use crate::page::Damage;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use base::{TxnId, crc};
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) const PAST_END: Damage = Damage("an undo address lies after the end of its stream");

/// The number of pieces that the cache keeps.
const CACHED: usize = 32;

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
            Some(rank) => history_directory::read_member(piece, rank)?,
            None => {
                let mut bytes = vec![0; piece.len as usize];
                piece.location.read(0, &mut bytes)?;
                (bytes, piece.location.crc)
            }
        };
        let FileLocation { file, at, .. } = &piece.location;
        if crc::crc32c(&bytes) != crc {
            let what = format!("the undo of {:?} at offset {at} fails its checksum", piece.owner);
            return Err(Error::corrupt(&file.path, what));
        }
        Ok(FetchedPiece { file: file.number, at: *at, owner: piece.owner, bytes })
    }

    fn is(&self, piece: &UndoPiece) -> bool {
        let FileLocation { file, at, .. } = &piece.location;
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

    /// Returns the transactions of the held history batch that purge must read, with their streams.
    pub(crate) fn to_purge(&self, piece: &UndoPiece) -> Result<Vec<ToPurge>, Damage> {
        let payload = self.bytes(piece).ok_or(Damage("a history batch was not fetched"))?;
        history_directory::to_purge(payload)
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
        let (record, len) = UndoRecord::decode(at, bytes.get((at - piece.base) as usize..).ok_or(PAST_END)?)?;
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
