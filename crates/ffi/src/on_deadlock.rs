//! Whoever is told of each deadlock, with its context.

use std::ffi::c_void;

/// Is told of a deadlock: its number, and the tags of its members. It must not call the database.
pub type OnDeadlockFn =
    Option<unsafe extern "C" fn(context: *mut c_void, number: u64, tags: *const u64, count: usize)>;

/// Whoever is told of deadlocks.
pub(crate) struct DeadlockListener {
    pub(crate) function: unsafe extern "C" fn(*mut c_void, u64, *const u64, usize),
    pub(crate) context: *mut c_void,
}

// SAFETY: whoever sets the function guarantees that any thread may call it with its context.
unsafe impl Send for DeadlockListener {}
// SAFETY: as above.
unsafe impl Sync for DeadlockListener {}

impl DeadlockListener {
    /// Tells it of a deadlock.
    pub(crate) fn tell(&self, number: u64, tags: &[u64]) {
        // SAFETY: as above; the tags live during the call.
        unsafe { (self.function)(self.context, number, tags.as_ptr(), tags.len()) }
    }
}
