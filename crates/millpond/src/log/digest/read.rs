//! Reads digests back. Recovery scans the whole log instead; only the inspection of a closed
//! database reads digests.

use super::{ABSENT, Digest, FORMAT, HEADER_BYTES, MAGIC, Section, Touch};
use crate::error::{Error, Result};
use crate::log::block::BLOCK_BYTES;
use crate::log::segment::{SegmentShape, Segments};
use base::aligned::AlignedBuf;
use base::codec::fixed::{get_u16, get_u32, get_u64};
use base::codec::{Reader, Truncated};
use base::{Lsn, PageNo, crc};
use std::collections::BTreeMap;

impl Digest {
    /// Returns how many bytes follow the header at the start of `block`, if it is the header of a
    /// digest of segment `number`.
    fn claimed(block: &[u8], shape: SegmentShape, number: u64) -> Option<usize> {
        let ours = &block[..8] == MAGIC
            && get_u16(block, 8) == FORMAT
            && get_u16(block, 10) & ABSENT == 0
            && get_u64(block, 16) == shape.db_id
            && get_u64(block, 24) == number;
        let len = get_u32(block, 44) as usize;
        (ours && HEADER_BYTES + len <= shape.digest_blocks() as usize * BLOCK_BYTES).then_some(len)
    }

    /// Decodes a digest; `None` if the bytes are not one of segment `number`.
    pub(super) fn decode(bytes: &[u8], shape: SegmentShape, number: u64) -> Option<Digest> {
        let len = HEADER_BYTES + Digest::claimed(bytes, shape, number)?;
        let bytes = bytes.get(..len)?;
        let crc = crc::crc32c(&bytes[16..]);
        if get_u32(bytes, 12) != crc::crc32c_append(crc, &bytes[8..12]) {
            return None;
        }
        let base = shape.first_lsn(number);
        let mut digest = Digest {
            segment: number,
            epoch: get_u32(bytes, 32),
            groups: get_u32(bytes, 40),
            first: Lsn(get_u64(bytes, 48)),
            next: Lsn(get_u64(bytes, 56)),
            pages: BTreeMap::new(),
            sections: Vec::new(),
        };
        digest.take_body(&bytes[HEADER_BYTES..], get_u32(bytes, 36), base).ok()?;
        Some(digest)
    }

    /// Decodes the pages, of which there are `pages`, and the sections.
    pub(super) fn take_body(&mut self, body: &[u8], pages: u32, base: Lsn) -> Result<(), Truncated> {
        let mut r = Reader::new(body);
        let mut page = 0u32;
        for _ in 0..pages {
            let step = u32::try_from(r.varint()?).map_err(|_| Truncated)?;
            page = page.checked_add(step).ok_or(Truncated)?;
            let mut touches = Vec::new();
            let mut at = base;
            for _ in 0..r.varint()? {
                let word = r.varint()?;
                at = Lsn(at.0.checked_add(word / 2).ok_or(Truncated)?);
                touches.push(Touch { lsn: at, anew: word % 2 == 1 });
            }
            self.pages.insert(PageNo(page), touches);
        }
        while !r.is_empty() {
            self.sections.push(Section { tag: r.u8()?, bytes: r.prefixed()?.to_vec() });
        }
        Ok(())
    }
}

impl Segments {
    /// Returns the digest of a segment, if it has one.
    pub(crate) fn digest(&self, number: u64) -> Result<Option<Digest>> {
        let Some(segment) = self.find(number) else { return Ok(None) };
        let io = |e| Error::io("read", &segment.path, e);
        let mut first = AlignedBuf::zeroed(BLOCK_BYTES);
        segment.file.read_at(&mut first, self.shape().digest_offset()).map_err(io)?;
        let Some(len) = Digest::claimed(&first, self.shape(), number) else { return Ok(None) };
        let mut whole = AlignedBuf::zeroed((HEADER_BYTES + len).next_multiple_of(BLOCK_BYTES));
        segment.file.read_at(&mut whole, self.shape().digest_offset()).map_err(io)?;
        Ok(Digest::decode(&whole, self.shape(), number))
    }
}
