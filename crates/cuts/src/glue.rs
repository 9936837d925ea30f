//! Answers the kernel: each request of the protocol is a call of the model.

use crate::backing::Owner;
use crate::model::{Answer, Attributes, Entry, Model};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, StatVfs};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Nobody else changes anything, so the kernel may keep what it was told.
const VALID: Duration = Duration::from_secs(3600);

/// The model and all who wait for a cut. The model is gone when the file system is unmounted.
#[derive(Debug)]
pub(crate) struct Shared {
    model: Mutex<Option<Model>>,
    cut: Condvar,
}

impl Shared {
    pub(crate) fn new(model: Model) -> Shared {
        Shared { model: Mutex::new(Some(model)), cut: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Model>> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the model. Then whoever waits for a cut looks again.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Model) -> Answer<T>) -> Answer<T> {
        let mut model = self.lock();
        let model = model.as_mut().ok_or(rustix::io::Errno::IO)?;
        let answer = work(model);
        if model.power.is_cut() {
            self.cut.notify_all();
        }
        answer
    }

    /// Waits for a cut, and returns whether there was one.
    pub(crate) fn wait_for_cut(&self, timeout: Duration) -> bool {
        let powered = |model: &mut Option<Model>| model.as_ref().is_some_and(|model| !model.power.is_cut());
        let waited = self.cut.wait_timeout_while(self.lock(), timeout, powered);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    pub(crate) fn take(&self) -> Option<Model> {
        self.lock().take()
    }
}

/// The file system as the kernel knows it.
pub(crate) struct Glue {
    pub(crate) shared: Arc<Shared>,
    /// Its space is that of this directory.
    pub(crate) backing: PathBuf,
}

fn code(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
}

fn told(attributes: &Attributes) -> FileAttr {
    let Attributes { number, is_dir, len, owner, modified, links, .. } = *attributes;
    FileAttr {
        ino: INodeNo(number),
        size: len,
        blocks: len.div_ceil(512),
        atime: modified,
        mtime: modified,
        ctime: modified,
        crtime: modified,
        kind: if is_dir { FileType::Directory } else { FileType::RegularFile },
        perm: owner.mode as u16,
        nlink: links,
        uid: owner.user,
        gid: owner.group,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn owner(request: &Request, mode: u32, umask: u32) -> Owner {
    Owner { mode: mode & 0o7777 & !umask, user: request.uid(), group: request.gid() }
}

fn entry(reply: ReplyEntry, answer: Answer<Attributes>) {
    match answer {
        Ok(attributes) => reply.entry(&VALID, &told(&attributes), Generation(attributes.generation)),
        Err(errno) => reply.error(code(errno)),
    }
}

fn state(reply: ReplyAttr, answer: Answer<Attributes>) {
    match answer {
        Ok(attributes) => reply.attr(&VALID, &told(&attributes)),
        Err(errno) => reply.error(code(errno)),
    }
}

fn empty(reply: ReplyEmpty, answer: Answer<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(code(errno)),
    }
}

impl Filesystem for Glue {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.shared.with(|model| model.lookup(parent.0, name)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        state(reply, self.shared.with(|model| model.attributes(ino.0)));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let modified = mtime.map(|time| match time {
            TimeOrNow::SpecificTime(time) => time,
            TimeOrNow::Now => SystemTime::now(),
        });
        let answer = self.shared.with(|model| {
            if let Some(size) = size {
                model.set_len(ino.0, size)?;
            }
            model.set_owner(ino.0, mode, uid, gid, modified)?;
            model.attributes(ino.0)
        });
        state(reply, answer);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let owner = owner(request, mode, umask);
        entry(reply, self.shared.with(|model| model.create(parent.0, name, owner, true)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.shared.with(|model| model.remove(parent.0, name, false)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.shared.with(|model| model.remove(parent.0, name, true)));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
            return reply.error(Errno::EINVAL);
        }
        let (from, to) = ((parent.0, name.to_owned()), (newparent.0, newname.to_owned()));
        empty(reply, self.shared.with(|model| model.rename(from, to, flags.is_empty())));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let owner = owner(request, mode, umask);
        let answer = self.shared.with(|model| {
            let attributes = model.create(parent.0, name, owner, false)?;
            model.open_file(attributes.number)?;
            Ok(attributes)
        });
        match answer {
            Ok(attributes) => {
                let generation = Generation(attributes.generation);
                let flags = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&VALID, &told(&attributes), generation, FileHandle(0), flags);
            }
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.shared.with(|model| model.open_file(ino.0)) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let _ = self.shared.with(|model| {
            model.close_file(ino.0);
            Ok(())
        });
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.shared.with(|model| model.read(ino.0, offset, u64::from(size))) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.shared.with(|model| model.write(ino.0, offset, data)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(reply, self.shared.with(|model| model.sync(ino.0)));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(reply, self.shared.with(|model| model.sync(ino.0)));
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        match self.shared.with(|model| model.list(ino.0, offset)) {
            Ok(entries) => {
                for Entry { place, number, is_dir, name } in entries {
                    let kind = if is_dir { FileType::Directory } else { FileType::RegularFile };
                    if reply.add(INodeNo(number), place, kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match rustix::fs::statvfs(&self.backing) {
            Ok(StatVfs { f_blocks, f_bfree, f_bavail, f_files, f_ffree, f_bsize, f_frsize, .. }) => {
                let (size, fragment) = (f_bsize as u32, f_frsize as u32);
                reply.statfs(f_blocks, f_bfree, f_bavail, f_files, f_ffree, size, 255, fragment);
            }
            Err(errno) => reply.error(code(errno)),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        let known = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        if !known.contains(flags) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        empty(
            reply,
            self.shared.with(|model| {
                let (len, end) = (model.attributes(ino.0)?.len, offset.saturating_add(length));
                if flags.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
                    model.clear(ino.0, offset, length)?;
                }
                match flags.contains(FallocateFlags::KEEP_SIZE) || end <= len {
                    true => Ok(()),
                    false => model.set_len(ino.0, end),
                }
            }),
        );
    }
}
