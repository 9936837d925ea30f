//! The file `progress` of a database: what its recovery does and how far it is, as text, from the
//! first moment of an opening on. Programs that watch a server read it.
//!
//! Nothing is synced, and no call fails if a write fails. So the file is not a part of the
//! fail-stop disk ([`vfs::fail_stop`]). It keeps its length, so that it needs no space on a full
//! disk; it is made only while the disk has space that nothing else needs (INV-27).

use crate::options::Options;
use base::sync::Mutex;
use pace::replay_progress::{ReplayView, replay_progress};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use vfs::{Create, OpenMode, Vfs};

/// The name of the file.
const NAME: &str = "progress";
/// Its length, bytes. The text is padded with spaces.
const BYTES: usize = 256;
/// It is written again after so long, microseconds: a few times a second, for whoever watches it.
const INTERVAL_US: u64 = 200_000;

/// What a recovery does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The end of the log is read. No transaction can begin.
    Opening,
    /// The database is open, and redo is applied beside the callers.
    Replaying(ReplayView),
    /// No page lacks redo.
    Done,
}

/// The file of a database. It is opened for each write: it is written a few times in a minute's
/// recovery, and then never again.
#[derive(Debug)]
pub(super) struct ProgressFile {
    vfs: Vfs,
    path: PathBuf,
    /// A database in memory has no file.
    exists: bool,
    /// When it was written last, microseconds of the clock.
    written_us: Mutex<Option<u64>>,
}

impl ProgressFile {
    /// REQUIRES: `vfs` is without the latch of the first failure.
    pub(super) fn new(vfs: &Vfs, dir: &Path, options: &Options) -> ProgressFile {
        let exists = !vfs.disk.is_ephemeral() && !options.tuning.no_progress_file;
        ProgressFile { vfs: vfs.clone(), path: dir.join(NAME), exists, written_us: Mutex::default() }
    }

    /// Says what the recovery does. A file that is missing is made if it `may_be_made`.
    pub(super) fn tell(&self, stage: Stage, may_be_made: bool) {
        if self.exists {
            self.write(stage, may_be_made, &mut self.written_us.lock());
        }
    }

    /// Says how far replay has come, a few times a second.
    pub(super) fn tell_replay(&self, view: impl FnOnce() -> ReplayView) {
        if !self.exists {
            return;
        }
        // Another worker that is just telling tells the same.
        let Some(mut written_us) = self.written_us.try_lock() else { return };
        let now_us = self.vfs.clock.now_us();
        if written_us.is_none_or(|written_us| now_us >= written_us + INTERVAL_US) {
            self.write(Stage::Replaying(view()), false, &mut written_us);
        }
    }

    fn write(&self, stage: Stage, may_be_made: bool, written_us: &mut Option<u64>) {
        let create = if may_be_made { Create::IfMissing } else { Create::Never };
        let mode = OpenMode { create, direct: false, read_only: false };
        if let Ok(file) = self.vfs.disk.open(&self.path, mode) {
            drop(file.write_at(&text(stage), 0));
        }
        *written_us = Some(self.vfs.clock.now_us());
    }
}

/// Returns the content of the file: lines `name=value`.
fn text(stage: Stage) -> [u8; BYTES] {
    let (name, redo, left, percent, seconds) = match stage {
        Stage::Opening => ("opening", None, None, 0, None),
        Stage::Replaying(view) => {
            let progress = replay_progress(view);
            let (redo, left) = (view.redo_bytes, view.left_bytes);
            ("replaying", Some(redo), Some(left), progress.percent, progress.seconds_left)
        }
        Stage::Done => ("done", None, Some(0), 100, Some(0)),
    };
    let mut text = format!("state={name}\npercent={percent}\n");
    for (name, value) in [("seconds_left", seconds), ("redo_bytes", redo), ("left_bytes", left)] {
        // What is not known is left empty, so that each file has the same lines.
        let value = value.map_or(String::new(), |value| value.to_string());
        let _ = writeln!(text, "{name}={value}");
    }
    let mut bytes = [b' '; BYTES];
    let length = text.len().min(BYTES - 1);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes[BYTES - 1] = b'\n';
    bytes
}
