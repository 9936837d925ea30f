//! Fault injection: a disk that fails on purpose. The n-th operation of a kind can fail, once or
//! for ever. The device can be full. A failed sync can lose the writes that it should have made
//! durable, or a sync can lie. A write can be torn. All other operations go to the disk below.

use crate::{BatchIo, Create, Disk, File, OpenMode};
use base::sync::Mutex;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Kinds of operations. Each kind is counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpKind {
    /// Opening a file that exists.
    Open,
    /// Creating a file or a directory.
    Create,
    /// Reading. Each operation of a batch counts.
    Read,
    /// Writing. Each operation of a batch counts.
    Write,
    /// Syncing a file.
    Sync,
    /// Syncing a directory.
    SyncDir,
    /// Changing a file's length.
    SetLen,
    /// Making a file longer while disk space is limited.
    Grow,
    /// Renaming.
    Rename,
    /// Removing.
    Remove,
    /// Listing a directory, or asking for a file's length.
    Ask,
}

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does nothing and returns an error of this kind.
    Refused(ErrorKind),
    /// A write that writes only its first half, in whole sectors.
    Torn,
    /// A sync that loses all writes to the file since the last sync. Some file systems do that:
    /// they mark pages clean when the write-back fails. A later sync succeeds, but the writes stay
    /// lost.
    Dropped,
    /// A sync that returns as if all was well, and has synced nothing. Some devices do that.
    Lied,
}

/// A rule: the operation of this kind with this number fails.
#[derive(Clone, Copy, Debug)]
pub struct FaultRule {
    /// The kind of operation.
    pub kind: OpKind,
    /// Counted from 1.
    pub nth: u64,
    /// Whether all later operations of the kind fail as well.
    pub for_ever: bool,
    /// How it fails.
    pub fault: Fault,
}

/// An operation that was made to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedOp {
    /// The kind of operation.
    pub kind: OpKind,
    /// The file or directory.
    pub path: PathBuf,
    /// The offset in the file; 0 if it was no write.
    pub offset: u64,
}

/// The state of a file, shared by all who have it open.
#[derive(Debug, Default)]
struct FileRecord {
    /// Its present name.
    path: Mutex<PathBuf>,
    unsynced: Mutex<UnsyncedWrites>,
}

/// The bytes of a file before the writes that are not synced.
#[derive(Debug, Default)]
struct UnsyncedWrites {
    /// Offset and old bytes, in the order of the writes.
    before: Vec<(u64, Vec<u8>)>,
    /// The length before the first of them.
    len: Option<u64>,
}

/// A rule for files whose path contains `part`, with a count of its own.
#[derive(Debug)]
struct PathRule {
    part: String,
    rule: FaultRule,
    count: u64,
}

#[derive(Debug, Default)]
struct FaultState {
    rules: Vec<FaultRule>,
    path_rules: Vec<PathRule>,
    counts: BTreeMap<OpKind, u64>,
    failed: Vec<FailedOp>,
    /// Operations that were tried again after they had failed.
    retried: Vec<FailedOp>,
    /// Reads of these ranges of files fail.
    unreadable: Vec<(PathBuf, std::ops::Range<u64>)>,
    /// Sectors that cannot be read until they are written.
    spoiled: Vec<(PathBuf, u64)>,
    /// A directory, and how many bytes its files may still grow.
    space: Option<(PathBuf, u64)>,
    /// The error of a growth that finds no space.
    full: Option<ErrorKind>,
    /// How many files may be open at the same time, and the number that [`Disk::descriptors`]
    /// returns.
    open_most: Option<(usize, usize)>,
    open: usize,
    /// The most files that were open at the same time.
    open_peak: usize,
    records: BTreeMap<PathBuf, Arc<FileRecord>>,
}

/// The failing disk. Clones share it.
#[derive(Clone, Debug)]
pub struct FaultDisk {
    disk: Arc<dyn Disk>,
    state: Arc<Mutex<FaultState>>,
}

#[derive(Debug)]
struct FaultFile {
    disk: FaultDisk,
    file: Arc<dyn File>,
    record: Arc<FileRecord>,
}

