//! A growable byte buffer in the memory of an [`AlignedBuf`]. A long one lies in huge pages: random
//! accesses to some MiB of small pages miss the processor's cache of addresses each time.

use crate::aligned::{AlignedBuf, IO_ALIGN};
use std::ops::Deref;

/// Bytes that can be appended to.
#[derive(Debug, Default)]
pub struct AlignedVec {
    buffer: Option<AlignedBuf>,
    len: usize,
}

impl AlignedVec {
    /// Makes it empty. It keeps its memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Makes it shorter.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Provides memory for `more` bytes more.
    pub fn reserve(&mut self, more: usize) {
        let needed = self.len + more;
        let have = self.buffer.as_ref().map_or(0, |buffer| buffer.len());
        if needed <= have {
            return;
        }
        let mut longer = AlignedBuf::zeroed(needed.max(2 * have).max(IO_ALIGN));
        longer[..self.len].copy_from_slice(self);
        self.buffer = Some(longer);
    }

    /// Appends bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        if let Some(buffer) = &mut self.buffer {
            buffer[self.len..self.len + bytes.len()].copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }
}

impl Deref for AlignedVec {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer[..self.len])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_when_it_grows() {
        let mut bytes = AlignedVec::default();
        assert!(bytes.is_empty());
        bytes.extend_from_slice(&[]);
        let mut expected = Vec::new();
        for n in 0..3000u32 {
            bytes.extend_from_slice(&n.to_le_bytes());
            expected.extend_from_slice(&n.to_le_bytes());
        }
        assert!(*bytes == expected[..]);
        bytes.truncate(5);
        bytes.truncate(100);
        assert_eq!(*bytes, expected[..5]);
        bytes.clear();
        bytes.reserve(3 << 20);
        assert!(bytes.is_empty());
        bytes.extend_from_slice(&[7; 9]);
        assert_eq!(*bytes, [7; 9]);
    }
}
