//! The first pass over the log: finds the log's end, and which pages redo builds without an old
//! image.

use super::chunk_queue::{AbandonOnDrop, BoundedQueue, EndOnDrop, LogChunk};
use super::txn_table::TxnTable;
use super::undo::Rebuild;
use crate::error::{Error, Result};
use crate::flush::restore::PageRedo;
use crate::log::LogStart;
use crate::log::block::{PAYLOAD_BYTES, block_start, offset_in_block, round_up};
use crate::log::group::{Record, Records};
use crate::log::reader::{EpochStart, Scanner};
use crate::log::segment::Segments;
use crate::page::op::PageOp;
use crate::planted::{Bug, planted};
use base::sync::spawn;
use base::{Lsn, PageNo};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

const CHUNK_PAGES: usize = 4096;

/// The most log that may be read and not yet processed, bytes.
pub(super) const READ_AHEAD_BYTES: usize = 8 << 20;

/// What redo has for a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RedoOfPage {
    /// Nothing.
    #[default]
    None,
    /// Only changes: the image before them is needed.
    ChangesOnly,
    /// A record that makes it anew, and all that follows: no old image is needed.
    MakesAnew,
}

/// The result of the first pass.
#[derive(Debug, Default)]
pub(crate) struct LogTail {
    /// The log's end: where its last group ends. Padding may follow, or a block whose first group
    /// was torn. These belong to an epoch that is over: the next epoch begins behind them, and its
    /// first block says where this epoch ends.
    pub(crate) end: Lsn,
    /// By page number, in chunks, because page numbers are dense.
    known: BTreeMap<u32, Box<[RedoOfPage; CHUNK_PAGES]>>,
    /// What redo has for the pages that the caller asked about.
    pub(crate) asked: BTreeMap<PageNo, PageRedo>,
    /// The number of groups from the checkpoint on.
    pub(crate) groups: u64,
}

impl LogTail {
    fn known(&mut self, page: PageNo) -> &mut RedoOfPage {
        let (chunk, at) = (page.0 / CHUNK_PAGES as u32, page.0 as usize % CHUNK_PAGES);
        &mut self.known.entry(chunk).or_insert_with(|| Box::new([RedoOfPage::None; CHUNK_PAGES]))[at]
    }

    fn changed(&mut self, page: PageNo, before: u64) {
        let known = self.known(page);
        if *known == RedoOfPage::None {
            *known = RedoOfPage::ChangesOnly;
            if let Some(redo) = self.asked.get_mut(&page) {
                redo.before = Some(before);
            }
        }
    }

    fn made(&mut self, page: PageNo) {
        *self.known(page) = RedoOfPage::MakesAnew;
    }

    /// Returns the pages that redo makes anew, so that no old image is needed.
    pub(crate) fn made_anew(&self) -> impl Iterator<Item = PageNo> {
        let all = self.known.iter().flat_map(|(chunk, pages)| {
            pages
                .iter()
                .enumerate()
                .map(move |(at, known)| (PageNo(chunk * CHUNK_PAGES as u32 + at as u32), known))
        });
        all.filter(|(_, known)| **known == RedoOfPage::MakesAnew).map(|(page, _)| page)
    }
}

/// What one thread builds from the groups while another thread reads the log.
struct FirstPass {
    rebuild: Rebuild,
    txn_table: TxnTable,
    tail: LogTail,
    redo_dir: PathBuf,
}

impl FirstPass {
    fn run(mut self, queue: &Arc<BoundedQueue<LogChunk>>) -> Result<(LogTail, Rebuild, TxnTable)> {
        let abandoning = AbandonOnDrop::new(queue);
        while let Some(chunk) = queue.take(0) {
            for (lsn, records) in chunk.groups() {
                self.group(lsn, records)?;
            }
            queue.give_back(chunk);
            self.rebuild.make_room()?;
        }
        abandoning.defuse();
        Ok((self.tail, self.rebuild, self.txn_table))
    }

    fn group(&mut self, lsn: Lsn, records: &[u8]) -> Result {
        self.tail.groups += 1;
        let redo_dir = &self.redo_dir;
        let damage = |_| Error::corrupt(redo_dir, format!("the group at LSN {lsn} is not a group"));
        for record in Records::new(records) {
            let record = record.map_err(damage)?;
            if let Record::Page { page, prev, op } = record {
                let op = PageOp::decode(op).map_err(damage)?;
                if op.is_init() {
                    self.tail.made(page);
                } else {
                    self.tail.changed(page, prev);
                }
                self.rebuild.record(lsn, &record, Some(&op))?;
                self.txn_table.record(lsn, &record, Some(&op)).map_err(damage)?;
            } else {
                self.rebuild.record(lsn, &record, None)?;
                self.txn_table.record(lsn, &record, None).map_err(damage)?;
            }
        }
        Ok(())
    }
}

/// The log as the first pass begins.
#[derive(Debug)]
pub(crate) struct LogToRead<'a> {
    pub(crate) segments: &'a Segments,
    pub(crate) epochs: &'a [EpochStart],
    /// The checkpoint LSN, where reading begins.
    pub(crate) checkpoint: Lsn,
    /// The root knows that the log is durable up to here.
    pub(crate) known: Lsn,
    /// How far log may lie beyond the durable LSN, bytes.
    pub(crate) window: u64,
    /// Pages for which the result is to say what redo has.
    pub(crate) asked: BTreeMap<PageNo, PageRedo>,
}

/// Reads the log from the checkpoint to its end and changes nothing. `rebuild` and `txn_table` get
/// every record, and the decoded change of a page record.
pub(crate) fn find_end(
    log: LogToRead<'_>,
    rebuild: Rebuild,
    txn_table: TxnTable,
) -> Result<(LogTail, Rebuild, TxnTable)> {
    let LogToRead { segments, epochs, checkpoint, known, window, asked } = log;
    let mut scanner = Scanner::new(segments, epochs, checkpoint).read_ahead()?;
    let queue = BoundedQueue::new(1, READ_AHEAD_BYTES);
    let first_pass = FirstPass {
        rebuild,
        txn_table,
        tail: LogTail { asked, ..LogTail::default() },
        redo_dir: segments.dir().to_owned(),
    };
    let theirs = Arc::clone(&queue);
    let other = spawn("millpond-redo", move || first_pass.run(&theirs));
    let other = other.map_err(|e| Error::io("start a thread for", segments.dir(), e))?;
    let (mut last, mut end) = (checkpoint, checkpoint);
    let ending = EndOnDrop(Arc::clone(&queue));
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
    drop(ending);
    let digested = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    read?;
    let (mut tail, rebuild, mut txn_table) = digested?;
    scanner.check_end(window, known)?;
    base::check!(
        checkpoint <= last && last <= end,
        "the log ends at {end}, before the checkpoint {checkpoint}"
    );
    tail.end = if planted(Bug::EndEarly) { last } else { end };
    txn_table.cut_off();
    Ok((tail, rebuild, txn_table))
}

/// Returns where the log continues, in the epoch after `epochs`, if it ended at `end`.
pub(crate) fn next_epoch_start(end: Lsn, epochs: &[EpochStart]) -> LogStart {
    let used = if offset_in_block(end) == 0 { PAYLOAD_BYTES } else { offset_in_block(end) };
    let last = epochs.last().expect("a root names an epoch");
    // A block of the old epoch must never be taken for one of the new epoch, so the new one begins
    // behind it.
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
