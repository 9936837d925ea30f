//! Commits that outlive the process: the published log is copied into the file `unsynced`.

use super::Log;
use super::block::{BLOCK_BYTES, BlockHeader, block_of, block_start};
use super::scratch::{GATHER_BLOCKS, Scratch};
use super::unsynced::{Unsynced, UnsyncedFile, Writer};
use crate::error::Result;
use crate::planted::{Bug, planted};
use base::Lsn;
use base::sync::atomic::Ordering;
use base::sync::spin;
use metrics::{M, SyncReason};
use std::io;

/// Published blocks in a scratch buffer.
struct Copied {
    first: u64,
    count: u64,
    /// Where the log ends that they hold.
    to: Lsn,
}

impl Log {
    /// Returns when the group at `lsn` outlives the process. It is not durable: a power cut may
    /// take it. If the file cannot be written, it syncs the log, for the given reason. An error if
    /// the log has failed. REQUIRES: the group has been appended; no latch is held.
    pub(crate) fn outlive(&self, lsn: Lsn, reason: SyncReason) -> Result {
        let Some(unsynced) = &self.unsynced else { return Ok(()) };
        let outlives = || unsynced.written.load(Ordering::Acquire) > lsn.0 || self.durable_lsn() > lsn;
        if outlives() || planted(Bug::WrittenNotAwaited) {
            return Ok(());
        }
        let mut turn = 0;
        while self.ring.published() <= lsn {
            self.poison.check()?;
            base::check!(lsn < self.reserved_lsn(), "nothing has been appended at LSN {lsn}");
            spin(&mut turn);
        }
        // Those who wait here find their groups written by the thread before them.
        let mut writer = unsynced.writer.lock();
        while !outlives() {
            self.poison.check()?;
            let written = match &mut *writer {
                Writer::Unused => unsynced.open(self.options.ring_blocks as u64).map(|file| {
                    *writer = Writer::Open(file, Scratch::new());
                }),
                Writer::Open(file, scratch) => self.write_unsynced(unsynced, file, scratch),
                Writer::Refused => {
                    drop(writer);
                    return self.flush_to(lsn, reason).map(drop);
                }
            };
            if written.is_err() {
                *writer = Writer::Refused;
            }
        }
        Ok(())
    }

    /// Writes published blocks that do not outlive the process yet.
    fn write_unsynced(
        &self,
        unsynced: &Unsynced,
        file: &mut UnsyncedFile,
        scratch: &mut Scratch,
    ) -> io::Result<()> {
        let ring_blocks = self.options.ring_blocks as u64;
        let written = Lsn(unsynced.written.load(Ordering::Relaxed));
        let Copied { first, count, to } = self.copy_published(written, scratch);
        let bytes = scratch.blocks(count);
        let place = first % ring_blocks;
        let (before, behind) = bytes.split_at((ring_blocks - place).min(count) as usize * BLOCK_BYTES);
        file.write(before, place as usize * BLOCK_BYTES)?;
        if !behind.is_empty() {
            file.write(behind, 0)?;
        }
        unsynced.written.store(to.0, Ordering::Release);
        self.metrics.add(M::LogUnsyncedWrites, 1);
        Ok(())
    }

    /// Copies published blocks from `written` on, or from the durable LSN on if that is higher.
    fn copy_published(&self, written: Lsn, scratch: &mut Scratch) -> Copied {
        // The durable LSN moves under this mutex only. So the log buffer does not give the blocks
        // from there on to other positions meanwhile.
        let state = self.flush.lock();
        let from = written.max(self.durable_lsn());
        let to = self.ring.published();
        base::check!(from <= to, "the log is published up to {to} and outlives the process up to {from}");
        let first = block_of(from);
        let last = block_of(Lsn(to.0.saturating_sub(1))).clamp(first, first + GATHER_BLOCKS - 1);
        let to = to.min(block_start(last + 1));
        let durable = self.durable_for_blocks();
        for block in first..=last {
            let header = BlockHeader {
                db_id: self.segments.shape().db_id,
                number: block,
                epoch: self.epoch,
                prev_used: state.prev_used(block),
                durable,
            };
            header.encode(self.gather(block, to, scratch, (block - first) as usize));
        }
        Copied { first, count: last - first + 1, to }
    }
}
