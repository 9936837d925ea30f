//! A fail-stop disk: after the first failed write or sync, every call that would change a file
//! fails. After such a failure the content of the file is unknown, and a retry that succeeds proves
//! nothing (Rebello et al., "Can Applications Recover from fsync Failures?", ATC 2020).
//!
//! A write that finds no space is no such failure: nothing is unknown, and space may become free. A
//! missing file descriptor is none either: then nothing was tried.
//!
//! With a page cache one sync may report the failed writes of another one, which then succeeds: the
//! kernel reports each error to one caller only. So the syncs of a buffered file go one after the
//! other, each after the result of the one before. With direct I/O each sync reports its own
//! errors.

use crate::descriptor_cache::no_descriptor;
use crate::{Disk, File, OpenMode, ReadOp, WriteOp};
use base::sync::Mutex;
use base::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The name of a file. It changes if the file is renamed while it is open.
type Name = Arc<Mutex<PathBuf>>;

/// Whether the error says that a file cannot grow: the device is full, a quota is used up, or the
/// file would be too long.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

#[derive(Debug, Default)]
struct FailureLatch {
    set: AtomicBool,
    first: Mutex<Option<(ErrorKind, String)>>,
    /// The names of open files, by path. If a file is open several times, the last one counts.
    open: Mutex<BTreeMap<PathBuf, Name>>,
}

/// The fail-stop disk. Clones share its latch.
#[derive(Clone, Debug)]
pub(crate) struct FailStopDisk {
    disk: Arc<dyn Disk>,
    latch: Arc<FailureLatch>,
}

#[derive(Debug)]
struct FailStopFile {
    file: Arc<dyn File>,
    name: Name,
    latch: Arc<FailureLatch>,
    syncing: Mutex<()>,
}

impl FailureLatch {
    /// Does `change` unless one has failed before. Remembers its failure.
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
            // Without a descriptor nothing was tried: the error comes before a directory is synced,
            // or before a closed file is opened for the change.
            let harmless = (full && may_be_full) || no_descriptor(error);
            if !harmless {
                // If a sync is the first to report a full disk, earlier writes are lost.
                let kind = if full { ErrorKind::Other } else { error.kind() };
                let what = format!("{what} {}: {error}", path().display());
                self.first.lock().get_or_insert((kind, what));
                self.set.store(true, Ordering::Release);
            }
        })
    }
}

impl FailStopDisk {
    /// Makes a disk over `disk` without a failure.
    pub(crate) fn new(disk: Arc<dyn Disk>) -> FailStopDisk {
        FailStopDisk { disk, latch: Arc::default() }
    }
}

impl Disk for FailStopDisk {
    fn beneath(&self) -> Option<&dyn Disk> {
        Some(&*self.disk)
    }

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
    fn after_the_first_failure_files_are_read_and_neither_written_nor_synced() {
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
    fn a_full_disk_is_no_failure_unless_a_sync_reports_it() {
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
        assert_eq!(error.kind(), ErrorKind::Other, "it must not look like a full disk: {error}");
    }

    /// A file that was created with a temporary name is reported with its present name.
    #[test]
    fn a_failure_gives_the_present_name_of_the_file() {
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
