//! Byte buffers aligned for direct I/O.
#![allow(unsafe_code)]

use rustix::mm::{Advice, madvise};
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Direct I/O needs addresses, lengths and offsets that are multiples of this many bytes.
pub const IO_ALIGN: usize = 4096;

/// Buffers of this size and more are in the system's huge pages of this size, if it has such pages.
/// For direct I/O the kernel looks up each page of a buffer; a batch of page writes has 1,000 small
/// ones and 2 huge ones.
const HUGE: usize = 2 << 20;

fn layout(len: usize) -> Layout {
    let align = if len < HUGE { IO_ALIGN } else { HUGE };
    Layout::from_size_align(len, align).expect("a length below isize::MAX")
}

/// A zeroed heap buffer of fixed length whose address is a multiple of [`IO_ALIGN`].
pub struct AlignedBuf {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: the buffer is the only owner of its memory, like a `Box<[u8]>`.
unsafe impl Send for AlignedBuf {}
// SAFETY: shared access is read-only, like a `Box<[u8]>`.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// Returns `len` zero bytes. REQUIRES: `len` is not 0.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        assert!(len > 0);
        let layout = layout(len);
        if len < HUGE {
            // SAFETY: the layout's size is not 0.
            let ptr = unsafe { alloc_zeroed(layout) };
            let Some(ptr) = NonNull::new(ptr) else { handle_alloc_error(layout) };
            return AlignedBuf { ptr, len };
        }
        // SAFETY: the layout's size is not 0.
        let ptr = unsafe { alloc(layout) };
        let Some(ptr) = NonNull::new(ptr) else { handle_alloc_error(layout) };
        // Before the first access, which makes the system provide the memory.
        // SAFETY: the range lies in the allocation and begins at a page, for it is aligned to
        // `HUGE`. The advice changes no contents. A system without huge pages refuses it, and
        // nothing else depends on it.
        let _ = unsafe { madvise(ptr.as_ptr().cast(), len / HUGE * HUGE, Advice::LinuxHugepage) };
        // SAFETY: the allocation has `len` bytes.
        unsafe { ptr.as_ptr().write_bytes(0, len) };
        AlignedBuf { ptr, len }
    }

    /// Returns the first byte's address, for structures that give out disjoint parts by rules of
    /// their own.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout and freed once.
        unsafe { dealloc(self.ptr.as_ptr(), layout(self.len)) }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes are owned by `self`.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` initialised bytes are owned by `self`, borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_zeroed_below_and_above_the_size_of_a_huge_page() {
        for len in [1, IO_ALIGN, HUGE - 1, HUGE, HUGE + 1, 2 * HUGE + IO_ALIGN] {
            // Twice: the second may get memory that the first has used.
            for _ in 0..2 {
                let mut buffer = AlignedBuf::zeroed(len);
                assert_eq!(buffer.len(), len);
                assert!(buffer.as_ptr().addr().is_multiple_of(IO_ALIGN));
                assert!(buffer.iter().all(|byte| *byte == 0), "{len} bytes");
                buffer.fill(0xaa);
            }
        }
    }
}
