//! The creation of a database.

use super::claim::{claim_new, mark_created};
use super::directory::{AREAS, Locks};
use super::durable_dir::sync_dir;
use super::paths::Paths;
use crate::checkpoint::directories::RootDirs;
use crate::checkpoint::protection::Protection;
use crate::checkpoint::root::{Root, RootFile};
use crate::error::Result;
use crate::flush::doublewrite::Doublewrite;
use crate::log::reader::EpochStart;
use crate::options::Options;
use crate::page_file::PageFile;
use base::Lsn;
use metrics::{Metrics, SyncReason};
use std::sync::Arc;
use vfs::Vfs;

/// Makes the files of a new database. The root is last, so a crash before it leaves no database.
/// The directories already name the new database, so a later creation recognises the remains of one
/// that was interrupted by its id.
pub(super) fn create(
    vfs: &Vfs,
    paths: &Paths,
    options: &Options,
    metrics: &Arc<Metrics>,
    locks: &mut Locks,
) -> Result {
    let dir = &paths.dir;
    let root = Root {
        db_id: claim_new(vfs, paths, metrics, locks)?,
        page_bytes: options.page_bytes.unwrap_or(8192),
        segment_blocks: options.tuning.segment_blocks,
        ring_blocks: options.tuning.ring_blocks,
        sequence: 1,
        checkpoint: Lsn::ZERO,
        undo_from: Lsn::ZERO,
        dirty: None,
        record: Lsn::MAX,
        durable: Lsn::ZERO,
        clean: false,
        protection: Protection::On.at_open(options.doublewrite.is_off(), true),
        dirs: RootDirs::default(),
        replay_rate: 0,
        epochs: vec![EpochStart { epoch: 1, first: Lsn::ZERO }],
    };
    let slots = options.tuning.doublewrite_pages;
    let areas = paths.doublewrite.now.join(AREAS);
    Doublewrite::create(vfs, &areas, root.db_id, root.page_bytes, slots, metrics)?;
    PageFile::create(vfs, &paths.pages, metrics)?;
    sync_dir(vfs, metrics, &paths.doublewrite.now, SyncReason::Create)?;
    // Everything that the root names must be durable before the root is.
    sync_dir(vfs, metrics, dir, SyncReason::Create)?;
    RootFile::create(vfs, &paths.root, &root, metrics)?;
    sync_dir(vfs, metrics, dir, SyncReason::Create)?;
    mark_created(vfs, dir, root.db_id, metrics)
}
