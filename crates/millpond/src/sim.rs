//! The simulator's way in: a database on any disk, of sizes that users cannot choose.

use crate::db::Db;
use crate::error::Result;
use crate::options::{Medium, Options, Tuning};
use std::path::Path;
use vfs::Vfs;

/// Sizes that users cannot choose.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Frames of the buffer pool.
    pub frames: usize,
    /// Blocks of a log segment.
    pub segment_blocks: u64,
    /// Blocks of the log buffer, a power of two.
    pub ring_blocks: usize,
    /// Pages of an area of the doublewrite.
    pub doublewrite_pages: usize,
    /// Pages by which the file grows.
    pub grow_pages: u32,
    /// Redo that a worker of recovery holds in memory before it turns to the pages, bytes.
    pub replay_window_bytes: usize,
    /// So much replay a crash in its midst repeats at most, microseconds.
    pub replay_checkpoint_us: u64,
    /// Log that an opening may read, about, bytes.
    pub head_bytes: u64,
}

/// `options` with other sizes.
#[must_use]
pub fn sized(mut options: Options, sizes: Sizes) -> Options {
    let Sizes { frames, segment_blocks, ring_blocks, doublewrite_pages, grow_pages, .. } = sizes;
    let Sizes { replay_window_bytes, replay_checkpoint_us, head_bytes, .. } = sizes;
    options.tuning = Tuning {
        frames,
        segment_blocks,
        ring_blocks,
        doublewrite_pages,
        grow_pages,
        replay_window_bytes,
        replay_checkpoint_us,
        head_bytes,
        ..options.tuning
    };
    options
}

/// Opens the database in `dir` of a disk.
///
/// # Errors
/// See [`Options::open`].
pub fn open(vfs: &Vfs, dir: &Path, options: &Options) -> Result<Db> {
    Db::open_on(&options.vfs(Medium::Given(vfs.clone())), dir, options)
}

/// Gives the buffer pool of an open database so many frames.
///
/// # Errors
/// See [`Db::set_buffer_pool_bytes`].
pub fn set_frames(db: &Db, frames: usize) -> Result<()> {
    db.set_frames(frames)
}