fn failure(kind: ErrorKind) -> io::Error {
    io::Error::new(kind, "an injected fault")
}

impl FaultDisk {
    /// Makes a disk over `disk` without rules.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>) -> FaultDisk {
        FaultDisk { disk, state: Arc::default() }
    }

    /// Adds a rule. Counting starts again from 0 for its kind.
    pub fn fail(&self, rule: FaultRule) {
        let mut state = self.state.lock();
        state.counts.insert(rule.kind, 0);
        state.rules.push(rule);
    }

    /// Adds a rule for files whose path contains `part`. It counts only operations on these files.
    pub fn fail_on(&self, part: &str, rule: FaultRule) {
        self.state.lock().path_rules.push(PathRule { part: part.to_owned(), rule, count: 0 });
    }

    /// Lets the files below `dir` grow by `bytes` in total from now on.
    pub fn limit_space(&self, dir: impl Into<PathBuf>, bytes: u64) {
        self.state.lock().space = Some((dir.into(), bytes));
    }

    /// Makes reads fail that touch these bytes of a file, as on a bad sector.
    pub fn refuse_reads(&self, path: impl Into<PathBuf>, bytes: std::ops::Range<u64>) {
        self.state.lock().unreadable.push((path.into(), bytes));
    }

    /// Makes the sector at `offset` of a file unreadable until it is written again.
    pub fn spoil(&self, path: impl Into<PathBuf>, offset: u64) {
        let offset = offset / crate::mem::SECTOR_BYTES as u64 * crate::mem::SECTOR_BYTES as u64;
        self.state.lock().spoiled.push((path.into(), offset));
    }

    /// Whether a read touches a byte that cannot be read.
    fn is_unreadable(&self, path: &Path, offset: u64, len: usize) -> bool {
        let end = offset + len as u64;
        let state = self.state.lock();
        let spoiled = |(file, at): &(PathBuf, u64)| file == path && (offset..end).contains(at);
        if state.spoiled.iter().any(spoiled) {
            return true;
        }
        state.unreadable.iter().any(|(file, bad)| file == path && bad.start < end && offset < bad.end)
    }

    /// Sets the error of operations that find no space. The default is a full disk.
    pub fn full_is(&self, kind: ErrorKind) {
        self.state.lock().full = Some(kind);
    }

    /// Lets at most `most` files be open at the same time, and makes [`Disk::descriptors`] return
    /// `told`.
    pub fn limit_descriptors(&self, most: usize, told: usize) {
        self.state.lock().open_most = Some((most, told));
    }

    /// Returns how many files are open, and the most that were open at the same time.
    #[must_use]
    pub fn open_files(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.open, state.open_peak)
    }

    fn open_one(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.open_most.is_some_and(|(most, _)| state.open >= most) {
            return Err(io::Error::from_raw_os_error(crate::descriptor_cache::NO_DESCRIPTOR[0]));
        }
        state.open += 1;
        state.open_peak = state.open_peak.max(state.open);
        Ok(())
    }

    fn no_space(&self) -> io::Error {
        failure(self.state.lock().full.unwrap_or(ErrorKind::StorageFull))
    }

    /// Removes all rules and limits.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.rules.clear();
        state.path_rules.clear();
        state.unreadable.clear();
        state.spoiled.clear();
        state.space = None;
        state.open_most = None;
    }

    /// Returns the number of operations of a kind since the last rule for it.
    #[must_use]
    pub fn count(&self, kind: OpKind) -> u64 {
        self.state.lock().counts.get(&kind).copied().unwrap_or(0)
    }

    /// Returns the operations that failed, in order.
    #[must_use]
    pub fn failures(&self) -> Vec<FailedOp> {
        self.state.lock().failed.clone()
    }

    /// Returns the syncs of a file after a failed sync of it, and the writes to an offset where a
    /// write had failed. There must be none. Growth that found no space may be tried again.
    #[must_use]
    pub fn retried(&self) -> Vec<FailedOp> {
        self.state.lock().retried.clone()
    }

    /// Counts an operation. Returns how it must fail, if a rule says so.
    fn count_operation(&self, kind: OpKind, path: &Path, offset: u64) -> Option<Fault> {
        let mut state = self.state.lock();
        let count = state.counts.entry(kind).or_default();
        *count += 1;
        let count = *count;
        let this = FailedOp { kind, path: path.to_owned(), offset };
        if matches!(kind, OpKind::Write | OpKind::Sync) && state.failed.contains(&this) {
            state.retried.push(this.clone());
        }
        let hit =
            |r: &FaultRule, count: u64| r.kind == kind && (r.nth == count || (r.for_ever && r.nth < count));
        let mut fault = state.rules.iter().find(|rule| hit(rule, count)).map(|rule| rule.fault);
        for path_rule in &mut state.path_rules {
            if path_rule.rule.kind == kind && path.to_string_lossy().contains(&path_rule.part) {
                path_rule.count += 1;
                fault = fault.or(hit(&path_rule.rule, path_rule.count).then_some(path_rule.rule.fault));
            }
        }
        let fault = fault?;
        state.failed.push(this);
        Some(fault)
    }

    fn open_counted(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let there = OpenMode { create: Create::Never, ..mode };
        let file = match self.disk.open(path, there) {
            Err(e) if e.kind() == ErrorKind::NotFound && mode.create != Create::Never => {
                self.check(OpKind::Create, path)?;
                self.disk.open(path, mode)?
            }
            Err(e) => return Err(e),
            Ok(_) if mode.create == Create::New => return Err(ErrorKind::AlreadyExists.into()),
            Ok(file) => {
                self.check(OpKind::Open, path)?;
                file
            }
        };
        let record = Arc::clone(self.state.lock().records.entry(path.to_owned()).or_default());
        *record.path.lock() = path.to_owned();
        Ok(Arc::new(FaultFile { disk: self.clone(), file, record }))
    }

    /// As [`FaultDisk::count_operation`], for operations that can only fail as a whole.
    fn check(&self, kind: OpKind, path: &Path) -> io::Result<()> {
        match self.count_operation(kind, path, 0) {
            None => Ok(()),
            Some(Fault::Refused(kind)) => Err(failure(kind)),
            Some(Fault::Torn | Fault::Dropped | Fault::Lied) => Err(failure(ErrorKind::Other)),
        }
    }

    /// Takes space for growth. Returns how much of it was available.
    fn take_space(&self, path: &Path, growth: u64) -> u64 {
        let mut state = self.state.lock();
        let Some((_, left)) = state.space.as_mut().filter(|(dir, _)| path.starts_with(dir)) else {
            return growth;
        };
        let taken = growth.min(*left);
        *left -= taken;
        if taken < growth {
            state.failed.push(FailedOp { kind: OpKind::Grow, path: path.to_owned(), offset: 0 });
        }
        taken
    }
}

