//! Gives freed memory back to the operating system.
#![allow(unsafe_code)]

/// Gives back the memory that the process has freed and that its allocator still keeps. Returns
/// whether the allocator can do this: of the known ones, only glibc's can.
///
/// The call looks at the free memory of the whole process. It takes longer the more there is, and
/// other threads may have to wait for an allocation meanwhile. If the program has chosen another
/// allocator, the call finds almost nothing, and does no harm.
pub fn give_back() -> bool {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: the function takes no pointer. It may be called by any thread at any time: it
        // locks each heap while it works on it, and changes only memory that is free. Memory of
        // another allocator is not in these heaps.
        unsafe { libc::malloc_trim(0) };
        true
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    false
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_in_use_is_not_touched() {
        let parts: Vec<Vec<u8>> = (0..2000).map(|n| vec![n as u8; 5000]).collect();
        let kept: Vec<Vec<u8>> =
            parts.into_iter().enumerate().filter(|(n, _)| n % 7 == 0).map(|(_, part)| part).collect();
        let can = super::give_back();
        assert_eq!(can, cfg!(all(target_os = "linux", target_env = "gnu")));
        for (n, part) in kept.iter().enumerate() {
            assert!(part.iter().all(|byte| *byte == (7 * n) as u8));
        }
    }
}
