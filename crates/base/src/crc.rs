//! CRC32C, the checksum of everything on disk.

/// Checksum of `bytes`.
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Checksum of what `crc` covers followed by `bytes`.
#[inline]
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc, bytes)
}