impl Disk for FaultDisk {
    fn beneath(&self) -> Option<&dyn Disk> {
        Some(&*self.disk)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.open_one()?;
        self.open_counted(path, mode).inspect_err(|_| self.state.lock().open -= 1)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.check(OpKind::Create, path)?;
        self.disk.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.check(OpKind::Ask, dir)?;
        self.disk.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(OpKind::Rename, from)?;
        self.disk.rename(from, to)?;
        let mut state = self.state.lock();
        if let Some(record) = state.records.remove(from) {
            *record.path.lock() = to.to_owned();
            state.records.insert(to.to_owned(), record);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check(OpKind::Remove, path)?;
        self.disk.remove(path)?;
        self.state.lock().records.remove(path);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        // To sync a directory, it is opened.
        self.open_one()?;
        self.state.lock().open -= 1;
        self.check(OpKind::SyncDir, dir)?;
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.disk.lock(path)
    }

    fn is_durable(&self, dir: &Path) -> bool {
        self.disk.is_durable(dir)
    }

    fn descriptors(&self) -> Option<usize> {
        self.state.lock().open_most.map(|(_, told)| told).or_else(|| self.disk.descriptors())
    }

    /// Each operation of a batch counts and may fail.
    fn batch_io(&self) -> BatchIo {
        BatchIo::OneByOne
    }
}

impl Drop for FaultFile {
    fn drop(&mut self) {
        self.disk.state.lock().open -= 1;
    }
}

impl FaultFile {
    fn path(&self) -> PathBuf {
        self.record.path.lock().clone()
    }

