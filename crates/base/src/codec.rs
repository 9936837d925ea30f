//! Reads and writes little-endian values. Reading checks bounds and never panics, because bytes
//! from a disk may be anything.

/// The bytes end before the value does, or a varint is longer than its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

impl std::fmt::Display for Truncated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the bytes end before the value does")
    }
}

impl std::error::Error for Truncated {}

/// Reads values from the front of a byte slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    whole: usize,
}

impl<'a> Reader<'a> {
    /// Makes a reader that begins at the front of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes, whole: bytes.len() }
    }

    /// Returns the bytes that have not been read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns how many bytes have been read.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.whole - self.rest.len()
    }

    /// Whether all bytes have been read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next `n` bytes.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Truncated> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(Truncated)?;
        self.rest = rest;
        Ok(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    /// Reads one byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads two bytes.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads four bytes.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads five bytes, as a number below 2^40.
    #[inline]
    pub fn u40(&mut self) -> Result<u64, Truncated> {
        let b = self.array::<5>()?;
        Ok(u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], 0, 0, 0]))
    }

    /// Reads six bytes, as a number below 2^48.
    #[inline]
    pub fn u48(&mut self) -> Result<u64, Truncated> {
        let b = self.array::<6>()?;
        Ok(u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], 0, 0]))
    }

    /// Reads eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a LEB128 number of at most ten bytes.
    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64, Truncated> {
        if let Some((&byte, rest)) = self.rest.split_first()
            && byte < 0x80
        {
            self.rest = rest;
            return Ok(byte.into());
        }
        let (value, rest) = long_varint(self.rest)?;
        self.rest = rest;
        Ok(value)
    }

    /// Reads a varint that must fit a length in memory.
    #[inline(always)]
    fn varlen(&mut self) -> Result<usize, Truncated> {
        usize::try_from(self.varint()?).map_err(|_| Truncated)
    }

    /// Reads a varint length, then that many bytes.
    #[inline(always)]
    pub fn prefixed(&mut self) -> Result<&'a [u8], Truncated> {
        let n = self.varlen()?;
        self.bytes(n)
    }
}

/// Reads a number of up to four bytes without a branch for its length. Also returns the rest. Takes
/// the bytes by value, so that a reader can be in registers.
#[inline(always)]
fn long_varint(bytes: &[u8]) -> Result<(u64, &[u8]), Truncated> {
    let Some(word) = bytes.first_chunk::<4>() else { return varint_by_byte(bytes) };
    let word = u32::from_le_bytes(*word);
    let last_bytes = !word & 0x8080_8080;
    if last_bytes == 0 {
        return varint_by_byte(bytes);
    }
    let bits = last_bytes.trailing_zeros() + 1;
    // Seven bits of each byte, joined to 14 of two and 28 of four.
    let parts = word & (u32::MAX >> (u32::BITS - bits)) & 0x7f7f_7f7f;
    let pairs = parts & 0x007f_007f | (parts & 0x7f00_7f00) >> 1;
    let value = pairs & 0x3fff | (pairs & 0x3fff_0000) >> 2;
    Ok((value.into(), &bytes[bits as usize / 8..]))
}

#[cold]
fn varint_by_byte(mut bytes: &[u8]) -> Result<(u64, &[u8]), Truncated> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(Truncated)?;
        bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return Err(Truncated);
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Ok((value, bytes));
        }
    }
    Err(Truncated)
}

/// Appends values to a byte vector, in the layout that [`Reader`] reads.
pub trait Put {
    /// Appends one byte.
    fn put_u8(&mut self, v: u8);
    /// Appends two bytes.
    fn put_u16(&mut self, v: u16);
    /// Appends four bytes.
    fn put_u32(&mut self, v: u32);
    /// Appends the low five bytes of `v`.
    fn put_u40(&mut self, v: u64);
    /// Appends the low six bytes of `v`.
    fn put_u48(&mut self, v: u64);
    /// Appends eight bytes.
    fn put_u64(&mut self, v: u64);
    /// Appends a LEB128 number.
    fn put_varint(&mut self, v: u64);
    /// Appends a varint length, then the bytes.
    fn put_prefixed(&mut self, v: &[u8]);
}

impl Put for Vec<u8> {
    #[inline]
    fn put_u8(&mut self, v: u8) {
        self.push(v);
    }
    #[inline]
    fn put_u16(&mut self, v: u16) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    #[inline]
    fn put_u32(&mut self, v: u32) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    #[inline]
    fn put_u40(&mut self, v: u64) {
        self.extend_from_slice(&v.to_le_bytes()[..5]);
    }
    #[inline]
    fn put_u48(&mut self, v: u64) {
        self.extend_from_slice(&v.to_le_bytes()[..6]);
    }
    #[inline]
    fn put_u64(&mut self, v: u64) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    #[inline]
    fn put_varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.push((v as u8) | 0x80);
            v >>= 7;
        }
        self.push(v as u8);
    }
    #[inline]
    fn put_prefixed(&mut self, v: &[u8]) {
        self.put_varint(v.len() as u64);
        self.extend_from_slice(v);
    }
}

