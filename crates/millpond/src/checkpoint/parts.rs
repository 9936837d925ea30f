//! A list in the log, in parts: each part is one record, so that no group is long.
//!
//! ```text
//! part: sequence u64 (of the root that will name the list) · part u16 · parts u16 · body
//! ```
//! The bodies of all parts, concatenated, are the list.

use crate::page::Damage;
use base::codec::{Put, Reader, Truncated};

/// Bytes of the list in one part.
const PART_BYTES: usize = 32 << 10;

/// Divides a list into parts.
pub(super) fn divide(body: &[u8], sequence: u64) -> Vec<Vec<u8>> {
    let parts: Vec<&[u8]> = body.chunks(PART_BYTES).collect();
    let count = u16::try_from(parts.len()).expect("a list of 2 GiB");
    let part = |(n, bytes): (usize, &&[u8])| {
        let mut out = Vec::with_capacity(bytes.len() + 12);
        out.put_u64(sequence);
        out.put_u16(n as u16);
        out.put_u16(count);
        out.extend_from_slice(bytes);
        out
    };
    parts.iter().enumerate().map(part).collect()
}

/// Assembles a list from its parts as a reader of the log finds them.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    /// The sequence number of the first part. Other parts belong to another list that was not
    /// completed.
    sequence: Option<u64>,
    parts: u16,
    body: Vec<u8>,
}

impl Collector {
    /// Adds a part. The first one decides to which list the parts belong; parts of others are
    /// ignored. Returns the body of the list after its last part. An error if a part is missing or
    /// malformed.
    pub(crate) fn push(&mut self, part: &[u8]) -> Result<Option<Vec<u8>>, Damage> {
        let mut r = Reader::new(part);
        let mut head = || Ok::<_, Truncated>((r.u64()?, r.u16()?, r.u16()?));
        let (sequence, n, count) = head().map_err(|_| Damage("a part of a list is malformed"))?;
        if sequence != *self.sequence.get_or_insert(sequence) {
            return Ok(None);
        }
        if n != self.parts {
            return Err(Damage("a part of a list is missing"));
        }
        self.parts += 1;
        self.body.extend_from_slice(&part[12..]);
        if self.parts < count {
            return Ok(None);
        }
        Ok(Some(std::mem::take(&mut self.body)))
    }
}
