//! Logs records that change no page: how transactions end, what a checkpoint lists, counters and
//! bookmarks.

use crate::log::Log;
use crate::log::group::{self, Record};
use base::Lsn;
use std::cell::RefCell;

/// Logs a record that changes no page, and returns its LSN. `stamp` gets the LSN before any other
/// thread can find the record.
pub(super) fn log_record(log: &Log, record: &Record<'_>, stamp: impl FnOnce(Lsn)) -> Lsn {
    log_group(log, |bytes| group::put_record(bytes, record), stamp)
}

/// Logs the records that `put` appends, as [`log_record`] does.
pub(super) fn log_group(log: &Log, put: impl FnOnce(&mut Vec<u8>), stamp: impl FnOnce(Lsn)) -> Lsn {
    thread_local! {
        /// The buffer of this thread's last record.
        static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let mut bytes = SPARE.try_with(RefCell::take).unwrap_or_default();
    group::begin(&mut bytes);
    put(&mut bytes);
    let lsn = log.append(&mut bytes, stamp);
    let _ = SPARE.try_with(|spare| spare.replace(bytes));
    lsn
}
