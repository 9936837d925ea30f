//! Has memory come to the processor while the caller goes on. Undo on its way to a segment was written by other processors long ago, and each look at it
//! would wait for memory by itself.
#![allow(unsafe_code)]

const LINE: usize = 64;

/// Asks for the first `most` bytes of `memory`. Changes nothing, waits for nothing.
#[inline]
pub(super) fn prefetch<T>(memory: &[T], most: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let first = memory.as_ptr().cast::<i8>();
        for line in (0..size_of_val(memory).min(most)).step_by(LINE) {
            // SAFETY: the address lies in the slice, as line < its size; a prefetch reads nothing that the program could see, so no access of
            // anybody else's conflicts with it.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(first.add(line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (memory, most, LINE);
}
