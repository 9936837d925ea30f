//! Opening a database, and recovery after a crash, in four steps:
//!
//! 1. *inspect*: take the locks and read the root, or create the database;
//! 2. *adopt*: read the log to its end, judge the copies of pages, begin a new epoch, restore torn
//!    pages ([`super::adopt`]);
//! 3. *build*: make the log, the pool and everything above them ([`super::build`]);
//! 4. *catch up*: replay the log, read the space map ([`super::catch_up`]).
//!
//! No file of an existing database is changed before the log's end is known to be sound, except for
//! undo files that nothing names. Then the first change may be log that a killed process has not
//! synced.

use super::claim::{check_distinct, check_unclaimed, claim_existing};
use super::create::create;
use super::directory::{Locks, take_lock};
use super::durable_dir::make_dir;
use super::paths::Paths;
use super::progress_file::{ProgressFile, Stage};
use super::sync_existing::{sync_existing, sync_file};
use super::{Engine, adopt, build, pool_size};
use crate::checkpoint::root::{Root, RootFile};
use crate::context::Context;
use crate::duty;
use crate::error::{Error, Poison, Result};
use crate::log::block::block_of;
use crate::options::Options;
use crate::txn::HistoryLimits;
use metrics::{FileKind, Metrics};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::Vfs;
use vfs::descriptor_cache::CachedDirs;

/// What every step of opening needs.
pub(super) struct Opening<'o> {
    /// Its files write nothing after the first failure, and few are open at once.
    pub(super) context: Context,
    pub(super) paths: Paths,
    /// The directories of which few files are open.
    pub(super) cached: CachedDirs,
    pub(super) options: &'o Options,
    /// The same files as the caller gave them, for the flight recorder.
    pub(super) unlatched: &'o Vfs,
    /// When opening began, microseconds of the clock.
    pub(super) opened_us: u64,
}

impl Opening<'_> {
    /// Size of the buffer pool, bytes.
    pub(super) fn pool_bytes(&self) -> u64 {
        let by_default = || pool_size::default_bytes(self.context.vfs.clock.memory_bytes());
        self.options.buffer_pool_bytes.unwrap_or_else(by_default)
    }

    /// Memory for undo, transaction states and locks, bytes.
    pub(super) fn history_bytes(&self) -> u64 {
        HistoryLimits::memory(self.options.history_memory_bytes, self.pool_bytes())
    }
}

/// A database whose locks are held and whose root has been read.
pub(super) struct Inspected {
    pub(super) locks: Locks,
    pub(super) root_file: RootFile,
    pub(super) root: Root,
}

impl Engine {
    /// Opens the engine in `dir`, recovering it; creates it if there is none.
    pub(crate) fn open(vfs: &Vfs, dir: &Path, options: &Options) -> Result<Engine> {
        options.validate()?;
        let _asked = duty::page_writes();
        let metrics = Arc::new(Metrics::new());
        let (dir, options) = (&vfs.disk.absolute(dir), &with_absolute_dirs(vfs, options));
        let paths = Paths::new(dir, options);
        check_distinct(&paths)?;
        let unlatched = vfs;
        let cached = CachedDirs::default();
        let vfs = paths.with_descriptor_cache(vfs, &cached, &metrics).fail_stop();
        let opened_us = vfs.clock.now_us();
        let poison = Arc::new(Poison::telling(options.on_failure.clone()));
        let context = Context { vfs, metrics, poison };
        let mut opening = Opening { context, paths, cached, options, unlatched, opened_us };

        let inspected = opening.inspect(dir)?;
        ProgressFile::new(unlatched, dir, options).tell(Stage::Opening, false);
        let (adopted, recovery) = adopt::adopt(&opening, inspected)?;
        let (engine, catch_up) = build::build(&opening, adopted, recovery)?;
        engine.store.log.segments().remove_strays(&opening.paths.redo_dirs())?;
        engine.shared.make_first_files()?;
        let log = &engine.store.log;
        let first = log.segments().shape().segment_of(block_of(log.durable_lsn()));
        log.segments().keep_open(first)?;
        engine.shared.update_marks(opening.context.vfs.clock.now_us());
        if !options.tuning.no_threads {
            engine.start()?;
        }
        engine.catch_up(&opening, catch_up)?;
        Ok(engine)
    }
}

/// Returns options whose directories are named by absolute paths. A directory is held by its path
/// (Fi7), so a path must not begin to mean another one, and messages show where the files are.
fn with_absolute_dirs(vfs: &Vfs, options: &Options) -> Options {
    let absolute = |dir: &Option<PathBuf>| dir.as_ref().map(|dir| vfs.disk.absolute(dir));
    Options {
        redo_dir: absolute(&options.redo_dir),
        doublewrite_dir: absolute(&options.doublewrite_dir),
        ..options.clone()
    }
}

impl Opening<'_> {
    /// Takes the locks of all directories and reads the root. Creates the database if there is
    /// none.
    fn inspect(&mut self, dir: &Path) -> Result<Inspected> {
        let Opening { context: Context { vfs, metrics, .. }, paths, cached, options, .. } = self;
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
                paths.follow(vfs, options, root.db_id, &root.places)?;
                check_distinct(paths)?;
                paths.check_recorded(vfs)?;
                paths.redo_dirs().into_iter().for_each(|dir| cached.add(dir));
                sync_existing(vfs, dir, paths, metrics)?;
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
        Ok(Inspected { locks, root_file, root })
    }
}
