//! The ballast: space that is kept for hardening undo. A full disk must not stop hardening,
//! because the checkpoint cannot move without it.
//!
//! The ballast is a file of zeros beside the undo files. When a write of undo finds the disk full,
//! the ballast is *spent*: the file is removed, and its space is free for the write. The ballast
//! must be *held* again before `pages` grows again (INV-27), so growth cannot take the space that
//! was freed.

use crate::error::{Error, Result};
use base::aligned::AlignedBuf;
use base::sync::Mutex;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use vfs::{Create, OpenMode, Vfs};

/// The name of the file. Files of earlier versions have it, so it stays.
const NAME: &str = "reserve";
/// Its least size, bytes: the header of an undo file and a batch.
const LEAST_BYTES: u64 = 8192;

/// The ballast of an open database.
#[derive(Debug)]
pub(crate) struct Ballast {
    vfs: Vfs,
    path: PathBuf,
    bytes: u64,
    /// Whether the file exists and is whole. Locked during its I/O.
    held: Mutex<bool>,
}

impl Ballast {
    /// Looks for the ballast in `dir`. Its size is a quarter of a log segment. That is twice the
    /// undo that a checkpoint has to harden: the checkpoint can move each time that an eighth of a
    /// segment has been written (`pace::checkpoint`), and undo is no longer than the redo that
    /// holds it.
    pub(crate) fn open(vfs: &Vfs, dir: &Path, segment_bytes: u64) -> Result<Ballast> {
        let (path, bytes) = (dir.join(NAME), (segment_bytes / 4).max(LEAST_BYTES));
        let mode = OpenMode { create: Create::Never, direct: false, read_only: true };
        let len = match vfs.disk.open(&path, mode).and_then(|file| file.len()) {
            Ok(len) => len,
            Err(e) if e.kind() == ErrorKind::NotFound => 0,
            Err(e) => return Err(Error::io("open", &path, e)),
        };
        Ok(Ballast { vfs: vfs.clone(), path, bytes, held: Mutex::new(len >= bytes) })
    }

    /// Makes the file unless it exists. An error if the disk is full.
    pub(crate) fn hold(&self) -> Result {
        let mut held = self.held.lock();
        if *held {
            return Ok(());
        }
        if let Err(error) = self.write() {
            // The part that was written must not take space from others.
            let _ = self.vfs.disk.remove(&self.path);
            return Err(Error::io("write", &self.path, error));
        }
        *held = true;
        Ok(())
    }

    /// Not synced. If a power cut leaves a part of the file, the missing part is free space on the
    /// disk.
    fn write(&self) -> io::Result<()> {
        let mode = OpenMode { create: Create::IfMissing, direct: false, read_only: false };
        let file = self.vfs.disk.open(&self.path, mode)?;
        file.write_at(&AlignedBuf::zeroed(self.bytes as usize), 0)
    }

    /// Whether the ballast is held.
    pub(crate) fn is_held(&self) -> bool {
        *self.held.lock()
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Frees the space for a write that has found the disk full. False if the ballast is not held.
    pub(crate) fn spend(&self) -> bool {
        std::mem::take(&mut *self.held.lock()) && self.vfs.disk.remove(&self.path).is_ok()
    }

    /// A ballast for a test.
    #[cfg(test)]
    pub(crate) fn of(vfs: &Vfs, dir: &Path) -> Ballast {
        Ballast::open(vfs, dir, 0).expect("a missing file is no ballast")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::mem::MemDisk;

    #[test]
    fn a_ballast_is_held_again_after_it_was_spent_and_survives_an_open() {
        let disk = MemDisk::default();
        let (vfs, dir) = (disk.vfs(1), Path::new("/undo"));
        vfs.disk.create_dir(dir).unwrap();
        let ballast = || Ballast::open(&vfs, dir, 64 << 10).unwrap();
        let names = || vfs.disk.list(dir).unwrap();
        assert!(!ballast().spend(), "there is none");
        ballast().hold().unwrap();
        assert_eq!(names(), [NAME]);
        let again = ballast();
        assert!(again.spend() && !again.spend());
        assert!(names().is_empty());
        again.hold().unwrap();
        assert!(again.spend());
        disk.limit(Some(12 << 10));
        assert!(matches!(again.hold(), Err(Error::DiskFull { .. })));
        assert!(names().is_empty(), "no part of it stays");
    }
}
