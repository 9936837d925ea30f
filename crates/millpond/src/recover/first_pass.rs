//! The first pass over the log: finds the log's end, and where the last change of each page is.

use super::chunk_queue::{AbandonOnDrop, BoundedQueue, CHUNK_BYTES, CloseOnDrop, LogChunk};
use super::on_demand::redo_table::RedoTable;
use super::undo::Rebuild;
use crate::error::{Error, Result};
use crate::log::LogStart;
use crate::log::block::{PAYLOAD_BYTES, block_start, offset_in_block, round_up};
use crate::log::group::{Record, Records};
use crate::log::reader::{EpochStart, Scanner};
use crate::log::segment::Segments;
use crate::log::unsynced::UnsyncedBlocks;
use crate::page::op::PageOp;
use crate::planted::{Bug, planted};
use base::Lsn;
use base::sync::spawn;
use std::path::PathBuf;
use std::sync::Arc;

/// The most log that may be read and not yet processed, bytes.
pub(super) const READ_AHEAD_BYTES: usize = 8 << 20;
const _: () = assert!(READ_AHEAD_BYTES >= 2 * CHUNK_BYTES, "one is read while another is processed");

/// The result of the first pass.
#[derive(Debug, Default)]
pub(crate) struct LogTail {
    /// The log's end: where its last group ends. Padding may follow, or a block whose first group
    /// was torn. These belong to an epoch that is over: the next epoch begins after them, and its
    /// first block says where this epoch ends.
    pub(crate) end: Lsn,
    /// From here to the end the log is not in the segments, or not whole.
    pub(crate) unsynced_from: Option<Lsn>,
    /// The pages that the log changes.
    pub(crate) pages: RedoTable,
    /// The number of groups that were read.
    pub(crate) groups: u64,
}

/// What one thread builds from the groups while another thread reads the log.
struct FirstPass {
    rebuild: Rebuild,
    undo_from: Lsn,
    tail: LogTail,
    redo_dir: PathBuf,
}

impl FirstPass {
    fn run(mut self, queue: &Arc<BoundedQueue<LogChunk>>) -> Result<(LogTail, Rebuild)> {
        let abandoning = AbandonOnDrop::new(queue);
        while let Some(chunk) = queue.take(0) {
            for (lsn, records) in chunk.groups() {
                self.group(lsn, records)?;
            }
            queue.give_back(chunk);
            self.rebuild.make_room()?;
        }
        abandoning.defuse();
        Ok((self.tail, self.rebuild))
    }

    fn group(&mut self, lsn: Lsn, records: &[u8]) -> Result {
        self.tail.groups += 1;
        let redo_dir = &self.redo_dir;
        let damage = |_| Error::corrupt(redo_dir, format!("the group at LSN {lsn} is not a group"));
        for record in Records::new(records) {
            let record = record.map_err(damage)?;
            if let Record::Page { page, op, .. } = record {
                let op = PageOp::decode(op).map_err(damage)?;
                self.tail.pages.note(page, lsn);
                if lsn >= self.undo_from {
                    self.rebuild.record(lsn, &record, Some(&op))?;
                }
            } else if lsn >= self.undo_from {
                self.rebuild.record(lsn, &record, None)?;
            }
        }
        Ok(())
    }
}

/// The log as the first pass begins.
#[derive(Debug)]
pub(crate) struct LogToRead<'a> {
    pub(crate) segments: &'a Segments,
    /// Log that may go on where that of the segments ends.
    pub(crate) unsynced: Option<&'a UnsyncedBlocks>,
    pub(crate) epochs: &'a [EpochStart],
    /// Where reading begins.
    pub(crate) from: Lsn,
    /// The list of unfinished transactions says all about the log below.
    pub(crate) undo_from: Lsn,
    /// The pages that may lack redo from below `from`.
    pub(crate) listed: RedoTable,
    /// The root knows that the log is durable up to here.
    pub(crate) known: Lsn,
    /// How far log may lie beyond the durable LSN, bytes.
    pub(crate) window: u64,
}

/// Returns the pages that the log changes from `from` to `end`.
pub(crate) fn pages_changed(
    segments: &Segments,
    epochs: &[EpochStart],
    (from, end): (Lsn, Lsn),
) -> Result<RedoTable> {
    let mut scanner = Scanner::new(segments, epochs, from).read_ahead()?;
    let mut pages = RedoTable::default();
    while scanner.position() < end {
        let Some(group) = scanner.next()? else { break };
        for record in Records::new(group.records).flatten() {
            if let Record::Page { page, .. } = record {
                pages.note(page, group.lsn);
            }
        }
    }
    if scanner.position() < end {
        let at = scanner.position();
        return Err(Error::corrupt(
            &segments.dir(),
            format!("the log breaks off at LSN {at}, before its end"),
        ));
    }
    Ok(pages)
}

/// Reads the log to its end and changes nothing. `rebuild` gets every
/// record that the list of unfinished transactions does not cover, and the decoded change of a page
/// record.
pub(crate) fn find_end(log: LogToRead<'_>, rebuild: Rebuild) -> Result<(LogTail, Rebuild)> {
    let LogToRead { segments, unsynced, epochs, from, undo_from, listed, known, window } = log;
    let mut scanner = Scanner::new(segments, epochs, from).and_unsynced(unsynced).read_ahead()?;
    let queue = BoundedQueue::new(1, READ_AHEAD_BYTES / CHUNK_BYTES);
    let first_pass = FirstPass {
        rebuild,
        undo_from,
        tail: LogTail { pages: listed, ..LogTail::default() },
        redo_dir: segments.dir(),
    };
    let theirs = Arc::clone(&queue);
    let other = spawn("millpond-redo", move || first_pass.run(&theirs));
    let other = other.map_err(|e| Error::io("start a thread for", &segments.dir(), e))?;
    let (mut last, mut end) = (from, from);
    let closing = CloseOnDrop(Arc::clone(&queue));
    let mut read = || -> Result {
        loop {
            let mut chunk = queue.spare();
            if !chunk.refill(&mut scanner, Lsn::MAX, usize::MAX)? {
                return Ok(());
            }
            (last, end) = chunk.last();
            if !queue.put(chunk) {
                return Ok(());
            }
        }
    };
    let read = read();
    drop(closing);
    let processed = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    read?;
    let (mut tail, rebuild) = processed?;
    tail.unsynced_from = scanner.segments_end().filter(|segments_end| *segments_end < end);
    scanner.check_end(window, known)?;
    base::check!(from <= last && last <= end, "the log ends at {end}, and is read from {from} on");
    tail.end = if planted(Bug::EndEarly) { last } else { end };
    Ok((tail, rebuild))
}

/// Returns where the log continues, in the epoch after `epochs`, if it ended at `end`.
pub(crate) fn next_epoch_start(end: Lsn, epochs: &[EpochStart]) -> LogStart {
    let used = if offset_in_block(end) == 0 { PAYLOAD_BYTES } else { offset_in_block(end) };
    let last = epochs.last().expect("a root names an epoch");
    // A block of the old epoch must never be taken for one of the new epoch, so the new one begins
    // after it.
    let mut lsn = round_up(end).max(last.first);
    if planted(Bug::EndLate) {
        lsn = lsn.plus(PAYLOAD_BYTES as u64);
    }
    base::check!(
        lsn == block_start(crate::log::block::block_of(lsn)) && lsn >= end,
        "a log goes on at {lsn}"
    );
    base::check!(last.epoch < u32::MAX, "the epochs are used up");
    LogStart { lsn, end, prev_used: used as u16, epoch: last.epoch + 1 }
}
