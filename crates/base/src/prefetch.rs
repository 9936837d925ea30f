//! Asking the processor for memory that will soon be looked at, so that it comes while something else is done.
//!
//! Nothing that a program computes depends on it: a prefetch reads nothing that the program could see.
#![allow(unsafe_code)]

/// A cache line, bytes.
const LINE: usize = 64;

/// Asks for at most `lines` cache lines from the front of `values`.
#[inline(always)]
pub fn to_read<T>(values: &[T], lines: usize) {
    let start = values.as_ptr().cast::<u8>();
    // Lines are counted from the one that the first byte lies in.
    let before = start.addr() & (LINE - 1);
    let bytes = (size_of_val(values) + before).min(lines.saturating_mul(LINE));
    to_read_at(start.wrapping_sub(before), bytes);
}

/// Asks for `bytes` bytes of memory at `start`. Any address will do.
#[inline(always)]
pub fn to_read_at(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for offset in (0..bytes).step_by(LINE) {
            // SAFETY: a prefetch of any address is allowed: it neither faults nor reads anything that anybody could see.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}

/// Asks for `values`, at most so many cache lines of them, to be changed.
#[inline(always)]
pub fn to_write<T>(values: &[T], lines: usize) {
    to_write_at(values.as_ptr().cast(), size_of_val(values).min(lines.saturating_mul(LINE)));
}

/// Asks for `bytes` bytes of memory at `start`, to be changed. Any address will do.
#[inline(always)]
pub fn to_write_at(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        for offset in (0..bytes).step_by(LINE) {
            // SAFETY: a prefetch of any address is allowed: it neither faults nor reads anything that anybody could see.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(start.wrapping_add(offset).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}
