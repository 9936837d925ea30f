//! A file's pages in the page cache, as memory of the process.
//!
//! A write into it takes no call of the system: it is a copy. It is also the one kind of write
//! whose failure is a signal that ends the process (SIGBUS). So a file is mapped only where a write
//! to space that the file has needs no other space: on ext2, ext3 and ext4.
#![allow(unsafe_code)]

use crate::SharedBytes;
use rustix::fs::fstatfs;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// `f_type` of ext2, ext3 and ext4.
const EXT: u64 = 0xef53;

/// A part of a file, from its beginning, that is mapped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is memory of the process that this value alone knows.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a file; `None` if that is not possible or not safe here.
    /// REQUIRES: the file is at least so long, and never gets shorter.
    pub(crate) fn new(fd: BorrowedFd<'_>, len: usize) -> Option<Mapping> {
        if len == 0 || fstatfs(fd).ok()?.f_type as u64 != EXT {
            return None;
        }
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses where, so no memory in use is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), len, rights, MapFlags::SHARED, fd, 0) }.ok()?;
        Some(Mapping { start: NonNull::new(start.cast())?, len })
    }
}

impl SharedBytes for Mapping {
    fn write(&mut self, bytes: &[u8], offset: usize) {
        assert!(offset <= self.len && bytes.len() <= self.len - offset);
        // SAFETY: in bounds by the assertion. No reference into the mapping is ever made, and
        // `&mut self` keeps other threads of this process away.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len());
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new` with this length, and nobody else has its address. A
        // failure leaves it mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
