//! Opening a database, and recovery after a crash, in four steps:
//!
//! 1. *lock*: take the locks and read the root, or create the database ([`super::locked_root`]);
//! 2. *adopt*: read the log to its end, judge the copies of pages, begin a new epoch, restore torn
//!    pages ([`super::adopt`]);
//! 3. *build*: make the log, the pool and everything above them ([`super::build`]);
//! 4. *catch up*: replay the log, read the space map ([`super::catch_up`]).
//!
//! No file of an existing database is changed before the log's end is known to be sound, except for
//! undo files that nothing names. Then the first change may be log that a killed process has not
//! synced.

use super::claim::check_distinct;
use super::core::Engine;
use super::opening::Opening;
use super::paths::Paths;
use super::progress_file::{ProgressFile, Stage};
use super::{adopt, build, catch_up};
use crate::environment::Environment;
use crate::error::{Poison, Result};
use crate::log::block::block_of;
use crate::options::Options;
use crate::role;
use metrics::Metrics;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::Vfs;
use vfs::descriptor_cache::CachedDirs;

impl Engine {
    /// Opens the engine in `dir`, recovering it; creates it if there is none.
    pub(crate) fn open(vfs: &Vfs, dir: &Path, options: &Options) -> Result<Engine> {
        options.validate()?;
        let _asked = role::page_writes();
        let metrics = Arc::new(Metrics::new());
        let (dir, options) = (&vfs.disk.absolute(dir), &with_absolute_dirs(vfs, options));
        let paths = Paths::new(dir, options);
        check_distinct(&paths)?;
        let unlatched = vfs;
        let cached = CachedDirs::default();
        let vfs = paths.with_descriptor_cache(vfs, &cached, &metrics).fail_stop();
        let opened_us = vfs.clock.now_us();
        let poison = Arc::new(Poison::telling(options.on_failure.clone()));
        let environment = Environment { vfs, metrics, poison };
        let mut opening = Opening { environment, paths, cached, options, unlatched, opened_us };

        let locked_root = opening.lock_root(dir)?;
        ProgressFile::new(unlatched, dir, options).tell(Stage::Opening, false);
        let (adopted, recovery) = adopt::adopt(&opening, locked_root)?;
        let (engine, from) = build::build(&opening, adopted, recovery)?;
        engine.store.log.segments().remove_strays(&opening.paths.redo_dirs())?;
        engine.parts.switches.log_size.make_first_files()?;
        let log = &engine.store.log;
        let first = log.segments().shape().segment_of(block_of(log.durable_lsn()));
        log.segments().keep_open(first)?;
        engine.parts.switches.log_size.update_limits(opening.environment.vfs.clock.now_us());
        if !options.tuning.no_threads {
            engine.start()?;
        }
        catch_up::catch_up(&engine, &opening, from)?;
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
