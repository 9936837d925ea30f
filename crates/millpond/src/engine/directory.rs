//! Lock files, and the owner of a directory. Each directory of a database (its own, and those of
//! redo, doublewrite and undo) has a file `LOCK`. The file is locked while the database is open. It
//! names the database and the purpose of the directory, and says where it is (`residence.rs`).
//!
//! ```text
//!  0        8      10     11     12    16       24     28    32        512      4096
//!  +--------+------+------+------+-----+--------+------+-----+---------+--------+
//!  |MPONDDIR|format| use  | made | 0   | db id  |crc32c| 0   |residence| 0 …    |
//!  |8 bytes | u16  | u8   | u8   | u32 | u64    |u32   |     |         |        |
//!  +--------+------+------+------+-----+--------+------+-----+---------+--------+
//! ```
//! `LOCK` is written before any other file of the database is in the directory. So a directory that
//! names no database but holds files belongs to something else. In the database's own directory
//! `made` is 0 until the root is durable. This tells a creation that was interrupted, and can
//! continue, from a database that has lost its root.

use super::durable_dir::{parent_of, sync_dir};
use super::purpose::Purpose;
use super::residence::Residence;
use crate::error::{Error, Result};
use crate::role;
use base::aligned::AlignedBuf;
use base::codec::fixed::{get_u16, get_u32, get_u64, set_u16, set_u32, set_u64};
use base::crc;
use base::sync::Parker;
use metrics::{FileKind, Metrics, SyncReason};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vfs::{Create, OpenMode, Vfs};

const MAGIC: &[u8; 8] = b"MPONDDIR";
const FORMAT: u16 = 1;
const BYTES: usize = 4096;
const CRC: usize = 24;

const LOCK: &str = "LOCK";
/// The file of the doublewrite in its directory.
pub(super) const AREAS: &str = "areas";
/// How often a lock is tried that another process holds: for a second in all.
const LOCK_TRIES: u32 = 100;
/// The pause between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// A directory that a file system makes in its root.
const LOST_AND_FOUND: &str = "lost+found";
/// The most names that an error lists.
const NAMED_MAX: usize = 3;

/// The database that a directory belongs to, and the directory's purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirOwner {
    pub(super) db_id: u64,
    pub(super) purpose: Purpose,
    /// The root has been durable.
    pub(super) created: bool,
}

/// The lock of a directory. As long as it exists, the directory is found by a handle, whatever
/// becomes of its path (Fi7).
pub(super) struct DirLock {
    pub(super) dir: PathBuf,
    _locked: Box<dyn Send + Sync>,
    _held: Box<dyn Send + Sync>,
}

/// The locks of a database's directories.
pub(super) type Locks = Vec<DirLock>;

impl DirOwner {
    fn encode(self, residence: Option<&Residence>) -> AlignedBuf {
        let mut bytes = AlignedBuf::zeroed(BYTES);
        bytes[..8].copy_from_slice(MAGIC);
        set_u16(&mut bytes, 8, FORMAT);
        bytes[10] = self.purpose as u8;
        bytes[11] = u8::from(self.created);
        set_u64(&mut bytes, 16, self.db_id);
        let crc = crc::crc32c(&bytes[..CRC]);
        set_u32(&mut bytes, CRC, crc);
        if let Some(residence) = residence {
            residence.encode(&mut bytes);
        }
        bytes
    }

    /// Reads the owner from the `LOCK` of a directory. Returns `None` if there is no such file, or
    /// if it is damaged.
    pub(super) fn of(vfs: &Vfs, dir: &Path) -> Result<Option<DirOwner>> {
        Ok(DirOwner::with_residence(vfs, dir)?.map(|(owner, _)| owner))
    }

