//! How many page latches the calling thread holds. A thread that holds one waits for nothing but
//! another latch or a mutex (INV-9): every other wait, and every operation on a file, checks that.
//!
//! Counted where [`VERIFY`] is on: in tests and in the simulator. Room in the
//! log buffer that was taken for a change counts as a latch, because others wait for it too.

use crate::assertions::VERIFY;
use std::cell::Cell;

thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// A loom model runs its threads on one thread of the system.
const COUNTS: bool = VERIFY && !cfg!(loom);

/// Counts one more.
#[inline]
pub fn latch_taken() {
    if COUNTS {
        HELD.with(|held| held.set(held.get() + 1));
    }
}

/// Counts one less. REQUIRES: the calling thread has counted it.
#[inline]
pub fn latch_released() {
    if COUNTS {
        // A thread that panics may end while it holds one.
        let _ = HELD.try_with(|held| {
            assert!(held.get() > 0 || std::thread::panicking(), "another thread releases a latch");
            held.set(held.get().saturating_sub(1));
        });
    }
}

/// Checks that the calling thread may wait, or use a file: it holds no latch.
#[inline]
#[track_caller]
pub fn holds_no_latch() {
    if COUNTS {
        let held = HELD.try_with(Cell::get).unwrap_or(0);
        assert!(held == 0 || std::thread::panicking(), "a thread waits and holds {held} latches (INV-9)");
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::{Condvar, Mutex, Parker};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    #[test]
    fn each_wait_finds_the_latch_that_is_held() {
        let short = Duration::from_micros(1);
        let parks = || assert!(!Parker::new().park_for(short));
        let waits = || _ = Condvar::new().wait_for(&mut Mutex::new(()).lock(), short);
        for wait in [&parks as &dyn Fn(), &waits, &holds_no_latch] {
            wait();
            latch_taken();
            latch_taken();
            latch_released();
            let found = catch_unwind(AssertUnwindSafe(wait)).unwrap_err();
            let said = found.downcast_ref::<String>().unwrap();
            assert!(said.contains("holds 1 latches (INV-9)"), "{said}");
            latch_released();
            wait();
        }
    }

    #[test]
    #[should_panic(expected = "another thread releases a latch")]
    fn a_thread_releases_what_it_holds() {
        latch_released();
    }
}
