//! The log moves to another directory while it is written. New segments are made there. A segment
//! that no flush has used yet is replaced by one there; the others stay where they are until the
//! checkpoint has passed them.
//!
//! INV-32: no flush uses a segment from the moment when its replacement begins to be made until the
//! replacement is durable under its name. So where a crash leaves two files with one number, the
//! one in the directory of now counts, and nothing was ever written into the other.

use super::{FilesLock, SPARE_SEGMENTS, Segment, Segments, write_zeros};
use crate::error::{Error, Result};
use crate::log::block::block_of;
use crate::planted::{Bug, planted};
use crate::role;
use base::Lsn;
use base::sync::atomic::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::{Create, OpenMode, Vfs};

impl Segments {
    /// Makes files of zeros in `dir`, as many as there are segments, which become segments once the
    /// log has moved there. So a full disk is noticed before it moves. `vfs` is one on which a
    /// failure stops nothing.
    pub(crate) fn draft_in(&self, vfs: &Vfs, dir: &Path) -> Result<Vec<PathBuf>> {
        let mut drafts = Vec::new();
        for n in 0..self.count() {
            let draft = dir.join(format!("moved-{n:04x}.new"));
            drafts.push(draft.clone());
            let mode = OpenMode { create: Create::IfMissing, direct: true, read_only: false };
            let made = vfs.disk.open(&draft, mode).and_then(|file| {
                write_zeros(&*file, self.shape.file_bytes())?;
                file.sync()
            });
            if let Err(error) = made {
                remove_drafts(vfs, drafts);
                return Err(Error::io("create", &draft, error));
            }
        }
        Ok(drafts)
    }

    /// Makes segments in `dir` from now on. REQUIRES: the root names `dir` durably.
    pub(crate) fn move_to(&self, dir: &Path, drafts: Vec<PathBuf>) {
        let _lock = self.files_lock.lock();
        let before = {
            let mut target = self.target.lock();
            target.dir = dir.to_owned();
            std::mem::replace(&mut target.drafts, drafts)
        };
        remove_drafts(&self.vfs, before);
    }

    /// Replaces the segments in other directories that no flush has used. `writing` returns the end
    /// of what has been reserved in the log. After an error that may pass the rest stays.
    pub(crate) fn replace_unused(&self, writing: impl Fn() -> Lsn) -> Result {
        loop {
            let lock = self.files_lock.lock();
            let dir = self.dir();
            let old = {
                let ready = self.ready.lock();
                // A flush that uses a segment found it under this mutex, below what was reserved
                // then.
                let written = self.shape.segment_of(block_of(writing()));
                let first = if planted(Bug::ReplacedInUse) { written } else { written + SPARE_SEGMENTS + 1 };
                let mut unused = ready.range(first..).map(|(_, segment)| segment);
                let Some(old) = unused.find(|old| old.path.parent() != Some(&dir)).cloned() else {
                    return Ok(());
                };
                self.replacing.store(old.number, Ordering::Relaxed);
                old
            };
            let made = self.make(&lock, old.number, role::callers());
            if made.is_err() {
                let _ready = self.ready.lock();
                self.replacing.store(u64::MAX, Ordering::Relaxed);
            }
            made?;
            self.remove_file(&old)?;
        }
    }

    /// Whether the segment that holds `lsn`, or a later one, is in `dir`.
    pub(crate) fn reaches_in(&self, dir: &Path, lsn: Lsn) -> bool {
        let first = self.shape.segment_of(block_of(lsn));
        self.ready.lock().range(first..).any(|(_, segment)| segment.path.parent() == Some(dir))
    }

    /// Makes segment `number` in the directory of now, and removes `old`, which is in another one
    /// and is not ready any more. Returns false if there is nothing to move or no space for it.
    pub(super) fn recycle_elsewhere(
        &self,
        lock: &FilesLock<'_>,
        old: &Arc<Segment>,
        number: u64,
    ) -> Result<bool> {
        if old.path.parent() == Some(&self.dir()) {
            return Ok(false);
        }
        match self.make(lock, number, role::callers()) {
            Ok(_) => self.remove_file(old).map(|()| true),
            // The old file has its space: the log goes on in it, and moves later.
            Err(error) if error.may_pass() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn remove_file(&self, segment: &Segment) -> Result {
        self.vfs.disk.remove(&segment.path).map_err(|e| Error::io("remove", &segment.path, e))
    }

    /// Removes the files that were made before the log moved and were not needed.
    pub(crate) fn drop_drafts(&self) {
        let drafts = std::mem::take(&mut self.target.lock().drafts);
        remove_drafts(&self.vfs, drafts);
    }

    /// Returns how many ready segments are in `dir`.
    pub(crate) fn count_in(&self, dir: &Path) -> usize {
        self.ready.lock().values().filter(|segment| segment.path.parent() == Some(dir)).count()
    }

    /// Removes what a crash during a move has left in `dirs`: files that were replaced, and drafts.
    pub(crate) fn remove_strays(&self, dirs: &[&Path]) -> Result {
        for path in &self.strays {
            self.vfs.disk.remove(path).map_err(|e| Error::io("remove", path, e))?;
        }
        for dir in dirs {
            let names = self.vfs.disk.list(dir).map_err(|e| Error::io("list", dir, e))?;
            remove_drafts(&self.vfs, names.iter().filter(|name| is_draft(name)).map(|name| dir.join(name)));
        }
        Ok(())
    }
}

/// Whether a move has made a file of this name before it began.
fn is_draft(name: &str) -> bool {
    name.starts_with("moved-") && name.ends_with(".new")
}

/// Removes files that are no part of the log. An error does not matter: they are removed at the
/// next open, or used by the next move.
pub(crate) fn remove_drafts(vfs: &Vfs, drafts: impl IntoIterator<Item = PathBuf>) {
    for draft in drafts {
        let _ = vfs.disk.remove(&draft);
    }
}
