//! Memory of the pool, by address: the bytes of all frames, and arrays of atomics that grow in
//! place. Addresses for the largest pool are reserved when it is made. Memory stands behind those
//! that are open. So a frame and its control block never move, whatever size the pool gets.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

use base::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

/// A cache line, bytes.
const LINE: usize = 64;
/// The header and the slots of a leaf with about thirty rows, bytes.
const PREFETCHED_HEAD: usize = 6 * LINE;

/// Reserved addresses. What is open reads as zeros at first.
#[derive(Debug)]
struct Region {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the region alone owns its mapping. It only hands out addresses; the code that uses an
// address proves its access.
unsafe impl Send for Region {}
// SAFETY: as above; no method touches the memory, except to make it zeros or take it away, which
// the caller allows.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves addresses without memory. That costs nothing, and the system does not count it.
    fn reserve(len: usize) -> io::Result<Region> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice aliases nothing.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::empty(), flags) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region { base, len })
    }

    /// Returns the whole machine pages that contain `bytes` (`outward`), or that lie in them.
    fn pages(&self, bytes: &Range<usize>, outward: bool) -> Range<usize> {
        let page = rustix::param::page_size();
        let (down, up) = (|n: usize| n / page * page, |n: usize| n.div_ceil(page) * page);
        let pages = if outward {
            down(bytes.start)..up(bytes.end)
        } else {
            up(bytes.start)..down(bytes.end).max(up(bytes.start))
        };
        assert!(bytes.start <= bytes.end && bytes.end <= self.len, "beyond the reserved addresses");
        pages
    }

    fn at(&self, offset: usize) -> *mut std::ffi::c_void {
        self.base.as_ptr().wrapping_add(offset).cast()
    }

    /// Lets the program use `bytes`. The system backs them with memory when they are first touched,
    /// with huge pages if it can and they are wanted.
    fn open(&self, bytes: Range<usize>, huge: bool) -> io::Result<()> {
        let pages = self.pages(&bytes, true);
        if pages.is_empty() {
            return Ok(());
        }
        let rights = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the pages are of our own mapping (`mmap` made it of whole pages), and more rights
        // change no contents.
        unsafe { mprotect(self.at(pages.start), pages.len(), rights) }?;
        if huge {
            // SAFETY: as above. The advice changes no contents. A kernel without huge pages refuses
            // it, which does no harm.
            let _ = unsafe { madvise(self.at(pages.start), pages.len(), Advice::LinuxHugepage) };
        }
        Ok(())
    }

    /// Gives the memory of `bytes` back to the system: they read as zeros. REQUIRES: nothing is
    /// stored there that is needed, and no thread writes there.
    fn clear(&self, bytes: Range<usize>) {
        let pages = self.pages(&bytes, false);
        if !pages.is_empty() {
            // SAFETY: the pages are of our own mapping, and the caller needs none of their bytes.
            let _ = unsafe { madvise(self.at(pages.start), pages.len(), Advice::LinuxDontNeed) };
        }
    }

    /// Gives the memory of `bytes` back and closes them. REQUIRES: no thread touches them until
    /// they are open again.
    fn close(&self, bytes: Range<usize>) {
        let pages = self.pages(&bytes, false);
        if pages.is_empty() {
            return;
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: this replaces pages of our own mapping, which no thread touches.
        let closed = unsafe { mmap_anonymous(self.at(pages.start), pages.len(), ProtFlags::empty(), flags) };
        if closed.is_err() {
            self.clear(bytes);
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this is exactly what `reserve` mapped. Every borrow of its bytes is bound to a
        // borrow of the region's owner.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A type of which all-zero bytes are a value, and that many threads may use.
///
/// # Safety
/// Both must be true.
pub(super) unsafe trait ZeroIsValid: Sync {}

// SAFETY: a number in an atomic cell.
unsafe impl ZeroIsValid for AtomicU32 {}

/// An array that grows in place. Its entries begin as zeros.
pub(super) struct GrowingArray<T> {
    region: Region,
    most: usize,
    /// Entries below this may be used. It only grows.
    opened: AtomicUsize,
    entries: PhantomData<T>,
}

impl<T: ZeroIsValid> GrowingArray<T> {
    /// Reserves addresses for `most` entries. None of them may be used yet.
    pub(super) fn reserve(most: usize) -> io::Result<GrowingArray<T>> {
        let len = most.checked_mul(size_of::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let region = Region::reserve(len)?;
        Ok(GrowingArray { region, most, opened: AtomicUsize::new(0), entries: PhantomData })
    }

    /// Returns how many entries may be used.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    /// Lets the first `len` entries be used. `set_up` gets those that are new, before any other
    /// thread can. REQUIRES: no other thread is in this call, and `len` is at most what was
    /// reserved.
    pub(super) fn open(&self, len: usize, set_up: impl Fn(&T)) -> io::Result<()> {
        let had = self.len();
        assert!(len <= self.most, "beyond the reserved addresses");
        if len <= had {
            return Ok(());
        }
        self.region.open(had * size_of::<T>()..len * size_of::<T>(), false)?;
        for index in had..len {
            // SAFETY: the entry lies in an open part of the region, which is at the start of a
            // machine page, so it is aligned; it is zeros, which is a value; nothing else refers to
            // it, because `opened` does not count it yet.
            set_up(unsafe { self.region.base.cast::<T>().add(index).as_ref() });
        }
        self.opened.store(len, Ordering::Release);
        Ok(())
    }

    /// Returns an entry. A thread that has learned its number from another thread sees it set up.
    #[inline]
    pub(super) fn get(&self, index: usize) -> &T {
        assert!(index < self.len());
        // SAFETY: the entry is open and set up: `opened` was stored after that, and a thread that
        // loads its value relaxed got the number from a thread that had seen it. Entries are
        // aligned as above. They stay mapped as long as `self` is, and are only shared.
        unsafe { self.region.base.cast::<T>().add(index).as_ref() }
    }

    /// Gives the memory of entries back; they are zeros then. REQUIRES: they are zeros already, or
    /// nobody needs them, and no thread writes to them.
    pub(super) fn clear(&self, entries: Range<usize>) {
        self.region.clear(entries.start * size_of::<T>()..entries.end * size_of::<T>());
    }
}

impl<T> fmt::Debug for GrowingArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GrowingArray({:?} of {})", self.opened, self.most)
    }
}

/// The bytes of all frames, aligned to the machine's page, so they suit direct I/O. A frame's bytes
/// begin as zeros.
#[derive(Debug)]
pub(super) struct Arena {
    region: Region,
    most: usize,
    page_bytes: usize,
}

impl Arena {
    /// Reserves addresses for `most` frames. None of them has memory yet.
    pub(super) fn reserve(most: usize, page_bytes: usize) -> io::Result<Arena> {
        assert!(most > 0 && page_bytes.is_power_of_two() && page_bytes >= 512);
        let len = most.checked_mul(page_bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Arena { region: Region::reserve(len)?, most, page_bytes })
    }

    /// Gives frames their memory. A pool is read at random, and with small pages nearly every
    /// access would miss the TLB, so they are huge if possible.
    pub(super) fn open(&self, frames: Range<usize>) -> io::Result<()> {
        self.region.open(self.bytes(&frames), true)
    }

    /// Takes the memory of frames away. REQUIRES: no thread touches their bytes until they are open
    /// again.
    pub(super) fn close(&self, frames: Range<usize>) {
        self.region.close(self.bytes(&frames));
    }

    fn bytes(&self, frames: &Range<usize>) -> Range<usize> {
        frames.start * self.page_bytes..frames.end * self.page_bytes
    }

    /// How many frames have addresses.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Returns the first byte of a frame. `page_bytes` bytes from there lie inside the mapping.
    #[inline]
    pub(super) fn frame(&self, index: u32) -> NonNull<u8> {
        assert!((index as usize) < self.most);
        // SAFETY: index < most, so the offset stays inside the mapping, whose length did not
        // overflow.
        unsafe { self.region.base.add(index as usize * self.page_bytes) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_grows_in_place_and_keeps_what_it_has() {
        let array = GrowingArray::<AtomicU32>::reserve(1 << 20).unwrap();
        array.open(10, |entry| entry.store(7, Ordering::Relaxed)).unwrap();
        let (third, place) = (array.get(3), std::ptr::from_ref(array.get(3)));
        third.store(9, Ordering::Relaxed);
        array.open(1 << 20, |_| {}).unwrap();
        assert_eq!((array.len(), std::ptr::from_ref(array.get(3))), (1 << 20, place));
        let values = [3, 9, 10, (1 << 20) - 1].map(|index| array.get(index).load(Ordering::Relaxed));
        assert_eq!(values, [9, 7, 0, 0]);
        array.get(1 << 19).store(1, Ordering::Relaxed);
        array.clear(1 << 18..1 << 20);
        assert_eq!(array.get(1 << 19).load(Ordering::Relaxed), 0);
    }

    #[test]
    #[should_panic(expected = "index < self.len()")]
    fn an_entry_that_is_not_open_cannot_be_used() {
        let array = GrowingArray::<AtomicU32>::reserve(20).unwrap();
        array.open(10, |_| {}).unwrap();
        array.get(10);
    }

    #[test]
    fn more_addresses_than_there_are_is_an_error() {
        assert!(Arena::reserve(usize::MAX / 4096, 4096).is_err());
        assert!(Arena::reserve(usize::MAX / 512, 4096).is_err());
    }
}