    /// As [`DirOwner::of`], with what the `LOCK` says of where the directory is.
    pub(super) fn with_residence(vfs: &Vfs, dir: &Path) -> Result<Option<(DirOwner, Option<Residence>)>> {
        let path = dir.join(LOCK);
        let mode = OpenMode { create: Create::Never, direct: true, read_only: true };
        let file = match vfs.disk.open(&path, mode) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open", &path, e)),
        };
        let mut bytes = AlignedBuf::zeroed(BYTES);
        if file.len().map_err(|e| Error::io("measure", &path, e))? < BYTES as u64 {
            return Ok(None);
        }
        file.read_at(&mut bytes, 0).map_err(|e| Error::io("read", &path, e))?;
        if &bytes[..8] != MAGIC || get_u32(&bytes, CRC) != crc::crc32c(&bytes[..CRC]) {
            return Ok(None);
        }
        let format = get_u16(&bytes, 8);
        if format != FORMAT {
            return Err(Error::other_format(&path, format.into(), FORMAT.into()));
        }
        let Some(purpose) = Purpose::from_u8(bytes[10]) else { return Ok(None) };
        let owner = DirOwner { db_id: get_u64(&bytes, 16), purpose, created: bytes[11] != 0 };
        Ok(Some((owner, Residence::decode(&bytes))))
    }

    /// Writes this owner, and the residence of a directory of the database in `home`, into the
    /// directory's `LOCK`, durably. It fits in one sector, so it is written as a whole or not at
    /// all.
    pub(super) fn claim(
        self,
        vfs: &Vfs,
        dir: &Path,
        home: &Path,
        metrics: &Metrics,
        reason: SyncReason,
    ) -> Result {
        let residence = Residence::of(vfs, dir, home)?;
        let path = dir.join(LOCK);
        let mode = OpenMode { create: Create::IfMissing, direct: true, read_only: false };
        let file = vfs.disk.open(&path, mode).map_err(|e| Error::io("create", &path, e))?;
        file.write_at(&self.encode(residence.as_ref()), 0).map_err(|e| Error::io("write", &path, e))?;
        let start = vfs.clock.now_us();
        file.sync().map_err(|e| Error::io("sync", &path, e))?;
        metrics.fsync(FileKind::Lock, reason, vfs.clock.now_us() - start, role::callers());
        sync_dir(vfs, metrics, dir, reason)
    }
}

pub(super) fn foreign(dir: &Path, what: String) -> Error {
    Error::Foreign { file: dir.to_owned(), what }
}

/// Returns the names in a directory, except the lock, `lost+found`, and those that lead to `ours`.
/// A missing directory has none.
pub(super) fn foreign_names(vfs: &Vfs, dir: &Path, ours: &[&Path]) -> Result<Vec<String>> {
    let mut names = match vfs.disk.list(dir) {
        Ok(names) => names,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("list", dir, e)),
    };
    names.retain(|name| {
        let path = dir.join(name);
        name != LOCK && name != LOST_AND_FOUND && !ours.iter().any(|ours| ours.starts_with(&path))
    });
    Ok(names)
}

pub(super) fn list_some(names: &[String]) -> String {
    let mut some = names[..names.len().min(NAMED_MAX)].join(", ");
    if names.len() > NAMED_MAX {
        some.push_str(", …");
    }
    some
}

/// The error for a directory that is used for two purposes, by two names or two options.
pub(super) fn used_twice(dir: &Path, as_what: Purpose, wanted: Purpose) -> Error {
    let (is, wanted) = (as_what.description(), wanted.description());
    let dir = dir.display();
    Error::Misuse(format!(
        "{dir} is the {is} of this database and cannot be its {wanted} as well: each is one of its own"
    ))
}

/// Holds a directory and takes its lock. The lock of a killed process lasts until the kernel has
/// ended the writes that were in flight, shortly after the process. So a lock that is held is tried
/// again for a second.
pub(super) fn take_lock(vfs: &Vfs, dir: &Path, me: Option<(u64, Purpose)>) -> Result<DirLock> {
    let held = vfs.disk.hold(dir).map_err(|e| Error::io("open", dir, e))?;
    let (path, pause) = (dir.join(LOCK), Parker::new());
    for _ in 0..LOCK_TRIES {
        match vfs.disk.lock(&path) {
            Ok(locked) => return Ok(DirLock { dir: dir.to_owned(), _locked: locked, _held: held }),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(Error::io("lock", &path, e)),
        }
        if let (Some((db_id, wanted)), Some(owner)) = (me, DirOwner::of(vfs, dir)?)
            && owner.db_id == db_id
            && owner.purpose != wanted
        {
            return Err(used_twice(dir, owner.purpose, wanted));
        }
        pause.park_for(LOCK_PAUSE);
    }
    Err(Error::InUse { dir: dir.to_owned() })
}

