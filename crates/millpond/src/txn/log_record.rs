//! Logs records that change no page: how transactions end, what a checkpoint lists, counters and
//! bookmarks.

use crate::log::group::{self, Record};
use crate::log::{Log, Room};
use base::Lsn;
use std::cell::RefCell;

/// Logs a record that changes no page, and returns its LSN. `stamp` gets the LSN before any other
/// thread can find the record.
pub(super) fn log_record(log: &Log, record: &Record<'_>, stamp: impl FnOnce(Lsn)) -> Lsn {
    with_group(|bytes| group::put_record(bytes, record), |group| log.append(group, stamp))
}

/// Logs the records that `put` appends, as [`log_record`] does, in room that was taken for them.
pub(super) fn log_in(
    log: &Log,
    room: Room<'_>,
    put: impl FnOnce(&mut Vec<u8>),
    stamp: impl FnOnce(Lsn),
) -> Lsn {
    with_group(put, |group| log.append_in(room, group, stamp))
}

/// Returns what `append` does with a group of the records that `put` appends.
fn with_group(put: impl FnOnce(&mut Vec<u8>), append: impl FnOnce(&mut [u8]) -> Lsn) -> Lsn {
    thread_local! {
        /// The buffer of this thread's last record.
        static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let mut bytes = SPARE.try_with(RefCell::take).unwrap_or_default();
    group::begin(&mut bytes);
    put(&mut bytes);
    let lsn = append(&mut bytes);
    let _ = SPARE.try_with(|spare| spare.replace(bytes));
    lsn
}
