//! A disk on which the first failed write or sync is the last one tried: whatever would change a file afterwards is
//! refused. After such a failure nobody knows what the file holds, and a second try that succeeds proves nothing
//! (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020).
//!
//! A write that found no space is no such failure: it is an answer, and space may come back. Neither is it one that no file descriptor was
//! left: then nothing was tried.
//!
//! Behind a page cache one sync can hear of the failure of what another one was to make durable, and the other then
//! succeeds: the kernel tells each error to one caller. So syncs of a buffered file go one by one, and the next begins
//! when the answer to the one before is known. With direct I/O each sync answers for itself.

use crate::descriptor_cache::no_descriptor;
use crate::{BatchIo, Disk, File, OpenMode, ReadOp, Vfs, WriteOp};
use base::sync::Mutex;
use base::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a file is called, which changes when it is renamed while it is open.
type Name = Arc<Mutex<PathBuf>>;

/// Whether a file cannot grow: its device is full, a quota is used up, or it would be longer than files may be.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

#[derive(Debug, Default)]
struct FailureLatch {
    set: AtomicBool,
    first: Mutex<Option<(ErrorKind, String)>>,
    /// The names of open files, by what they are; the last one opened where several are one file.
    open: Mutex<BTreeMap<PathBuf, Name>>,
}

/// The disk. Clones share its latch.
#[derive(Clone, Debug)]
pub struct FailStopDisk {
    disk: Arc<dyn Disk>,
    latch: Arc<FailureLatch>,
}

impl Vfs {
    /// The same files, of which none is changed any more once a write or sync of one has failed.
    #[must_use]
    pub fn fail_stop(&self) -> Vfs {
        let disk = FailStopDisk::new(Arc::clone(&self.disk));
        Vfs { disk: Arc::new(disk), clock: Arc::clone(&self.clock) }
    }
}

#[derive(Debug)]
struct FailStopFile {
    file: Arc<dyn File>,
    name: Name,
    latch: Arc<FailureLatch>,
    syncing: Mutex<()>,
}

impl FailureLatch {
    /// Does `change` unless one failed before; remembers if this one does.
    fn guard<T>(
        &self,
        what: &str,
        path: impl Fn() -> PathBuf,
        may_be_full: bool,
        change: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if self.set.load(Ordering::Acquire)
            && let Some((kind, first)) = &*self.first.lock()
        {
            return Err(io::Error::new(*kind, format!("not tried, for earlier: {first}")));
        }
        change().inspect_err(|error| {
            let full = is_full(error);
            // Without a descriptor nothing was tried: it is said before a directory is synced, or a file opened for what is asked.
            let answer = (full && may_be_full) || no_descriptor(error);
            if !answer {
                // A full disk that shows in a sync only has lost what was written before.
                let kind = if full { ErrorKind::Other } else { error.kind() };
                let what = format!("{what} {}: {error}", path().display());
                self.first.lock().get_or_insert((kind, what));
                self.set.store(true, Ordering::Release);
            }
        })
    }
}

impl FailStopDisk {
    /// A disk over `disk` on which nothing has failed yet.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>) -> FailStopDisk {
        FailStopDisk { disk, latch: Arc::default() }
    }
}

