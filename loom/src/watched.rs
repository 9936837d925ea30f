//! A value that loom watches: who uses it while another may not is found.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Watched {
    value: UnsafeCell<u64>,
    /// A step that others may come before, while the value is in use.
    step: AtomicU32,
}

// SAFETY: a reference to the value lives only in the two functions below, and loom, which runs one thread at a time, ends the
// model when it meets two uses that are not in order or overlap, one of them a change.
unsafe impl Sync for Watched {}
// SAFETY: as above.
unsafe impl Send for Watched {}

impl Watched {
    /// Adds one. Nobody else may be using the value.
    pub(crate) fn change(&self) {
        let value = self.value.get_mut();
        self.step.fetch_add(1, Ordering::Relaxed);
        // SAFETY: nobody else uses it as long as `value` lives, or loom has ended the model.
        unsafe { *value.deref() += 1 };
    }

    /// How often it was changed. Nobody may be changing it.
    pub(crate) fn read(&self) -> u64 {
        let value = self.value.get();
        self.step.fetch_add(1, Ordering::Relaxed);
        // SAFETY: nobody changes it as long as `value` lives, or loom has ended the model.
        unsafe { *value.deref() }
    }
}
