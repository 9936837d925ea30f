//! The list of dirty pages, as it is written in the log: an opening that reads it need not read the
//! log before it (Lo7).
//!
//! ```text
//! base LSN u64 · { page - page before varint · base LSN - LSN of its last change varint } …
//! ```
//! The pages ascend. The list is written in parts (`parts`).

use super::parts;
use base::codec::{Put, Reader, Truncated};
use base::{Lsn, PageNo};

/// About the bytes that a page takes in the list.
pub(crate) const PAGE_BYTES: u64 = 6;

/// Encodes the list of these pages and their last changes, in parts. REQUIRES: `pages` ascend, and
/// no last change lies above `base`.
pub(super) fn encode_dirty(pages: &[(PageNo, Lsn)], base: Lsn, sequence: u64) -> Vec<Vec<u8>> {
    let mut body = Vec::with_capacity(8 + pages.len() * PAGE_BYTES as usize);
    body.put_u64(base.0);
    let mut before = 0;
    for (page, last) in pages {
        body.put_varint(u64::from(page.0 - before));
        body.put_varint(base.since(*last));
        before = page.0;
    }
    parts::divide(&body, sequence)
}

/// Decodes a list whose parts were put together, and calls `each` for every page.
pub(crate) fn decode_dirty(body: &[u8], mut each: impl FnMut(PageNo, Lsn)) -> Result<(), Truncated> {
    let mut r = Reader::new(body);
    let base = r.u64()?;
    let mut page = 0u64;
    while !r.is_empty() {
        page += r.varint()?.min(1 << 32);
        let number = u32::try_from(page).map_err(|_| Truncated)?;
        let last = base.checked_sub(r.varint()?).ok_or(Truncated)?;
        each(PageNo(number), Lsn(last));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::parts::Collector;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_list_is_read_back(pages: std::collections::BTreeMap<u32, u32>, extra in 0u64..1 << 40) {
            let base = Lsn(u64::from(u32::MAX) + extra);
            let pages: Vec<_> = pages.into_iter().map(|(page, last)| (PageNo(page), Lsn(last.into()))).collect();
            let mut collector = Collector::default();
            let parts = encode_dirty(&pages, base, 3);
            let bodies: Vec<_> = parts.iter().filter_map(|part| collector.push(part).unwrap()).collect();
            let mut read = Vec::new();
            decode_dirty(&bodies[0], |page, last| read.push((page, last))).unwrap();
            prop_assert_eq!(read, pages);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(body: Vec<u8>) {
            let _ = decode_dirty(&body, |_, _| {});
        }
    }
}
