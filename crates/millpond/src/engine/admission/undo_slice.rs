//! [`UndoSlice`]: how much redo rollback and purge may still write before their next pause.

use base::sync::atomic::{AtomicU64, Ordering};
use pace::constants::UNDO_SLICE_BYTES;

/// The bytes that are left of the current slice.
#[derive(Debug, Default)]
pub(super) struct UndoSlice(AtomicU64);

impl UndoSlice {
    /// Takes `bytes` from the slice, or the rest if it is less. Returns false if nothing is left.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let left = |left: u64| (left > 0).then(|| left.saturating_sub(bytes));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
    }

    /// Begins the next slice.
    pub(super) fn begin(&self) {
        self.0.store(UNDO_SLICE_BYTES, Ordering::Relaxed);
    }
}
