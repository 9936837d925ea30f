//! The memory of all frames: one mapping, addressed by frame index. A frame never moves.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// A cache line, bytes.
const LINE: usize = 64;
/// The header and the slots of a leaf with about thirty rows, bytes.
const PREFETCHED_HEAD: usize = 6 * LINE;

/// `frames` times `page_bytes` of zeroed memory, aligned to the machine's page, so it suits direct
/// I/O.
#[derive(Debug)]
pub(super) struct Arena {
    base: NonNull<u8>,
    frames: usize,
    page_bytes: usize,
}

// SAFETY: the arena alone owns its mapping. It only hands out addresses; the code that uses an
// address proves its access.
unsafe impl Send for Arena {}
// SAFETY: as above; no method touches the memory.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps the memory. The system backs it with memory when it is first touched, with huge pages
    /// if it can. A pool is read at random, and with small pages nearly every access would miss the
    /// TLB.
    pub(super) fn map(frames: usize, page_bytes: usize) -> io::Result<Arena> {
        assert!(frames > 0 && page_bytes.is_power_of_two() && page_bytes >= 512);
        let len = frames.checked_mul(page_bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the range is our own mapping. The advice changes no contents. A kernel without
        // huge pages refuses it, which does no harm.
        let _ = unsafe { madvise(base.as_ptr().cast(), len, Advice::LinuxHugepage) };
        Ok(Arena { base, frames, page_bytes })
    }

    /// Returns the first byte of a frame. `page_bytes` bytes from there lie inside the mapping.
    #[inline]
    pub(super) fn frame(&self, index: u32) -> NonNull<u8> {
        assert!((index as usize) < self.frames);
        // SAFETY: index < frames, so the offset stays inside the mapping, whose length did not
        // overflow.
        unsafe { self.base.add(index as usize * self.page_bytes) }
    }

    /// Prefetches what a search in a page reads first: the header, the slots of a usual leaf, and
    /// the fences, which are at the end of the page unless they have moved. The processor then
    /// loads these lines in parallel. Changes nothing, waits for nothing.
    #[inline]
    pub(super) fn prefetch(&self, index: u32) {
        let page = self.frame(index).as_ptr().cast_const();
        // In the order of use: which page it is, whether it covers the key, where in it the key is.
        base::prefetch::to_read_at(page, LINE);
        base::prefetch::to_read_at(page.wrapping_add(self.page_bytes - LINE), LINE);
        base::prefetch::to_read_at(page.wrapping_add(LINE), PREFETCHED_HEAD - LINE);
    }

    /// Bytes of one frame.
    #[inline]
    pub(super) fn page_bytes(&self) -> usize {
        self.page_bytes
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: this is exactly what `map` mapped. Every borrow of a frame's bytes is bound to a
        // borrow of the arena's owner.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.frames * self.page_bytes) };
    }
}
