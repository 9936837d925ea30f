//! [`Paths`]: where the files of a database are. [`Dirs`]: where the log or the doublewrite is.

use super::directory::{AREAS, holds, missing};
use super::purpose::Purpose;
use crate::checkpoint::directories::{PurposeDirs, RootDirs, choose, recorded};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::role;
use metrics::{FileKind, Metrics, SyncReason};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::Vfs;
use vfs::descriptor_cache::CachedDirs;

/// The files of a database (Fi1).
pub(crate) struct Paths {
    pub(super) dir: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) pages: PathBuf,
    pub(crate) redo: Dirs,
    pub(crate) undo: PathBuf,
    pub(super) doublewrite: Dirs,
    pub(crate) lock: PathBuf,
}

/// Where the log or the doublewrite is, and where a move has left files of it.
#[derive(Clone, Debug)]
pub(crate) struct Dirs {
    pub(crate) now: PathBuf,
    pub(super) before: Option<PathBuf>,
    /// The root names the directory of now.
    is_recorded: bool,
}

impl Dirs {
    /// Those of a part that was never moved.
    fn unmoved(now: PathBuf) -> Dirs {
        Dirs { now, before: None, is_recorded: false }
    }

    /// Those of a database in `dir` whose root says `root`, as [`choose`] finds them.
    fn chosen(
        dir: &Path,
        root: &PurposeDirs,
        option: Option<&Path>,
        default: &str,
        holds: impl Fn(&Path) -> Result<bool>,
    ) -> Result<Dirs> {
        let (now, before) = choose(dir, root, option, default, holds)?;
        let is_recorded = root.now.as_ref().is_some_and(|named| dir.join(named) == now);
        Ok(Dirs { now, before, is_recorded })
    }

    /// Returns what the next root says of them. `root` is what the root has said.
    fn in_next_root(&self, dir: &Path, root: &PurposeDirs) -> PurposeDirs {
        match &root.now {
            // The files were moved by hand. If the root cannot name where they are now, an option
            // must.
            Some(_) if !self.is_recorded => PurposeDirs { now: recorded(dir, &self.now).ok(), before: None },
            _ => root.clone(),
        }
    }

    /// Returns both, that of now first.
    fn all(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.now.as_path()).chain(self.before.as_deref())
    }

    /// Notes that the part moves to `wanted`, which the root names.
    pub(super) fn move_to(&mut self, wanted: &Path) {
        self.before = Some(std::mem::replace(&mut self.now, wanted.to_owned()));
        self.is_recorded = true;
    }
}

impl Paths {
    pub(crate) fn new(dir: &Path, options: &Options) -> Paths {
        Paths {
            dir: dir.to_owned(),
            root: dir.join("root"),
            pages: dir.join("pages"),
            undo: dir.join("undo"),
            redo: Dirs::unmoved(options.redo_dir.clone().unwrap_or_else(|| dir.join("redo"))),
            doublewrite: Dirs::unmoved(
                options.doublewrite_dir.clone().unwrap_or_else(|| dir.join("doublewrite")),
            ),
            lock: dir.join("LOCK"),
        }
    }

    /// Takes the directories of log and doublewrite from the root of database `db_id`.
    pub(crate) fn follow(&mut self, vfs: &Vfs, options: &Options, db_id: u64, root: &RootDirs) -> Result {
        let (redo, doublewrite) = (options.redo_dir.as_deref(), options.doublewrite_dir.as_deref());
        let is_here = |purpose| move |dir: &Path| holds(vfs, dir, db_id, purpose);
        self.redo = Dirs::chosen(&self.dir, &root.redo, redo, "redo", is_here(Purpose::Redo))?;
        let is_here = is_here(Purpose::Doublewrite);
        self.doublewrite = Dirs::chosen(&self.dir, &root.doublewrite, doublewrite, "doublewrite", is_here)?;
        Ok(())
    }

    /// Returns what the next root says of these directories. `root` is what the root has said.
    pub(super) fn root_dirs(&self, root: &RootDirs) -> RootDirs {
        RootDirs {
            redo: self.redo.in_next_root(&self.dir, &root.redo),
            doublewrite: self.doublewrite.in_next_root(&self.dir, &root.doublewrite),
        }
    }

    /// Whether the root names the directory of this purpose.
    pub(super) fn is_recorded(&self, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Redo => self.redo.is_recorded,
            Purpose::Doublewrite => self.doublewrite.is_recorded,
            Purpose::Database | Purpose::Undo => false,
        }
    }

    /// Fails if a directory that the root names has lost its files, or is gone.
    pub(super) fn check_recorded(&self, vfs: &Vfs) -> Result {
        for (dir, purpose) in self.other_dirs().filter(|(_, purpose)| self.is_recorded(*purpose)) {
            match vfs.disk.list(dir) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    return Err(missing(dir, purpose, "is missing"));
                }
                Err(e) => return Err(Error::io("list", dir, e)),
                Ok(names) if names.is_empty() => return Err(missing(dir, purpose, "is empty")),
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Returns the directories of the log, that of now first.
    pub(crate) fn redo_dirs(&self) -> Vec<&Path> {
        self.redo.all().collect()
    }

    /// Returns the files of the doublewrite, that of now first.
    pub(crate) fn doublewrite_files(&self) -> Vec<PathBuf> {
        self.doublewrite.all().map(|dir| dir.join(AREAS)).collect()
    }

    /// Returns the directories for redo, undo and doublewrite, with their purposes.
    pub(super) fn other_dirs(&self) -> impl Iterator<Item = (&Path, Purpose)> {
        let redo = self.redo.all().map(|dir| (dir, Purpose::Redo));
        let doublewrite = self.doublewrite.all().map(|dir| (dir, Purpose::Doublewrite));
        redo.chain([(self.undo.as_path(), Purpose::Undo)]).chain(doublewrite)
    }

    /// Limits how many files of the log and of undo are open at once: there may be thousands.
    pub(super) fn with_descriptor_cache(
        &self,
        vfs: &Vfs,
        cached: &CachedDirs,
        metrics: &Arc<Metrics>,
    ) -> Vfs {
        cached.add(&self.redo.now);
        cached.add(&self.undo);
        let metrics = Arc::clone(metrics);
        let on_sync =
            move |took_us| metrics.fsync(FileKind::Undo, SyncReason::Harden, took_us, role::callers());
        vfs.with_descriptor_cache(cached, Box::new(on_sync))
    }

    /// Returns whether data that is synced in these directories survives a power cut. REQUIRES: the
    /// directories exist.
    pub(super) fn are_durable(&self, vfs: &Vfs) -> bool {
        vfs.disk.is_durable(&self.dir) && self.other_dirs().all(|(dir, _)| vfs.disk.is_durable(dir))
    }
}