/// Whether the directory holds files of this purpose that belong to the database, and no move to it
/// was cut short.
pub(super) fn holds(vfs: &Vfs, dir: &Path, db_id: u64, purpose: Purpose) -> Result<bool> {
    let owner = DirOwner { db_id, purpose, created: true };
    if DirOwner::of(vfs, dir)? != Some(owner) {
        return Ok(false);
    }
    let names = foreign_names(vfs, dir, &[])?;
    Ok(names.iter().any(|name| if purpose == Purpose::Redo { name.ends_with(".log") } else { name == AREAS }))
}

/// The error for a directory that the root names.
pub(super) fn missing(dir: &Path, purpose: Purpose, how: &str) -> Error {
    let (what, option) = match purpose {
        Purpose::Doublewrite => ("doublewrite", "doublewrite_dir"),
        _ => ("redo log", "redo_dir"),
    };
    let what = format!(
        "{how}: the root file says that the {what} was moved there; put it back, or name the directory that \
         its files are in now as {option}"
    );
    foreign(dir, what)
}

/// Locks the directory to which a part of an open database is to move, and writes the database's
/// id into it. Until the root names it, it counts as one that the database does not have. `vfs` is
/// one on which a failure stops nothing.
pub(super) fn claim_for_move(
    vfs: &Vfs,
    dir: &Path,
    home: &Path,
    (db_id, purpose): (u64, Purpose),
    metrics: &Metrics,
) -> Result<DirLock> {
    vfs.disk.list(dir).map_err(|e| Error::io("list", dir, e))?;
    let owner = DirOwner::of(vfs, dir)?;
    match owner {
        Some(owner) if owner.db_id != db_id => {
            return Err(foreign(dir, format!("is the {} of another database", owner.purpose.description())));
        }
        Some(owner) if owner.purpose != purpose => return Err(used_twice(dir, owner.purpose, purpose)),
        Some(_) | None => {}
    }
    let is_remains = owner.is_some_and(|owner| !owner.created);
    let mut names = foreign_names(vfs, dir, &[])?;
    names.retain(|name| !is_remains || !(name.ends_with(".new") || name == AREAS));
    if !names.is_empty() {
        let (names, wanted) = (list_some(&names), purpose.description());
        return Err(foreign(dir, format!("is not empty ({names}): a move wants an empty {wanted}")));
    }
    let lock = take_lock(vfs, dir, Some((db_id, purpose)))?;
    let owner = DirOwner { db_id, purpose, created: false };
    let claimed = owner.claim(vfs, dir, home, metrics, SyncReason::Create);
    let claimed = claimed.and_then(|()| sync_dir(vfs, metrics, parent_of(dir), SyncReason::Create));
    if let Err(error) = claimed {
        disown(vfs, dir);
        return Err(error);
    }
    Ok(lock)
}

/// Says in the directory that the root names it.
pub(super) fn mark_moved(
    vfs: &Vfs,
    dir: &Path,
    home: &Path,
    (db_id, purpose): (u64, Purpose),
    metrics: &Metrics,
) -> Result {
    DirOwner { db_id, purpose, created: true }.claim(vfs, dir, home, metrics, SyncReason::Create)
}

/// Empties the lock file of a directory that the database does not use any more. The file itself
/// stays: another process may be about to lock it. An error does not matter: the directory then
/// counts as one of this database, without files.
pub(super) fn disown(vfs: &Vfs, dir: &Path) {
    let mode = OpenMode { create: Create::Never, direct: true, read_only: false };
    let emptied = vfs.disk.open(&dir.join(LOCK), mode).and_then(|file| {
        file.set_len(0)?;
        file.sync()
    });
    drop(emptied);
}