/// Reads and writes a field at a fixed offset of a page or header. Panics beyond the end, so check
/// the size of the layout before.
pub mod fixed {
    /// Reads two bytes at `at`.
    #[inline]
    #[must_use]
    pub fn get_u16(b: &[u8], at: usize) -> u16 {
        u16::from_le_bytes(b[at..at + 2].try_into().expect("two bytes"))
    }
    /// Reads four bytes at `at`.
    #[inline]
    #[must_use]
    pub fn get_u32(b: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(b[at..at + 4].try_into().expect("four bytes"))
    }
    /// Reads six bytes at `at`.
    #[inline]
    #[must_use]
    pub fn get_u48(b: &[u8], at: usize) -> u64 {
        u64::from(get_u32(b, at)) | u64::from(get_u16(b, at + 4)) << 32
    }
    /// Reads five bytes at `at`.
    #[inline]
    #[must_use]
    pub fn get_u40(b: &[u8], at: usize) -> u64 {
        u64::from(get_u32(b, at)) | u64::from(b[at + 4]) << 32
    }
    /// Reads eight bytes at `at`.
    #[inline]
    #[must_use]
    pub fn get_u64(b: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(b[at..at + 8].try_into().expect("eight bytes"))
    }
    /// Writes two bytes at `at`.
    #[inline]
    pub fn set_u16(b: &mut [u8], at: usize, v: u16) {
        b[at..at + 2].copy_from_slice(&v.to_le_bytes());
    }
    /// Writes four bytes at `at`.
    #[inline]
    pub fn set_u32(b: &mut [u8], at: usize, v: u32) {
        b[at..at + 4].copy_from_slice(&v.to_le_bytes());
    }
    /// Writes the low five bytes of `v` at `at`.
    #[inline]
    pub fn set_u40(b: &mut [u8], at: usize, v: u64) {
        b[at..at + 5].copy_from_slice(&v.to_le_bytes()[..5]);
    }
    /// Writes the low six bytes of `v` at `at`.
    #[inline]
    pub fn set_u48(b: &mut [u8], at: usize, v: u64) {
        b[at..at + 6].copy_from_slice(&v.to_le_bytes()[..6]);
    }
    /// Writes eight bytes at `at`.
    #[inline]
    pub fn set_u64(b: &mut [u8], at: usize, v: u64) {
        b[at..at + 8].copy_from_slice(&v.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_reader_returns_the_values_that_were_put(a: u8, b: u16, c: u32, d: u64, v: u64, s: Vec<u8>) {
            let mut out = Vec::new();
            out.put_u8(a);
            out.put_u16(b);
            out.put_u32(c);
            out.put_u40(d);
            out.put_u48(d);
            out.put_u64(d);
            out.put_varint(v);
            out.put_prefixed(&s);
            let mut r = Reader::new(&out);
            prop_assert_eq!(r.u8(), Ok(a));
            prop_assert_eq!(r.u16(), Ok(b));
            prop_assert_eq!(r.u32(), Ok(c));
            prop_assert_eq!(r.u40(), Ok(d & ((1 << 40) - 1)));
            prop_assert_eq!(r.u48(), Ok(d & ((1 << 48) - 1)));
            prop_assert_eq!(r.u64(), Ok(d));
            prop_assert_eq!(r.varint(), Ok(v));
            prop_assert_eq!(r.prefixed(), Ok(&s[..]));
            prop_assert!(r.is_empty());
        }

        #[test]
        fn numbers_of_every_length_are_read_alike(bits in 0..64u32, v: u64, bytes: Vec<u8>) {
            let v = v >> bits;
            let mut out = Vec::new();
            out.put_varint(v);
            let len = out.len();
            out.extend_from_slice(&bytes);
            let mut r = Reader::new(&out);
            prop_assert_eq!(r.varint(), Ok(v));
            prop_assert_eq!(r.taken(), len);
            // Bytes that nobody put are a number too, or not one, however they are read.
            let mut r = Reader::new(&bytes);
            match (r.varint(), varint_by_byte(&bytes)) {
                (Ok(found), Ok(expected)) => prop_assert_eq!((found, r.rest()), expected),
                (found, expected) => prop_assert!(found.is_err() && expected.is_err()),
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let mut r = Reader::new(&bytes);
            while r.varint().is_ok() && r.prefixed().is_ok() {}
            prop_assert!(r.taken() <= bytes.len());
        }
    }
}
