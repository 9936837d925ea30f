//! A disk whose every call somebody sees on its way to another disk, and may refuse, hold, count or answer himself. Tests and
//! models of devices stand there: each says only what it does otherwise.

use crate::{BatchIo, Clock, Disk, File, OpenMode, ReadOp, Vfs, WriteOp};
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Stands between a disk and who uses it. What is not said otherwise is passed on.
pub trait Between: Send + Sync + Debug {
    /// See [`Disk::open`]. The file that is given back is seen as well.
    fn open(&self, disk: &dyn Disk, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        disk.open(path, mode)
    }
    /// See [`Disk::sync_dir`].
    fn sync_dir(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        disk.sync_dir(dir)
    }
    /// See [`Disk::is_durable`].
    fn is_durable(&self, disk: &dyn Disk, dir: &Path) -> bool {
        disk.is_durable(dir)
    }
    /// See [`Disk::batch_io`]. Writes of a batch come one by one all the same.
    fn batch_io(&self, disk: &dyn Disk) -> BatchIo {
        disk.batch_io()
    }
    /// See [`File::write_at`]; `path` is what the file was opened by.
    fn write(&self, file: &dyn File, _path: &Path, op: WriteOp<'_>) -> io::Result<()> {
        file.write_at(op.bytes, op.offset)
    }
    /// See [`File::sync`].
    fn sync(&self, file: &dyn File, _path: &Path) -> io::Result<()> {
        file.sync()
    }
    /// See [`File::is_direct`].
    fn is_direct(&self, file: &dyn File) -> bool {
        file.is_direct()
    }
}

impl Vfs {
    /// `disk` as `between` lets it be seen, with this clock.
    pub fn between(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, between: Arc<dyn Between>) -> Vfs {
        Vfs { disk: Arc::new(SeenDisk { disk, between }), clock }
    }
}

#[derive(Debug)]
struct SeenDisk {
    disk: Arc<dyn Disk>,
    between: Arc<dyn Between>,
}

#[derive(Debug)]
struct SeenFile {
    file: Arc<dyn File>,
    path: PathBuf,
    between: Arc<dyn Between>,
}

impl Disk for SeenDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let file = self.between.open(&*self.disk, path, mode)?;
        Ok(Arc::new(SeenFile { file, path: path.to_owned(), between: Arc::clone(&self.between) }))
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.between.sync_dir(&*self.disk, dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock(path)
    }
    fn is_durable(&self, dir: &Path) -> bool {
        self.between.is_durable(&*self.disk, dir)
    }
    fn is_ephemeral(&self) -> bool {
        self.disk.is_ephemeral()
    }
    fn descriptors(&self) -> Option<usize> {
        self.disk.descriptors()
    }
    fn batch_io(&self) -> BatchIo {
        self.between.batch_io(&*self.disk)
    }
}

impl File for SeenFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(bytes, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.between.write(&*self.file, &self.path, WriteOp { offset, bytes })
    }
    fn sync(&self) -> io::Result<()> {
        self.between.sync(&*self.file, &self.path)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn read_batch(&self, ops: &mut [ReadOp<'_>]) -> io::Result<()> {
        self.file.read_batch(ops)
    }
    fn write_batch(&self, ops: &[WriteOp<'_>]) -> io::Result<()> {
        ops.iter().try_for_each(|op| self.write_at(op.bytes, op.offset))
    }
    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.punch(offset, len)
    }
    fn is_direct(&self) -> bool {
        self.between.is_direct(&*self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Create;
    use crate::mem::MemDisk;
    use std::sync::Mutex;

    /// Notes what it sees, and refuses to sync `stubborn`.
    #[derive(Debug, Default)]
    struct Notes(Mutex<Vec<String>>);

    impl Notes {
        fn note(&self, what: &str, path: &Path) {
            self.0.lock().unwrap().push(format!("{what} {}", path.display()));
        }
    }

    impl Between for Notes {
        fn write(&self, file: &dyn File, path: &Path, op: WriteOp<'_>) -> io::Result<()> {
            self.note(&format!("write {} at {} of", op.bytes.len(), op.offset), path);
            file.write_at(op.bytes, op.offset)
        }
        fn sync(&self, file: &dyn File, path: &Path) -> io::Result<()> {
            self.note("sync", path);
            if path.ends_with("stubborn") { Err(io::ErrorKind::Other.into()) } else { file.sync() }
        }
    }

    #[test]
    fn what_is_not_said_otherwise_is_passed_on() {
        let (disk, notes) = (MemDisk::default(), Arc::new(Notes::default()));
        let plain = disk.vfs(1);
        let vfs = Vfs::between(plain.disk, plain.clock, Arc::clone(&notes) as Arc<dyn Between>);
        let mode = OpenMode { create: Create::New, direct: true, read_only: false };
        vfs.disk.create_dir(Path::new("d")).unwrap();
        let (file, other) = (vfs.disk.open(Path::new("d/a"), mode).unwrap(), Path::new("d/stubborn"));
        let ops = [WriteOp { offset: 0, bytes: &[1; 512] }, WriteOp { offset: 512, bytes: &[2; 512] }];
        file.write_batch(&ops).unwrap();
        file.sync().unwrap();
        assert!(vfs.disk.open(other, mode).unwrap().sync().is_err());
        vfs.disk.rename(Path::new("d/a"), Path::new("d/b")).unwrap();
        vfs.disk.sync_dir(Path::new("d")).unwrap();
        let seen = ["write 512 at 0 of d/a", "write 512 at 512 of d/a", "sync d/a", "sync d/stubborn"];
        assert_eq!(*notes.0.lock().unwrap(), seen);

        // The disk below has all of it.
        assert_eq!(disk.vfs(1).disk.list(Path::new("d")).unwrap(), ["b", "stubborn"]);
        let mut bytes = [0; 512];
        file.read_batch(&mut [ReadOp { offset: 512, bytes: &mut bytes }]).unwrap();
        assert_eq!((bytes, file.len().unwrap()), ([2; 512], 1024));
    }
}
