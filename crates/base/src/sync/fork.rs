//! Tells a process that `fork` has made from the process of which it is a copy. A page of memory
//! that the kernel clears in the child (`MADV_WIPEONFORK`, Linux 4.14) has a number, so a check is
//! one load. Without such a page each check asks for the process id.
#![allow(unsafe_code)]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::process::getpid;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of a process. A child continues the counting of its parent, so none of its
/// forefathers has its number.
static NUMBERS: AtomicU32 = AtomicU32::new(0);

/// A process, as it is known to itself and to its children.
#[derive(Clone, Copy, Debug)]
pub struct ProcessStamp {
    /// Where the number is, 0 in a child until it asks for its own. `None`: the number is the
    /// process id.
    place: Option<&'static AtomicU32>,
    number: u32,
}

/// Returns a word that a child finds cleared.
fn cleared_by_fork() -> Option<&'static AtomicU32> {
    let (len, rights) = (rustix::param::page_size(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a new mapping of its own, at an address that the kernel chooses.
    let page = unsafe { mmap_anonymous(null_mut(), len, rights, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the page is the mapping from above, to which nothing refers yet.
    unsafe { madvise(page, len, Advice::LinuxWipeOnFork) }.ok()?;
    // SAFETY: the page is aligned, holds zeros, which is a number, and is never unmapped. Nothing
    // else refers to it, and the kernel clears it only in a process that has a single thread.
    Some(unsafe { &*page.cast::<AtomicU32>() })
}

impl ProcessStamp {
    /// Returns the stamp of the calling process.
    #[must_use]
    pub fn here() -> ProcessStamp {
        static PLACE: OnceLock<Option<&AtomicU32>> = OnceLock::new();
        let Some(place) = *PLACE.get_or_init(cleared_by_fork) else {
            return ProcessStamp { place: None, number: pid() };
        };
        if place.load(Ordering::Relaxed) == 0 {
            let next = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
            // Another thread may be first.
            let _ = place.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        ProcessStamp { place: Some(place), number: place.load(Ordering::Relaxed) }
    }

    /// Whether the calling process is this one, and not a child of it.
    #[inline]
    #[must_use]
    pub fn is_here(&self) -> bool {
        match self.place {
            Some(place) => place.load(Ordering::Relaxed) == self.number,
            None => pid() == self.number,
        }
    }
}

#[cold]
fn pid() -> u32 {
    getpid().as_raw_nonzero().get().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_of_a_process_have_one_stamp() {
        let stamp = ProcessStamp::here();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(move || stamp.is_here() && ProcessStamp::here().number == stamp.number)
            })
            .collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
        let old_kernel = ProcessStamp { place: None, number: pid() };
        assert!(old_kernel.is_here());
        assert!(!ProcessStamp { number: pid() + 1, ..old_kernel }.is_here());
    }
}
