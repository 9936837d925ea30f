//! Byte buffers aligned for direct I/O.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Direct I/O needs addresses, lengths and offsets that are multiples of this many bytes.
pub const IO_ALIGN: usize = 4096;

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
        let layout = Layout::from_size_align(len, IO_ALIGN).expect("a length below isize::MAX");
        // SAFETY: the layout's size is not 0.
        let ptr = unsafe { alloc_zeroed(layout) };
        let Some(ptr) = NonNull::new(ptr) else { handle_alloc_error(layout) };
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
        let layout = Layout::from_size_align(self.len, IO_ALIGN).expect("as at allocation");
        // SAFETY: allocated in `zeroed` with this layout and freed once.
        unsafe { dealloc(self.ptr.as_ptr(), layout) }
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
