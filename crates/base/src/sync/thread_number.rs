//! A small number for each thread, so that threads can keep apart what they count.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The calling thread's number. Threads that run side by side mostly have different ones, also modulo a small power of
/// two; nothing may depend on it but speed.
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
