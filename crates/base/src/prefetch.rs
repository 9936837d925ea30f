//! Prefetches: ask the processor to load memory into its caches before the memory is used.
//!
//! A prefetch has no visible effect. No result of a program depends on it.
#![allow(unsafe_code)]

/// A cache line, bytes.
const LINE: usize = 64;

/// Prefetches at most `lines` cache lines from the front of `values`, for reading.
#[inline(always)]
pub fn to_read<T>(values: &[T], lines: usize) {
    let start = values.as_ptr().cast::<u8>();
    // The first line is the one that holds the first byte.
    let before = start.addr() & (LINE - 1);
    let bytes = (size_of_val(values) + before).min(lines.saturating_mul(LINE));
    to_read_at(start.wrapping_sub(before), bytes);
}

/// Prefetches `bytes` bytes of memory at `start`, for reading. Any address is allowed.
#[inline(always)]
pub fn to_read_at(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for offset in (0..bytes).step_by(LINE) {
            // SAFETY: a prefetch of any address is allowed: it never faults and has no visible
            // effect.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}

/// Prefetches at most `lines` cache lines from the front of `values`, for writing.
#[inline(always)]
pub fn to_write<T>(values: &[T], lines: usize) {
    to_write_at(values.as_ptr().cast(), size_of_val(values).min(lines.saturating_mul(LINE)));
}

/// Prefetches `bytes` bytes of memory at `start`, for writing. Any address is allowed.
#[inline(always)]
pub fn to_write_at(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        for offset in (0..bytes).step_by(LINE) {
            // SAFETY: a prefetch of any address is allowed: it never faults and has no visible
            // effect.
            unsafe { _mm_prefetch::<_MM_HINT_ET0>(start.wrapping_add(offset).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}