    /// Writes, and remembers the old bytes.
    fn write_remembering(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut unsynced = self.record.unsynced.lock();
        let len = self.file.len()?;
        unsynced.len.get_or_insert(len);
        let there = len.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let mut before = vec![0; there];
        if there > 0 {
            self.file.read_at(&mut before, offset)?;
        }
        unsynced.before.push((offset, before));
        let (path, written) = (self.path(), offset..offset + bytes.len() as u64);
        self.disk.state.lock().spoiled.retain(|(file, at)| *file != path || !written.contains(at));
        self.file.write_at(bytes, offset)
    }

    /// Restores the state that the last sync made durable.
    fn lose_unsynced(&self) -> io::Result<()> {
        let UnsyncedWrites { before, len } = std::mem::take(&mut *self.record.unsynced.lock());
        for (offset, bytes) in before.into_iter().rev() {
            self.file.write_at(&bytes, offset)?;
        }
        if let Some(len) = len {
            self.file.set_len(len)?;
        }
        self.file.sync()
    }
}

impl File for FaultFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.disk.check(OpKind::Read, &self.path())?;
        if self.disk.is_unreadable(&self.path(), offset, bytes.len()) {
            return Err(failure(ErrorKind::Other));
        }
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.disk.count_operation(OpKind::Write, &self.path(), offset) {
            None => {}
            Some(Fault::Torn) => {
                let half = bytes.len() / 2 / crate::mem::SECTOR_BYTES * crate::mem::SECTOR_BYTES;
                self.write_remembering(&bytes[..half], offset)?;
                return Err(failure(ErrorKind::WriteZero));
            }
            Some(Fault::Refused(kind)) => return Err(failure(kind)),
            Some(Fault::Dropped | Fault::Lied) => return Err(failure(ErrorKind::Other)),
        }
        let growth = (offset + bytes.len() as u64).saturating_sub(self.file.len()?);
        let missing = growth - self.disk.take_space(&self.path(), growth);
        if missing > 0 {
            // The part that fits is written.
            let fits = (bytes.len() as u64).saturating_sub(missing) as usize;
            let fits = fits / crate::mem::SECTOR_BYTES * crate::mem::SECTOR_BYTES;
            self.write_remembering(&bytes[..fits], offset)?;
            return Err(self.disk.no_space());
        }
        self.write_remembering(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        match self.disk.count_operation(OpKind::Sync, &self.path(), 0) {
            None => {
                // Held during the sync: a write during the sync is not covered by it.
                let mut unsynced = self.record.unsynced.lock();
                self.file.sync()?;
                *unsynced = UnsyncedWrites::default();
                Ok(())
            }
            Some(Fault::Dropped) => {
                self.lose_unsynced()?;
                Err(failure(ErrorKind::Other))
            }
            Some(Fault::Lied) => Ok(()),
            Some(Fault::Refused(kind)) => Err(failure(kind)),
            Some(Fault::Torn) => Err(failure(ErrorKind::Other)),
        }
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.check(OpKind::Ask, &self.path())?;
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.check(OpKind::SetLen, &self.path())?;
        let now = self.file.len()?;
        if len > now && self.disk.take_space(&self.path(), len - now) < len - now {
            return Err(self.disk.no_space());
        }
        let mut unsynced = self.record.unsynced.lock();
        unsynced.len.get_or_insert(now);
        let mut cut = vec![0; now.saturating_sub(len) as usize];
        if !cut.is_empty() {
            self.file.read_at(&mut cut, len)?;
            unsynced.before.push((len, cut));
        }
        self.file.set_len(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.punch(offset, len)
    }

    /// Returns false: only with a page cache can a failed sync lose the writes of others.
    fn is_direct(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
