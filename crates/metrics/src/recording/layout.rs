//! The bytes of a recording: its head, and the heads of chunks and records. All numbers are
//! little-endian.
//!
//! | head, at 0 | bytes |
//! | --- | --- |
//! | `MILLREC1` | 8 |
//! | CRC32C of what follows, to the end of the schema | 4 |
//! | number of chunks | 4 |
//! | id of the database | 8 |
//! | length of the schema | 4 |
//! | schema, text | |
//!
//! | chunk *n*, at `HEAD_BYTES` + (*n* mod chunks) x `CHUNK_BYTES` | bytes |
//! | --- | --- |
//! | CRC32C of the next three fields | 4 |
//! | `CHNK` | 4 |
//! | id of the database | 8 |
//! | *n*, counted from 1 | 8 |
//! | records | |
//!
//! | record | bytes |
//! | --- | --- |
//! | length of what follows the checksum | 4 |
//! | CRC32C of *n*, the record's number in the chunk, the length and what follows | 4 |
//! | [kind](Kind) | 1 |
//! | of a session: seconds since 1970, microseconds of the clock | 8, 8 |
//! | of a sample: microseconds since the one before, then the changed cells | varint, varints |
//!
//! The checksum covers the place of a record, so bytes of an older chunk in the same place are no
//! records of this one: the records end there.

use base::codec::{Put, Reader};
use base::crc::{crc32c, crc32c_append};

/// The length of the head, bytes. The schema fits with room to spare.
pub(super) const HEAD_BYTES: usize = 64 << 10;
/// The length of a chunk, bytes. Any sample fits.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// Its last byte is the version of the format, a digit.
const MAGIC: &[u8; 8] = b"MILLREC1";
const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"CHNK");
/// Bytes before the part of the head that its checksum covers.
const HEAD_COVERED_FROM: usize = 12;
pub(super) const CHUNK_HEAD_BYTES: usize = 24;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// The database was opened. The next sample refers to no earlier one.
    Session = 1,
    /// A chunk begins, the session goes on. The next sample refers to no earlier one.
    Continued = 2,
    /// A sample.
    Sample = 3,
}

impl Kind {
    pub(super) fn of(byte: u8) -> Option<Kind> {
        [Kind::Session, Kind::Continued, Kind::Sample].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// The head of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) chunks: u32,
    pub(super) db_id: u64,
    pub(super) schema: String,
}

impl Head {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut covered = Vec::new();
        covered.put_u32(self.chunks);
        covered.put_u64(self.db_id);
        covered.put_u32(self.schema.len() as u32);
        covered.extend(self.schema.as_bytes());
        let mut bytes = MAGIC.to_vec();
        bytes.put_u32(crc32c(&covered));
        bytes.extend(covered);
        base::check!(bytes.len() <= HEAD_BYTES, "a head of {} bytes", bytes.len());
        bytes
    }

    /// Reads a head; `None` if it is none, or damaged.
    pub(super) fn decode(bytes: &[u8]) -> Option<Head> {
        let mut reader = Reader::new(bytes);
        if reader.bytes(MAGIC.len()).ok()? != MAGIC {
            return None;
        }
        let crc = reader.u32().ok()?;
        let (chunks, db_id) = (reader.u32().ok()?, reader.u64().ok()?);
        let length = reader.u32().ok()? as usize;
        let schema = reader.bytes(length).ok()?;
        let covered = bytes.get(HEAD_COVERED_FROM..reader.taken())?;
        if crc32c(covered) != crc || chunks == 0 {
            return None;
        }
        Some(Head { chunks, db_id, schema: String::from_utf8(schema.to_vec()).ok()? })
    }
}

/// Tells whether the bytes are a recording in the format of another version.
pub(super) fn is_of_another_version(bytes: &[u8]) -> bool {
    let ours = MAGIC.split_last();
    let theirs = bytes.get(..MAGIC.len()).and_then(<[u8]>::split_last);
    ours.zip(theirs).is_some_and(|((our_version, our_name), (version, name))| {
        name == our_name && version != our_version && version.is_ascii_digit()
    })
}

/// Returns the head of chunk `number`.
pub(super) fn chunk_head(db_id: u64, number: u64) -> Vec<u8> {
    let mut covered = Vec::new();
    covered.put_u32(CHUNK_MAGIC);
    covered.put_u64(db_id);
    covered.put_u64(number);
    let mut bytes = Vec::new();
    bytes.put_u32(crc32c(&covered));
    bytes.extend(covered);
    bytes
}

/// Returns the number of a chunk of this database; `None` if the bytes are no chunk of it.
pub(super) fn chunk_number(db_id: u64, bytes: &[u8]) -> Option<u64> {
    let head = bytes.get(..CHUNK_HEAD_BYTES)?;
    let mut reader = Reader::new(head);
    let crc = reader.u32().ok()?;
    let known = crc32c(&head[4..]) == crc && reader.u32() == Ok(CHUNK_MAGIC) && reader.u64() == Ok(db_id);
    reader.u64().ok().filter(|_| known)
}

fn record_crc(chunk: u64, index: u32, content: &[u8]) -> u32 {
    let mut place = Vec::with_capacity(16);
    place.put_u64(chunk);
    place.put_u32(index);
    place.put_u32(content.len() as u32);
    crc32c_append(crc32c(&place), content)
}

/// Appends a record, the `index`-th of a chunk.
pub(super) fn push_record(chunk: u64, index: u32, content: &[u8], bytes: &mut Vec<u8>) {
    bytes.put_u32(content.len() as u32);
    bytes.put_u32(record_crc(chunk, index, content));
    bytes.extend(content);
}

/// The records of a chunk.
#[derive(Clone, Debug)]
pub(super) struct Records<'a> {
    chunk: u64,
    bytes: &'a [u8],
    at: usize,
    index: u32,
}

impl<'a> Records<'a> {
    /// Returns the records of chunk `chunk`, whose bytes are `bytes`.
    pub(super) fn new(chunk: u64, bytes: &'a [u8]) -> Records<'a> {
        Records { chunk, bytes, at: CHUNK_HEAD_BYTES, index: 0 }
    }

    /// Returns where the next record begins, and its number in the chunk.
    pub(super) fn position(&self) -> (usize, u32) {
        (self.at, self.index)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let mut reader = Reader::new(self.bytes.get(self.at..)?);
        let (length, crc) = (reader.u32().ok()?, reader.u32().ok()?);
        let content = reader.bytes(length as usize).ok()?;
        if length == 0 || record_crc(self.chunk, self.index, content) != crc {
            return None;
        }
        self.at += reader.taken();
        self.index += 1;
        Some(content)
    }
}
