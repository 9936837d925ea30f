//! Of which table an undo record is: the start of a record that is appended to an undo page. Pure.

/// The kinds of undo records that name a table: rename, the row of metadata, insert, three kinds of
/// update, delete, and the one of a bulk insert.
const KINDS: std::ops::RangeInclusive<u8> = 9..=15;

/// Returns the number of the table. `body` begins with the kind of the extended record. Then come
/// the kind of the undo record, its number in the transaction, and the table's.
pub(super) fn table(body: &[u8]) -> Option<u64> {
    let kind = body.get(1)? & 15;
    if !KINDS.contains(&kind) {
        return None;
    }
    let (_, length) = number(body.get(2..)?)?;
    Some(number(body.get(2 + length..)?)?.0)
}

/// Reads a number of 64 bits: one of 32, or a mark and the two halves. Returns its length too.
fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    if *bytes.first()? != 0xff {
        let (low, length) = half(bytes)?;
        return Some((low.into(), length));
    }
    let (high, first) = half(&bytes[1..])?;
    let (low, second) = half(bytes.get(1 + first..)?)?;
    Some((u64::from(high) << 32 | u64::from(low), 1 + first + second))
}

/// Reads a number of 32 bits. The ones at the top say how many bytes follow. This is not the form
/// of the log: a longer one does not begin where a shorter one ends.
fn half(bytes: &[u8]) -> Option<(u32, usize)> {
    let first = *bytes.first()?;
    let more = first.leading_ones() as usize;
    if more > 4 {
        // Numbers near the greatest one have forms of their own; no table has them.
        return None;
    }
    let begin = if more == 4 { 0 } else { u32::from(first) & (0x7f >> more) };
    let number = bytes.get(1..=more)?.iter().fold(begin, |number, byte| number << 8 | u32::from(*byte));
    Some((number, 1 + more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_an_undo_record() {
        for (body, of) in [
            (&[3, 11, 0, 18, 9][..], Some(18)),
            (&[3, 0x1c, 0x81, 0x00, 0xc1, 0x02, 0x03], Some(0x1_0203)),
            (&[3, 14, 5, 0xf0, 1, 2, 3, 4], Some(0x0102_0304)),
            (&[3, 14, 0xff, 1, 2, 0xff, 1, 2], Some(0x1_0000_0002)),
            (&[3, 14, 0xe1, 2, 3, 4, 7], Some(7)),
            (&[3, 8, 0, 18], None),
            (&[3, 11, 0], None),
            (&[3, 11, 0xf8, 18], None),
            (&[3], None),
        ] {
            assert_eq!(table(body), of, "{body:x?}");
        }
    }
}
