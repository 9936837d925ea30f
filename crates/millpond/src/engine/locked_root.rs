//! The first step of opening: takes the locks and reads the root, or creates the database.

use super::claim::{check_distinct, check_unclaimed, claim_existing};
use super::create::create;
use super::directory::{Locks, take_lock};
use super::durable_dir::make_dir;
use super::opening::Opening;
use super::sync_existing::{sync_existing, sync_file};
use crate::checkpoint::root::{Root, RootFile};
use crate::environment::Environment;
use crate::error::{Error, Result};
use metrics::FileKind;
use std::path::Path;

/// A database whose locks are held and whose root has been read.
pub(super) struct LockedRoot {
    pub(super) locks: Locks,
    pub(super) root_file: RootFile,
    pub(super) root: Root,
}

impl Opening<'_> {
    /// Takes the locks of all directories and reads the root. Creates the database if there is
    /// none.
    pub(super) fn lock_root(&mut self, dir: &Path) -> Result<LockedRoot> {
        let Opening { environment: Environment { vfs, metrics, .. }, paths, cached, options, .. } = self;
        make_dir(vfs, dir)?;
        if !vfs.disk.list(dir).map_err(|e| Error::io("list", dir, e))?.iter().any(|name| name == "root") {
            // This check comes before a lock file is made in a directory that may belong to another
            // database.
            check_unclaimed(vfs, paths)?;
        }
        let mut locks = vec![take_lock(vfs, dir, None)?];
        sync_file(vfs, &paths.root, FileKind::Root, metrics)?;
        match RootFile::open(vfs, &paths.root, metrics)? {
            None => create(vfs, paths, options, metrics, &mut locks)?,
            Some((_, root)) => {
                paths.follow(vfs, options, root.db_id, &root.dirs)?;
                check_distinct(paths)?;
                paths.check_recorded(vfs)?;
                paths.redo_dirs().into_iter().for_each(|dir| cached.add(dir));
                sync_existing(vfs, dir, paths, root.page_bytes, metrics)?;
                claim_existing(vfs, paths, root.db_id, metrics, &mut locks)?;
            }
        }
        let Some((root_file, root)) = RootFile::open(vfs, &paths.root, metrics)? else {
            return Err(Error::corrupt(&paths.root, "it was written and cannot be read"));
        };
        if let Some(requested) = options.page_bytes
            && requested != root.page_bytes
        {
            let has = root.page_bytes;
            return Err(Error::Misuse(format!("the database has pages of {has} bytes, not {requested}")));
        }
        Ok(LockedRoot { locks, root_file, root })
    }
}
