//! [`Paths`]: where the files of a database are.

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
    pub(crate) redo: PathBuf,
    /// Where segments are that the log has left behind in a move.
    pub(super) redo_before: Option<PathBuf>,
    pub(crate) undo: PathBuf,
    pub(super) doublewrite: PathBuf,
    pub(super) doublewrite_before: Option<PathBuf>,
    pub(crate) lock: PathBuf,
    /// The root names the directory of the log, and of the doublewrite.
    redo_recorded: bool,
    doublewrite_recorded: bool,
}

impl Paths {
    pub(crate) fn new(dir: &Path, options: &Options) -> Paths {
        Paths {
            dir: dir.to_owned(),
            root: dir.join("root"),
            pages: dir.join("pages"),
            undo: dir.join("undo"),
            redo: options.redo_dir.clone().unwrap_or_else(|| dir.join("redo")),
            redo_before: None,
            doublewrite: options.doublewrite_dir.clone().unwrap_or_else(|| dir.join("doublewrite")),
            doublewrite_before: None,
            lock: dir.join("LOCK"),
            redo_recorded: false,
            doublewrite_recorded: false,
        }
    }

    /// Takes the directories of log and doublewrite from the root of database `db_id`.
    pub(crate) fn follow(&mut self, vfs: &Vfs, options: &Options, db_id: u64, dirs: &RootDirs) -> Result {
        let (redo, doublewrite) = (options.redo_dir.as_deref(), options.doublewrite_dir.as_deref());
        let is_here = |purpose| move |dir: &Path| holds(vfs, dir, db_id, purpose);
        (self.redo, self.redo_before) = choose(&self.dir, &dirs.redo, redo, "redo", is_here(Purpose::Redo))?;
        (self.doublewrite, self.doublewrite_before) =
            choose(&self.dir, &dirs.doublewrite, doublewrite, "doublewrite", is_here(Purpose::Doublewrite))?;
        let names =
            |dirs: &PurposeDirs, dir: &Path| dirs.now.as_ref().is_some_and(|now| self.dir.join(now) == dir);
        self.redo_recorded = names(&dirs.redo, &self.redo);
        self.doublewrite_recorded = names(&dirs.doublewrite, &self.doublewrite);
        Ok(())
    }

    /// Returns what the next root says of these directories. `dirs` is what the root has said.
    pub(super) fn root_dirs(&self, dirs: &RootDirs) -> RootDirs {
        let next = |dirs: &PurposeDirs, is_recorded: bool, dir: &Path| match &dirs.now {
            // The files were moved by hand. If the root cannot name where they are now, an option
            // must.
            Some(_) if !is_recorded => PurposeDirs { now: recorded(&self.dir, dir).ok(), before: None },
            _ => dirs.clone(),
        };
        RootDirs {
            redo: next(&dirs.redo, self.redo_recorded, &self.redo),
            doublewrite: next(&dirs.doublewrite, self.doublewrite_recorded, &self.doublewrite),
        }
    }

    /// Whether the root names the directory of this purpose.
    pub(super) fn is_recorded(&self, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Redo => self.redo_recorded,
            Purpose::Doublewrite => self.doublewrite_recorded,
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
        std::iter::once(&self.redo).chain(&self.redo_before).map(PathBuf::as_path).collect()
    }

    /// Returns the files of the doublewrite, that of now first.
    pub(crate) fn doublewrite_files(&self) -> Vec<PathBuf> {
        std::iter::once(&self.doublewrite)
            .chain(&self.doublewrite_before)
            .map(|dir| dir.join(AREAS))
            .collect()
    }

    /// Returns the directories for redo, undo and doublewrite, with their purposes.
    pub(super) fn other_dirs(&self) -> impl Iterator<Item = (&Path, Purpose)> {
        let parts = [
            (Some(&self.redo), Purpose::Redo),
            (self.redo_before.as_ref(), Purpose::Redo),
            (Some(&self.undo), Purpose::Undo),
            (Some(&self.doublewrite), Purpose::Doublewrite),
            (self.doublewrite_before.as_ref(), Purpose::Doublewrite),
        ];
        parts.into_iter().filter_map(|(dir, purpose)| Some((dir?.as_path(), purpose)))
    }

    /// Limits how many files of the log and of undo are open at once: there may be thousands.
    pub(super) fn with_descriptor_cache(
        &self,
        vfs: &Vfs,
        cached: &CachedDirs,
        metrics: &Arc<Metrics>,
    ) -> Vfs {
        cached.add(&self.redo);
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