impl Disk for FailStopDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let file = self.disk.open(path, mode)?;
        let name = Name::new(Mutex::new(path.to_owned()));
        self.latch.open.lock().insert(path.to_owned(), Arc::clone(&name));
        Ok(Arc::new(FailStopFile { file, name, latch: Arc::clone(&self.latch), syncing: Mutex::default() }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.latch.guard("rename", || from.to_owned(), true, || self.disk.rename(from, to))?;
        let mut open = self.latch.open.lock();
        if let Some(name) = open.remove(from) {
            to.clone_into(&mut name.lock());
            open.insert(to.to_owned(), name);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.latch.guard("sync", || dir.to_owned(), false, || self.disk.sync_dir(dir))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock(path)
    }

    fn is_durable(&self, dir: &Path) -> bool {
        self.disk.is_durable(dir)
    }

    fn is_ephemeral(&self) -> bool {
        self.disk.is_ephemeral()
    }

    fn batch_io(&self) -> BatchIo {
        self.disk.batch_io()
    }

    fn descriptors(&self) -> Option<usize> {
        self.disk.descriptors()
    }
}

impl FailStopFile {
    fn name(&self) -> PathBuf {
        self.name.lock().clone()
    }
}

impl Drop for FailStopFile {
    fn drop(&mut self) {
        let mut open = self.latch.open.lock();
        let name = self.name();
        if open.get(&name).is_some_and(|other| Arc::ptr_eq(other, &self.name)) {
            open.remove(&name);
        }
    }
}

impl File for FailStopFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(bytes, offset)
    }

    fn read_batch(&self, ops: &mut [ReadOp<'_>]) -> io::Result<()> {
        self.file.read_batch(ops)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.latch.guard("write", || self.name(), true, || self.file.write_at(bytes, offset))
    }

    fn write_batch(&self, ops: &[WriteOp<'_>]) -> io::Result<()> {
        self.latch.guard("write", || self.name(), true, || self.file.write_batch(ops))
    }

    fn sync(&self) -> io::Result<()> {
        let _alone = (!self.file.is_direct()).then(|| self.syncing.lock());
        self.latch.guard("sync", || self.name(), false, || self.file.sync())
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.latch.guard("change the length of", || self.name(), true, || self.file.set_len(len))
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.latch.guard("punch", || self.name(), true, || self.file.punch(offset, len))
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    fn opened(&self) -> io::Result<Option<Arc<dyn File>>> {
        self.file.opened()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Create;
    use crate::fault::{Fault, FaultDisk, FaultRule, OpKind};
    use crate::mem::MemDisk;

    const NEW: OpenMode = OpenMode { create: Create::New, direct: true, read_only: false };

    fn disks() -> (FaultDisk, Arc<dyn File>, Arc<dyn File>) {
        let fault = FaultDisk::new(Arc::new(MemDisk::default()));
        let fail_stop = FailStopDisk::new(Arc::new(fault.clone()));
        let open = |name: &str| fail_stop.open(Path::new(name), NEW).unwrap();
        (fault, open("a"), open("b"))
    }

    #[test]
    fn after_the_first_failure_no_file_is_written_or_synced_and_all_can_be_read() {
        for kind in [OpKind::Write, OpKind::Sync] {
            let (fault, a, b) = disks();
            a.write_at(&[1; 512], 0).unwrap();
            fault.fail(FaultRule { kind, nth: 1, for_ever: false, fault: Fault::Refused(ErrorKind::Other) });
            assert!(a.write_at(&[2; 512], 0).and_then(|()| a.sync()).is_err());
            let before = (fault.count(OpKind::Write), fault.count(OpKind::Sync));
            for file in [&a, &b] {
                for answer in [
                    file.write_at(&[3; 512], 0),
                    file.write_batch(&[WriteOp { offset: 0, bytes: &[3; 512] }]),
                    file.sync(),
                    file.set_len(0),
                ] {
                    let text = answer.unwrap_err().to_string();
                    assert!(text.contains("not tried") && text.contains(" a: "), "{text}");
                }
            }
            assert_eq!(before, (fault.count(OpKind::Write), fault.count(OpKind::Sync)), "not even tried");
            a.read_at(&mut [0; 512], 0).unwrap();
        }
    }

    #[test]
    fn a_full_disk_is_an_answer_unless_a_sync_gives_it() {
        let (fault, a, _) = disks();
        fault.limit_space("", 0);
        assert_eq!(a.write_at(&[1; 512], 0).unwrap_err().kind(), ErrorKind::StorageFull);
        fault.heal();
        a.write_at(&[1; 512], 0).unwrap();
        fault.fail(FaultRule {
            kind: OpKind::Sync,
            nth: 1,
            for_ever: false,
            fault: Fault::Refused(ErrorKind::StorageFull),
        });
        assert!(a.sync().is_err());
        let error = a.write_at(&[1; 512], 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other, "nobody takes it for a full disk: {error}");
    }

    /// A file that is made under a passing name is known by the one that it got.
    #[test]
    fn a_failure_names_the_file_as_it_is_called_by_then() {
        let faults = FaultDisk::new(Arc::new(MemDisk::default()));
        let disk = FailStopDisk::new(Arc::new(faults.clone()));
        let mode = OpenMode { create: Create::New, direct: false, read_only: false };
        let file = disk.open(Path::new("/a.new"), mode).unwrap();
        disk.rename(Path::new("/a.new"), Path::new("/a")).unwrap();
        faults.fail(FaultRule {
            kind: OpKind::Write,
            nth: 1,
            for_ever: true,
            fault: Fault::Refused(ErrorKind::Other),
        });
        file.write_at(&[1], 0).unwrap_err();
        let later = file.write_at(&[1], 0).unwrap_err().to_string();
        assert!(later.contains("not tried, for earlier: write /a: "), "{later}");
        drop(file);
        assert!(disk.latch.open.lock().is_empty());
    }
}
