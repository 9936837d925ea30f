//! Space that is set aside on the disk for what a full disk must not stop: hardening the undo without which the checkpoint cannot
//! move. It is a file of zeros beside the undo files. Who is told that the disk is full *spends* it: it goes, and what it took is
//! there for the write that failed. Before `pages` grows again it must be *held* again (INV-27), so what one gives away no growth takes.

use crate::error::{Error, Result};
use base::aligned::AlignedBuf;
use base::sync::Mutex;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use vfs::{Create, OpenMode, Vfs};

/// The name of the file.
const NAME: &str = "reserve";
/// The least that it takes, bytes: a file's header and a batch.
const LEAST_BYTES: u64 = 8192;

/// The reserve of an open database.
#[derive(Debug)]
pub(crate) struct Reserve {
    vfs: Vfs,
    path: PathBuf,
    bytes: u64,
    /// Whether the file is there, whole. Held over its I/O.
    held: Mutex<bool>,
}

impl Reserve {
    /// Takes stock of the reserve in `dir`. A quarter of a log segment is what a checkpoint has to harden twice over, for it can move each
    /// time that an eighth of one has been written (`pace::checkpoint`), and undo is no longer than the redo that holds it.
    pub(crate) fn open(vfs: &Vfs, dir: &Path, segment_bytes: u64) -> Result<Reserve> {
        let (path, bytes) = (dir.join(NAME), (segment_bytes / 4).max(LEAST_BYTES));
        let mode = OpenMode { create: Create::Never, direct: false, read_only: true };
        let len = match vfs.disk.open(&path, mode).and_then(|file| file.len()) {
            Ok(len) => len,
            Err(e) if e.kind() == ErrorKind::NotFound => 0,
            Err(e) => return Err(Error::io("open", &path, e)),
        };
        Ok(Reserve { vfs: vfs.clone(), path, bytes, held: Mutex::new(len >= bytes) })
    }

    /// Sets the space aside unless it is. A full disk is an answer.
    pub(crate) fn hold(&self) -> Result {
        let mut held = self.held.lock();
        if *held {
            return Ok(());
        }
        if let Err(error) = self.write() {
            // What fitted of it is for others.
            let _ = self.vfs.disk.remove(&self.path);
            return Err(Error::io("write", &self.path, error));
        }
        *held = true;
        Ok(())
    }

    /// Not synced: what a power cut leaves of the file, it leaves free of what is missing.
    fn write(&self) -> io::Result<()> {
        let mode = OpenMode { create: Create::IfMissing, direct: false, read_only: false };
        let file = self.vfs.disk.open(&self.path, mode)?;
        file.write_at(&AlignedBuf::zeroed(self.bytes as usize), 0)
    }

    /// Whether it is set aside.
    pub(crate) fn is_held(&self) -> bool {
        *self.held.lock()
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the space to whoever has just found none. False if there is none to give.
    pub(crate) fn spend(&self) -> bool {
        std::mem::take(&mut *self.held.lock()) && self.vfs.disk.remove(&self.path).is_ok()
    }

    /// One of its own for a test.
    #[cfg(test)]
    pub(crate) fn of(vfs: &Vfs, dir: &Path) -> Reserve {
        Reserve::open(vfs, dir, 0).expect("a file that is not there is none")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::mem::MemDisk;

    #[test]
    fn it_is_held_again_after_it_was_spent_and_stands_over_an_opening() {
        let disk = MemDisk::default();
        let (vfs, dir) = (disk.vfs(1), Path::new("/undo"));
        vfs.disk.create_dir(dir).unwrap();
        let reserve = || Reserve::open(&vfs, dir, 64 << 10).unwrap();
        let names = || vfs.disk.list(dir).unwrap();
        assert!(!reserve().spend(), "there is none");
        reserve().hold().unwrap();
        assert_eq!(names(), [NAME]);
        let again = reserve();
        assert!(again.spend() && !again.spend());
        assert!(names().is_empty());
        again.hold().unwrap();
        assert!(again.spend());
        disk.limit(Some(12 << 10));
        assert!(matches!(again.hold(), Err(Error::DiskFull { .. })));
        assert!(names().is_empty(), "no part of it stays");
    }
}
