//! A small number for each thread, which chooses its stripe of a [`Striped`](crate::Striped).

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the calling thread's number. Threads that run at the same time mostly have different
/// numbers, also modulo a small power of two. Only speed may depend on it.
#[inline]
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    #[cfg(feature = "sim")]
    if let Some(number) = super::sim::number_in_world() {
        return number;
    }
    OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        own.get()
    })
}
