//! A read-only disk: every file is opened for reading only. A call that would change a file, make
//! one or take a lock fails.

use crate::{Create, Disk, File, OpenMode, ReadOp, WriteOp};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

/// The disk.
#[derive(Clone, Debug)]
pub(crate) struct ReadOnlyDisk(pub(crate) Arc<dyn Disk>);

#[derive(Debug)]
struct ReadOnlyFile(Arc<dyn File>);

fn refused<T>() -> io::Result<T> {
    Err(io::Error::new(ErrorKind::ReadOnlyFilesystem, "these files are only looked at"))
}

impl Disk for ReadOnlyDisk {
    fn beneath(&self) -> Option<&dyn Disk> {
        Some(&*self.0)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mode = OpenMode { create: Create::Never, read_only: true, ..mode };
        Ok(Arc::new(ReadOnlyFile(self.0.open(path, mode)?)))
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Send + Sync>> {
        refused()
    }

    fn is_durable(&self, dir: &Path) -> bool {
        self.0.is_durable(dir)
    }
}

impl File for ReadOnlyFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(bytes, offset)
    }

    fn read_batch(&self, ops: &mut [ReadOp<'_>]) -> io::Result<()> {
        self.0.read_batch(ops)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        refused()
    }

    fn write_batch(&self, _: &[WriteOp<'_>]) -> io::Result<()> {
        refused()
    }

    fn sync(&self) -> io::Result<()> {
        refused()
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn punch(&self, _: u64, _: u64) -> io::Result<()> {
        refused()
    }

    fn is_direct(&self) -> bool {
        self.0.is_direct()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::MemDisk;

    #[test]
    fn files_can_be_read_and_not_changed() {
        let disk = MemDisk::default();
        let vfs = disk.vfs(1);
        let path = Path::new("a");
        let mode = OpenMode { create: Create::New, direct: true, read_only: false };
        vfs.disk.open(path, mode).unwrap().write_at(&[7; 512], 0).unwrap();
        let before = disk.op_count();

        let looking = vfs.read_only();
        let file = looking.disk.open(path, OpenMode { create: Create::IfMissing, ..mode }).unwrap();
        let mut bytes = [0; 512];
        file.read_at(&mut bytes, 0).unwrap();
        assert_eq!((bytes, file.len().unwrap()), ([7; 512], 512));
        let missing = looking.disk.open(Path::new("b"), OpenMode { create: Create::IfMissing, ..mode });
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
        let ops = [WriteOp { offset: 0, bytes: &[1; 512] }];
        for answer in [
            file.write_at(&[1; 512], 0),
            file.write_batch(&ops),
            file.sync(),
            file.set_len(0),
            file.punch(0, 512),
            looking.disk.create_dir(Path::new("d")),
            looking.disk.rename(path, Path::new("c")),
            looking.disk.remove(path),
            looking.disk.sync_dir(Path::new("")),
            looking.disk.lock(path).map(drop),
        ] {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
        }
        assert_eq!(disk.op_count(), before);
    }
}
