//! A value that loom watches: loom finds a thread that uses it while it must not.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};

/// A counter that loom checks for conflicting uses.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    value: UnsafeCell<u64>,
    /// Touched while the value is in use, so that another thread may run at this point.
    step: AtomicU32,
}

// SAFETY: a reference to the value lives only in the two functions below. Loom runs one thread at a
// time, and ends the model if two uses are not ordered or overlap and one of them is a change.
unsafe impl Sync for Watched {}
// SAFETY: as above.
unsafe impl Send for Watched {}

impl Watched {
    /// Adds one. REQUIRES: no other thread is using the value.
    pub(crate) fn change(&self) {
        let value = self.value.get_mut();
        self.step.fetch_add(1, Ordering::Relaxed);
        // SAFETY: no other thread uses it while `value` lives, or loom has ended the model.
        unsafe { *value.deref() += 1 };
    }

    /// Returns how often it was changed. REQUIRES: no thread is changing it.
    pub(crate) fn read(&self) -> u64 {
        let value = self.value.get();
        self.step.fetch_add(1, Ordering::Relaxed);
        // SAFETY: no thread changes it while `value` lives, or loom has ended the model.
        unsafe { *value.deref() }
    }
}
