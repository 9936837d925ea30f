//! A batch: what is written to an undo file at once, with a magic and a checksum.
//!
//! ```text
//!  batch, at a multiple of 4,096, zero-padded to one:
//!    0  magic u32   4  payload bytes u32
//!    8  crc32c u32 of payload, file number u32 and offset u64   12  0 u32
//!   16  payload
//! ```

use super::location::UndoFile;
use crate::error::{Error, Result};
use base::aligned::AlignedBuf;
use base::codec::Put;
use base::codec::fixed::{get_u32, set_u32};
use base::crc;

/// Batches begin at a multiple of this, bytes.
pub(super) const BLOCK: usize = 4096;
/// Bytes before the payload.
pub(super) const BATCH_HEAD: usize = 16;

/// Reads the batch at `at` of a file with `len` valid bytes, and checks its magic and checksum.
/// Returns the batch, the end of its payload, and the offset of the next batch.
pub(super) fn read_batch(file: &UndoFile, magic: u32, at: u64, len: u64) -> Result<(AlignedBuf, usize, u64)> {
    let damaged = |what: &str| Error::corrupt(&file.path, format!("the batch at offset {at} {what}"));
    let read =
        |bytes: &mut AlignedBuf| file.file.read_at(bytes, at).map_err(|e| Error::io("read", &file.path, e));
    let mut head = AlignedBuf::zeroed(BLOCK);
    read(&mut head)?;
    let payload = get_u32(&head, 4) as usize;
    let whole = (BATCH_HEAD + payload).next_multiple_of(BLOCK);
    if get_u32(&head, 0) != magic || whole as u64 > len - at {
        return Err(damaged("is none"));
    }
    let mut batch = head;
    if whole > BLOCK {
        batch = AlignedBuf::zeroed(whole);
        read(&mut batch)?;
    }
    if get_u32(&batch, 8)
        != crc::crc32c(&batch[BATCH_HEAD..BATCH_HEAD + payload]) ^ location_crc(file.number, at)
    {
        return Err(damaged("fails its checksum"));
    }
    Ok((batch, BATCH_HEAD + payload, at + whole as u64))
}

/// Fills in the head of a batch whose payload is complete. Returns the payload's CRC32C.
pub(super) fn fill_batch_head(batch: &mut [u8], magic: u32, payload: usize, number: u32, at: u64) -> u32 {
    set_u32(batch, 0, magic);
    set_u32(batch, 4, payload as u32);
    let crc = crc::crc32c(&batch[BATCH_HEAD..BATCH_HEAD + payload]);
    set_u32(batch, 8, crc ^ location_crc(number, at));
    crc
}

fn location_crc(number: u32, at: u64) -> u32 {
    let mut location = Vec::with_capacity(12);
    location.put_u32(number);
    location.put_u64(at);
    crc::crc32c(&location)
}
