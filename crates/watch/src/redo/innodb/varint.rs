//! Integers of one to five bytes, as InnoDB's log has them: the ones at the top of the first byte
//! say how many bytes follow, and a longer form begins where the shorter one ends.

/// The first value of each length, from one byte on.
const BASES: [u64; 5] = [0, 128, 16_512, 2_113_664, 270_549_120];

/// Reads a number at the start of `bytes`. Returns it and its length; `None` if it is cut off or
/// none that a log has.
pub(super) fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let more = first.leading_ones() as usize;
    let base = *BASES.get(more)?;
    // The ones and the zero behind them are no part of the number.
    let mut number = u64::from(first) & (0x7f >> more);
    for byte in bytes.get(1..=more)? {
        number = number << 8 | u64::from(*byte);
    }
    Some((base + number, 1 + more))
}

/// The same for the number of a tablespace or of a page, which has 32 bits.
pub(super) fn read_u32(bytes: &[u8]) -> Option<(u32, usize)> {
    let (number, length) = read(bytes)?;
    Some((u32::try_from(number).ok()?, length))
}

/// Writes a number, for tests.
#[cfg(test)]
pub(super) fn write(number: u64, out: &mut Vec<u8>) {
    let more = BASES.iter().rposition(|base| number >= *base).unwrap();
    let rest = number - BASES[more];
    let ones = (0xff00_u32 >> more) as u8;
    let bytes = rest.to_be_bytes();
    out.push(ones | bytes[7 - more]);
    out.extend_from_slice(&bytes[8 - more..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_begins_where_the_shorter_one_ends() {
        for (bytes, number) in [
            (&[0x00][..], 0),
            (&[0x7f], 127),
            (&[0x80, 0x00], 128),
            (&[0xbf, 0xff], 16_511),
            (&[0xc0, 0x00, 0x00], 16_512),
            (&[0xdf, 0xff, 0xff], 2_113_663),
            (&[0xe0, 0x00, 0x00, 0x00], 2_113_664),
            (&[0xef, 0xff, 0xff, 0xff], 270_549_119),
            (&[0xf0, 0x00, 0x00, 0x00, 0x00], 270_549_120),
            (&[0xf7, 0xff, 0xff, 0xff, 0xff], 34_630_287_487),
        ] {
            let mut written = Vec::new();
            write(number, &mut written);
            assert_eq!(written, bytes);
            assert_eq!(read(bytes), Some((number, bytes.len())));
            assert_eq!(read(&bytes[..bytes.len() - 1]), None, "{number} is cut");
        }
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[0xf8; 9]), None);
        assert_eq!(read(&[0xff; 9]), None);
        assert_eq!(read_u32(&[0xf0, 0xff, 0xff, 0xff, 0xff]), None, "more than 32 bits");
    }
}
