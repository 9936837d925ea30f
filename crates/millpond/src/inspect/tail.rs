//! The log from the checkpoint to its end, and how far the `pages` file may be behind it.

use super::db_dir::DbDir;
use crate::checkpoint::root::Root;
use crate::error::{Error, Result};
use crate::log::block::PAYLOAD_BYTES;
use crate::log::group::{Record, Records};
use crate::log::reader::{Group, Scanner};
use crate::log::segment::Segments;
use base::Lsn;

/// The end of the log.
#[derive(Debug)]
pub(super) struct LogTail {
    /// The position after the last group.
    pub(super) end: Lsn,
    pub(super) groups: u64,
    /// Number of records that change a page.
    pub(super) changes: u64,
    /// Why the end may be wrong.
    pub(super) broken: Option<Error>,
}

/// Reads all groups from the checkpoint on, and calls `each` for every one.
pub(super) fn scan_log(
    segments: &Segments,
    root: &Root,
    each: &mut dyn FnMut(&Group<'_>),
) -> Result<LogTail> {
    let mut scanner = Scanner::new(segments, &root.epochs, root.checkpoint);
    let mut tail = LogTail { end: root.checkpoint, groups: 0, changes: 0, broken: None };
    while let Some(group) = scanner.next()? {
        tail.groups += 1;
        tail.end = group.end;
        let records = Records::new(group.records).flatten();
        tail.changes += records.filter(|record| matches!(record, Record::Page { .. })).count() as u64;
        each(&group);
    }
    let window = (root.ring_blocks * PAYLOAD_BYTES) as u64;
    tail.broken = scanner.check_end(window, root.durable).err();
    Ok(tail)
}

/// Returns the first lines of every view of pages: the directory, whether it is in use, and how
/// much redo its `pages` file may lack. Calls `each` for every group of that redo.
pub(super) fn headline(db: &DbDir, root: &Root, each: &mut dyn FnMut(&Group<'_>)) -> String {
    let (dir, sentence) = (db.dir.display(), db.in_use.sentence());
    let lag = match db.segments(root).and_then(|segments| scan_log(&segments, root, each)) {
        Err(error) => {
            format!("The log cannot be read ({error}), so it is unknown how much older the pages file is.")
        }
        Ok(LogTail { broken: Some(error), end, .. }) => format!(
            "The pages file may be older than the log by {} bytes of redo or more: {error}.",
            end.since(root.checkpoint)
        ),
        Ok(LogTail { changes: 0, .. }) => {
            "No page changes stand in the log behind the checkpoint: the pages file has everything."
                .to_owned()
        }
        Ok(tail) => format!(
            "The pages file may be older than the log by {} bytes of redo, {} page changes (checkpoint LSN {} to the \
             log's end at {}).",
            tail.end.since(root.checkpoint),
            tail.changes,
            root.checkpoint,
            tail.end
        ),
    };
    format!("{dir}: {sentence}\n{lag}\n")
}
