//! The directory that holds what is durable.
//!
//! Its files are the durable files, by their durable names. What has no durable name yet, or none
//! any more, is in a directory of its own, [`LIMBO`], under its inode number. So every file and
//! directory has its inode, and with it its number, from its making on.

use crate::blocks::{Changes, Durable};
use crate::names::{Change, Place};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, fchmod, fchown, fstat, ftruncate, mkdirat,
    openat, renameat, renameat_with, unlinkat,
};
use rustix::io::{Errno, pread, pwrite};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The directory of what has no durable name.
pub(crate) const LIMBO: &str = ".without-a-name";

/// Who owns something new, and its rights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// The directory.
#[derive(Debug)]
pub(crate) struct Backing {
    root: PathBuf,
    limbo: OwnedFd,
}

impl Durable for File {
    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<(), Errno> {
        let mut done = 0;
        while done < bytes.len() {
            match pread(self, &mut bytes[done..], offset + done as u64)? {
                0 => return Err(Errno::IO),
                n => done += n,
            }
        }
        Ok(())
    }
}

impl Backing {
    /// Opens the directory. What has no name there is lost.
    pub(crate) fn open(root: &Path) -> Result<(Backing, OwnedFd), Errno> {
        let root_dir = rustix::fs::open(root, directory_flags(), Mode::empty())?;
        let _ = std::fs::remove_dir_all(root.join(LIMBO));
        mkdirat(&root_dir, LIMBO, Mode::RWXU)?;
        let limbo = open_dir(root_dir.as_fd(), LIMBO.as_ref())?;
        Ok((Backing { root: root.to_owned(), limbo }, root_dir))
    }

    /// Loses what has no name.
    pub(crate) fn close(self) {
        // If that fails, the next opening does it.
        let _ = std::fs::remove_dir_all(self.root.join(LIMBO));
    }

    /// Makes a file without a name.
    pub(crate) fn new_file(&self, owner: Owner) -> Result<(File, Stat), Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.limbo, "new", flags, Mode::RUSR | Mode::WUSR)?;
        let stat = self.finish(file.as_fd(), owner)?;
        Ok((File::from(file), stat))
    }

    /// Makes a directory without a name.
    pub(crate) fn new_dir(&self, owner: Owner) -> Result<(OwnedFd, Stat), Errno> {
        mkdirat(&self.limbo, "new", Mode::RWXU)?;
        let dir = open_dir(self.limbo.as_fd(), "new".as_ref())?;
        let stat = self.finish(dir.as_fd(), owner)?;
        Ok((dir, stat))
    }

    fn finish(&self, fd: BorrowedFd<'_>, owner: Owner) -> Result<Stat, Errno> {
        set_owner(fd, Some(owner.user), Some(owner.group))?;
        fchmod(fd, Mode::from_raw_mode(owner.mode & 0o7777))?;
        let stat = fstat(fd)?;
        renameat(&self.limbo, "new", &self.limbo, stat.st_ino.to_string())?;
        Ok(stat)
    }

    /// Makes a change of directories durable.
    pub(crate) fn change<'d>(
        &self,
        change: &Change,
        directory: impl Fn(u64) -> Option<BorrowedFd<'d>>,
    ) -> Result<(), Errno> {
        let of = |place: &Place| directory(place.0).ok_or(Errno::NOENT);
        match change {
            Change::Add { at, number } => {
                let keep = RenameFlags::NOREPLACE;
                renameat_with(&self.limbo, number.to_string(), of(at)?, &at.1, keep)
            }
            Change::Remove { at, is_dir, .. } => {
                let flags = if *is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                unlinkat(of(at)?, &at.1, flags)
            }
            Change::Move { from, to, .. } => renameat(of(from)?, &from.1, of(to)?, &to.1),
        }
    }
}

/// Makes changes of a file durable.
pub(crate) fn write(file: &File, changes: &Changes) -> Result<(), Errno> {
    if let Some(len) = changes.cut_off {
        ftruncate(file, len)?;
    }
    if fstat(file)?.st_size as u64 != changes.len {
        ftruncate(file, changes.len)?;
    }
    for (offset, bytes) in &changes.writes {
        let mut done = 0;
        while done < bytes.len() {
            done += pwrite(file, &bytes[done..], offset + done as u64)?;
        }
    }
    Ok(())
}

/// Changes who owns something.
pub(crate) fn set_owner(fd: BorrowedFd<'_>, user: Option<u32>, group: Option<u32>) -> Result<(), Errno> {
    fchown(fd, user.map(Uid::from_raw), group.map(Gid::from_raw))
}

/// Opens a file that has a durable name.
pub(crate) fn open_file(dir: BorrowedFd<'_>, name: &std::ffi::OsStr) -> Result<File, Errno> {
    openat(dir, name, OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).map(File::from)
}

/// Opens a directory.
pub(crate) fn open_dir(dir: BorrowedFd<'_>, name: &std::ffi::OsStr) -> Result<OwnedFd, Errno> {
    openat(dir, name, directory_flags() | OFlags::NOFOLLOW, Mode::empty())
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// Returns the kind of what was asked for.
pub(crate) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}
