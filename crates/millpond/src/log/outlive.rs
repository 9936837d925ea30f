//! Commits that outlive the process: the published log is copied into the file `unsynced`.

use super::block::BLOCK_BYTES;
use super::commit::{Copied, GroupCommit};
use super::scratch::Scratch;
use super::segment::write_zeros;
use super::stamp::BlockStamp;
use super::unsynced::NAME;
use crate::environment::Environment;
use crate::error::Result;
use crate::planted::{Bug, planted};
use base::Lsn;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, spin};
use metrics::{M, SyncReason};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{Create, File, OpenMode, SharedBytes};

/// The file `unsynced` of a log that is open.
pub(super) struct Unsynced {
    /// Its disk goes on after a failed write: one of this file does not end the log.
    environment: Environment,
    path: PathBuf,
    /// Blocks in the file, as many as in the log buffer.
    blocks: u64,
    stamp: BlockStamp,
    /// Everything below it outlives the process. It may lie below the durable LSN.
    written: AtomicU64,
    writer: Mutex<Writer>,
}

/// What the thread uses that writes.
enum Writer {
    /// Nothing has been written yet.
    Unused,
    Open(UnsyncedFile, Scratch),
    /// The disk has refused a write. Commits are synced from then on.
    Refused,
}

/// The open file: as memory where the disk allows that.
enum UnsyncedFile {
    Mapped(Box<dyn SharedBytes>),
    Plain(Arc<dyn File>),
}

impl UnsyncedFile {
    fn write(&mut self, bytes: &[u8], offset: usize) -> io::Result<()> {
        match self {
            UnsyncedFile::Mapped(memory) => memory.write(bytes, offset),
            UnsyncedFile::Plain(file) => file.write_at(bytes, offset as u64)?,
        }
        Ok(())
    }
}

impl Unsynced {
    /// A file in `dir`, which is made when it is needed, for a log with a buffer of `blocks` blocks
    /// that continues at `start`.
    pub(super) fn new(
        environment: Environment,
        dir: &Path,
        blocks: u64,
        stamp: BlockStamp,
        start: Lsn,
    ) -> Unsynced {
        let (path, written) = (dir.join(NAME), AtomicU64::new(start.0));
        Unsynced { environment, path, blocks, stamp, written, writer: Mutex::new(Writer::Unused) }
    }

    /// Returns when the group at `lsn` outlives the process. It is not durable: a power cut may
    /// take it. If the file cannot be written, it syncs the log, for the given reason. An error if
    /// the log has failed. REQUIRES: the group has been appended; no latch is held.
    pub(super) fn outlive(&self, log: &GroupCommit, lsn: Lsn, reason: SyncReason) -> Result {
        let outlives = || self.written.load(Ordering::Acquire) > lsn.0 || log.buffer().durable() > lsn;
        if outlives() || planted(Bug::WrittenNotAwaited) {
            return Ok(());
        }
        let mut spins = 0;
        while log.buffer().published() <= lsn {
            self.environment.poison.check()?;
            base::check!(lsn < log.buffer().reserved(), "nothing has been appended at LSN {lsn}");
            spin(&mut spins);
        }
        // Those who wait here find their groups written by the thread before them.
        let mut writer = self.writer.lock();
        while !outlives() {
            self.environment.poison.check()?;
            let written = match &mut *writer {
                Writer::Unused => self.open().map(|file| *writer = Writer::Open(file, Scratch::new())),
                Writer::Open(file, scratch) => self.write(log, file, scratch),
                Writer::Refused => {
                    drop(writer);
                    return log.flush_to(lsn, reason).map(drop);
                }
            };
            if written.is_err() {
                *writer = Writer::Refused;
            }
        }
        Ok(())
    }

    /// Opens the file. All of it is written here, so that a full disk is seen now.
    fn open(&self) -> io::Result<UnsyncedFile> {
        let mode = OpenMode { create: Create::IfMissing, direct: false, read_only: false };
        let file = self.environment.vfs.disk.open(&self.path, mode)?;
        let bytes = self.blocks * BLOCK_BYTES as u64;
        if file.len()? < bytes {
            write_zeros(&*file, bytes)?;
        }
        let mapped = file.map(bytes as usize);
        Ok(mapped.map_or(UnsyncedFile::Plain(file), UnsyncedFile::Mapped))
    }

    /// Writes published blocks that do not outlive the process yet.
    fn write(&self, log: &GroupCommit, file: &mut UnsyncedFile, scratch: &mut Scratch) -> io::Result<()> {
        let written = Lsn(self.written.load(Ordering::Relaxed));
        let Copied { first, count, to } = log.copy_published(written, &self.stamp, scratch);
        let bytes = scratch.blocks(count);
        let at = first % self.blocks;
        let (before, after) = bytes.split_at((self.blocks - at).min(count) as usize * BLOCK_BYTES);
        file.write(before, at as usize * BLOCK_BYTES)?;
        if !after.is_empty() {
            file.write(after, 0)?;
        }
        base::check!(written <= to, "what outlives the process goes back from {written} to {to}");
        self.written.store(to.0, Ordering::Release);
        self.environment.metrics.add(M::LogUnsyncedWrites, 1);
        Ok(())
    }
}
