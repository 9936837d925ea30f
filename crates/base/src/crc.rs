//! CRC32C, the checksum of everything on disk.
#![allow(unsafe_code)]

/// Shorter inputs are summed here, with one instruction for eight bytes, at any alignment. For
/// longer inputs the `crc32c` crate is faster: it computes three sums in parallel. Bytes.
const SHORT: usize = 768;

/// Returns the checksum of `bytes`.
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// Returns the checksum of the bytes that `crc` covers, followed by `bytes`.
#[inline]
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < SHORT && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has just been found to have these instructions.
        return unsafe { append_short(crc, bytes) };
    }
    crc32c::crc32c_append(crc, bytes)
}

/// Returns the checksum of `bytes`, followed by two numbers of eight bytes.
#[inline]
#[must_use]
pub fn crc32c_then(bytes: &[u8], numbers: [u64; 2]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < SHORT && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: as above.
        return unsafe { short_then(bytes, numbers) };
    }
    numbers.iter().fold(crc32c(bytes), |crc, number| crc32c_append(crc, &number.to_le_bytes()))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short_then(bytes: &[u8], numbers: [u64; 2]) -> u32 {
    use std::arch::x86_64::_mm_crc32_u64;
    let crc = u64::from(!append_short(0, bytes));
    !(numbers.iter().fold(crc, |crc, number| _mm_crc32_u64(crc, *number)) as u32)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
#[inline]
fn append_short(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};
    let (words, mut rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(u64::from(!crc), |sum, word| _mm_crc32_u64(sum, u64::from_le_bytes(*word)));
    let mut sum = sum as u32;
    if let Some((four, after)) = rest.split_first_chunk() {
        (sum, rest) = (_mm_crc32_u32(sum, u32::from_le_bytes(*four)), after);
    }
    if let Some((two, after)) = rest.split_first_chunk() {
        (sum, rest) = (_mm_crc32_u16(sum, u16::from_le_bytes(*two)), after);
    }
    !rest.iter().fold(sum, |sum, byte| _mm_crc32_u8(sum, *byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_inputs_have_one_checksum() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283, "the check value of the catalogues of CRCs");
        let bytes: Vec<u8> = (0..2_000u32).map(|n| ((n * n) >> 3) as u8).collect();
        for len in (0..40).chain([SHORT - 1, SHORT, SHORT + 1, 2_000]) {
            for from in [0, 1, 5].into_iter().filter(|&from| from <= len) {
                let part = &bytes[from..len];
                assert_eq!(crc32c(part), crc32c::crc32c(part), "{from}..{len}");
                let (front, back) = part.split_at(part.len() / 3);
                assert_eq!(crc32c_append(crc32c(front), back), crc32c(part));
                let numbers = [0x0123_4567_89ab_cdef, u64::MAX - 7];
                let after: Vec<u8> = numbers.iter().flat_map(|number: &u64| number.to_le_bytes()).collect();
                assert_eq!(crc32c_then(part, numbers), crc32c_append(crc32c(part), &after));
            }
        }
    }
}
