//! A disk with an interceptor: it sees the calls to another disk, and may refuse, delay, count or
//! answer them. For tests and for models of devices. Each implements only the calls that it
//! changes.

use crate::{BatchIo, Disk, File, OpenMode, ReadOp, WriteOp};
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Intercepts calls to a disk. By default each call goes on to the disk.
pub trait Interceptor: Send + Sync + Debug {
    /// See [`Disk::open`]. Calls to the returned file are intercepted, too.
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
    /// See [`Disk::batch_io`]. The writes of a batch are always intercepted one by one.
    fn batch_io(&self, disk: &dyn Disk) -> BatchIo {
        disk.batch_io()
    }
    /// See [`File::read_at`]. `path` is the path by which the file was opened.
    fn read(&self, file: &dyn File, _path: &Path, op: ReadOp<'_>) -> io::Result<()> {
        file.read_at(op.bytes, op.offset)
    }
    /// See [`File::read_batch`].
    fn read_batch(&self, file: &dyn File, _path: &Path, ops: &mut [ReadOp<'_>]) -> io::Result<()> {
        file.read_batch(ops)
    }
    /// See [`File::write_at`].
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

#[derive(Debug)]
pub(crate) struct InterceptedDisk {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) interceptor: Arc<dyn Interceptor>,
}

#[derive(Debug)]
struct InterceptedFile {
    file: Arc<dyn File>,
    path: PathBuf,
    interceptor: Arc<dyn Interceptor>,
}

impl Disk for InterceptedDisk {
    fn beneath(&self) -> Option<&dyn Disk> {
        Some(&*self.disk)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let file = self.interceptor.open(&*self.disk, path, mode)?;
        Ok(Arc::new(InterceptedFile {
            file,
            path: path.to_owned(),
            interceptor: Arc::clone(&self.interceptor),
        }))
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
        self.interceptor.sync_dir(&*self.disk, dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock(path)
    }
    fn is_durable(&self, dir: &Path) -> bool {
        self.interceptor.is_durable(&*self.disk, dir)
    }
    fn batch_io(&self) -> BatchIo {
        self.interceptor.batch_io(&*self.disk)
    }
}

impl File for InterceptedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.interceptor.read(&*self.file, &self.path, ReadOp { offset, bytes })
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.interceptor.write(&*self.file, &self.path, WriteOp { offset, bytes })
    }
    fn sync(&self) -> io::Result<()> {
        self.interceptor.sync(&*self.file, &self.path)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn read_batch(&self, ops: &mut [ReadOp<'_>]) -> io::Result<()> {
        self.interceptor.read_batch(&*self.file, &self.path, ops)
    }
    fn write_batch(&self, ops: &[WriteOp<'_>]) -> io::Result<()> {
        ops.iter().try_for_each(|op| self.write_at(op.bytes, op.offset))
    }
    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.punch(offset, len)
    }
    fn is_direct(&self) -> bool {
        self.interceptor.is_direct(&*self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::MemDisk;
    use crate::{Create, Vfs};
    use std::sync::Mutex;

    /// Records the calls, and refuses to sync `stubborn`.
    #[derive(Debug, Default)]
    struct Notes(Mutex<Vec<String>>);

    impl Notes {
        fn note(&self, what: &str, path: &Path) {
            self.0.lock().unwrap().push(format!("{what} {}", path.display()));
        }
    }

    impl Interceptor for Notes {
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
    fn calls_without_an_implementation_go_on_to_the_disk() {
        let (disk, notes) = (MemDisk::default(), Arc::new(Notes::default()));
        let plain = disk.vfs(1);
        let vfs = Vfs::intercepted(plain.disk, plain.clock, Arc::clone(&notes) as Arc<dyn Interceptor>);
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

        // The disk below has all changes.
        assert_eq!(disk.vfs(1).disk.list(Path::new("d")).unwrap(), ["b", "stubborn"]);
        let mut bytes = [0; 512];
        file.read_batch(&mut [ReadOp { offset: 512, bytes: &mut bytes }]).unwrap();
        assert_eq!((bytes, file.len().unwrap()), ([2; 512], 1024));
    }
}
