//! Follows the log from an LSN on, mini-transaction by mini-transaction.

use super::logfile::LogFile;
use super::mtr::{END_BYTES, Found, LONGEST, find};
use super::tally::{Pages, Tally};
use output::failure::{Failure, Outcome};

/// The first read at a position. Bytes.
const FIRST_READ: usize = 64 << 10;
/// The longest read: it holds a whole mini-transaction, wherever it begins.
const LONGEST_READ: usize = 4 * LONGEST;

/// A reader of the log, with what it has counted.
pub(super) struct Follower {
    log: LogFile,
    /// What is read up to here.
    pub(super) lsn: u64,
    pub(super) tally: Tally,
    /// Where counting began.
    pub(super) from_lsn: u64,
    /// Bytes that were overwritten before they could be read.
    pub(super) missed: u64,
    buffer: Vec<u8>,
}

impl Follower {
    /// Begins at the last checkpoint.
    pub(super) fn new(log: LogFile) -> Outcome<Follower> {
        let Some(lsn) = log.head.checkpoint else {
            return Err(Failure::failed(format!(
                "the log of {} has no whole checkpoint: it is damaged, or the server is making it",
                log.head.creator
            )));
        };
        let tally = Tally::default();
        Ok(Follower { log, lsn, tally, from_lsn: lsn, missed: 0, buffer: Vec::new() })
    }

    /// Returns what wrote the log.
    pub(super) fn creator(&self) -> &str {
        &self.log.head.creator
    }

    /// Begins to count here.
    pub(super) fn begin(&mut self) {
        self.tally.begin();
        (self.from_lsn, self.missed) = (self.lsn, 0);
    }

    /// Reads up to the end of the log, or until `enough` says so between two reads.
    pub(super) fn catch_up(&mut self, pages: &mut dyn Pages, enough: &dyn Fn() -> bool) -> Outcome {
        let mut want = FIRST_READ;
        loop {
            self.log.refresh()?;
            // What is below a checkpoint was whole in the file before the checkpoint was written.
            let checkpoint = self.log.head.checkpoint.unwrap_or(0);
            self.log.read(self.lsn, want, &mut self.buffer)?;
            let before = self.lsn;
            let cut = self.take(pages);
            if self.lsn > before {
                if enough() {
                    return Ok(());
                }
                want = if cut { LONGEST_READ } else { FIRST_READ };
            } else if cut && want < LONGEST_READ {
                want = LONGEST_READ;
            } else if checkpoint > self.lsn {
                self.missed += checkpoint - self.lsn;
                self.lsn = checkpoint;
            } else if self.log.ring.first_lsn > self.lsn {
                self.missed += self.log.ring.first_lsn - self.lsn;
                self.lsn = self.log.ring.first_lsn;
            } else {
                return Ok(());
            }
        }
    }

    /// Counts what the buffer holds of whole mini-transactions. Returns whether the rest is cut.
    fn take(&mut self, pages: &mut dyn Pages) -> bool {
        let mut rest = self.buffer.as_slice();
        let ring = self.log.ring;
        loop {
            let lsn = self.lsn;
            match find(rest, |at| ring.lap_at(lsn.saturating_add(at as u64))) {
                Found::Whole(records) => {
                    self.tally.add(records, pages);
                    let length = records.len() + END_BYTES;
                    rest = &rest[length..];
                    self.lsn += length as u64;
                }
                Found::Cut => return true,
                Found::End => return false,
            }
        }
    }
}
