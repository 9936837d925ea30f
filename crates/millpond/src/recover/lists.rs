//! Reads the lists of a checkpoint from the log.

use super::on_demand::redo_table::RedoTable;
use crate::checkpoint::dirty_list::decode_dirty;
use crate::checkpoint::parts::Collector;
use crate::checkpoint::root::{DirtyListAt, Root};
use crate::error::{Error, Result};
use crate::log::group::{Record, Records};
use crate::log::reader::{EpochStart, Scanner};
use crate::log::segment::Segments;
use base::Lsn;

/// The error for a list that begins at `at`.
pub(super) fn damaged_list(segments: &Segments, at: Lsn, what: &str) -> Error {
    Error::corrupt(&segments.dir(), format!("the checkpoint's list at LSN {at}: {what}"))
}

/// Reads the list that begins at `at`. `part` returns the part in a record, if the record is of the
/// wanted kind.
pub(super) fn read_parts(
    segments: &Segments,
    epochs: &[EpochStart],
    at: Lsn,
    part: impl for<'r> Fn(&Record<'r>) -> Option<&'r [u8]>,
) -> Result<Vec<u8>> {
    let damaged = |what: &str| Err(damaged_list(segments, at, what));
    let mut collector = Collector::default();
    let mut scanner = Scanner::new(segments, epochs, at);
    while let Some(group) = scanner.next()? {
        for record in Records::new(group.records) {
            let Ok(record) = record else { return damaged("the group is not a group") };
            let Some(part) = part(&record) else { continue };
            match collector.push(part) {
                Ok(Some(body)) => return Ok(body),
                Ok(None) => {}
                Err(damage) => return damaged(damage.0),
            }
        }
    }
    damaged("it is not there")
}

/// Reads the list of dirty pages that the root names, if it names one, into a table.
pub(crate) fn read_dirty_list(segments: &Segments, root: &Root) -> Result<RedoTable> {
    let mut table = RedoTable::default();
    let Some(DirtyListAt { record, .. }) = root.dirty else { return Ok(table) };
    let body = read_parts(segments, &root.epochs, record, |record| match *record {
        Record::DirtyPages { body } => Some(body),
        _ => None,
    })?;
    decode_dirty(&body, |page, last| table.note(page, last))
        .map_err(|_| damaged_list(segments, record, "it is malformed"))?;
    Ok(table)
}
