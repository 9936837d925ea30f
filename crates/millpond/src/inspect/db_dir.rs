//! The directory of the database to view: its files, through a disk that refuses writes, and
//! whether another process uses it.

use crate::checkpoint::root::{Root, RootFile};
use crate::engine::Paths;
use crate::error::{Error, Result};
use crate::log::segment::{SegmentShape, Segments};
use crate::options::Options;
use metrics::Metrics;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vfs::Vfs;

/// Whether a process has the database open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InUse {
    No,
    Yes,
    Unknown(String),
}

impl InUse {
    /// Returns the sentence that begins every view.
    pub(super) fn sentence(&self) -> String {
        match self {
            InUse::No => "not in use".to_owned(),
            InUse::Yes => "IN USE by another process: what follows may change while it is read".to_owned(),
            InUse::Unknown(why) => format!("perhaps in use (its lock cannot be tried: {why})"),
        }
    }
}

/// A directory that holds a database.
pub(crate) struct DbDir {
    pub(crate) vfs: Vfs,
    pub(crate) dir: PathBuf,
    pub(crate) paths: Paths,
    pub(crate) in_use: InUse,
}

impl DbDir {
    /// Opens the directory for reading. Fails if there is no such directory, or no root in it.
    pub(crate) fn open(vfs: &Vfs, dir: &Path) -> Result<DbDir> {
        let reading = vfs.read_only();
        let names = reading.disk.list(dir).map_err(|e| Error::io("list", dir, e))?;
        let mut paths = Paths::new(dir, &Options::new());
        if !names.iter().any(|name| name == "root") {
            let what = "is not the directory of a database: it has no root".to_owned();
            return Err(Error::Foreign { file: dir.to_owned(), what });
        }
        // Tries only a lock file that exists, so that none is made. It is released at once, so a
        // process that opens the database meanwhile is refused only for that short time.
        let in_use = if names.iter().any(|name| name == "LOCK") {
            match vfs.disk.lock(&paths.lock) {
                Ok(held) => {
                    drop(held);
                    InUse::No
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => InUse::Yes,
                Err(e) => InUse::Unknown(e.to_string()),
            }
        } else {
            InUse::No
        };
        if let Ok(Some((_, root))) = RootFile::open(&reading, &paths.root, &Arc::new(Metrics::new())) {
            paths.follow(&reading, &Options::new(), root.db_id, &root.dirs)?;
        }
        Ok(DbDir { vfs: reading, dir: dir.to_owned(), paths, in_use })
    }

    /// Returns the root that opening would use.
    pub(crate) fn root(&self) -> Result<Root> {
        match RootFile::open(&self.vfs, &self.paths.root, &Arc::new(Metrics::new()))? {
            Some((_, root)) => Ok(root),
            None => Err(Error::io("open", &self.paths.root, ErrorKind::NotFound.into())),
        }
    }

    /// Opens the log's segments.
    pub(super) fn segments(&self, root: &Root) -> Result<Segments> {
        let shape = SegmentShape { db_id: root.db_id, blocks: root.segment_blocks };
        Segments::open(&self.vfs, &self.paths.redo_dirs(), shape, &Arc::new(Metrics::new()))
    }
}

/// Formats bytes of a key or value, as many as fit a line.
pub(super) fn quoted(bytes: &[u8]) -> String {
    const SHOWN: usize = 32;
    if bytes.len() <= SHOWN {
        return format!("\"{}\"", bytes.escape_ascii());
    }
    format!("\"{}\"… ({} bytes)", bytes[..SHOWN].escape_ascii(), bytes.len())
}

/// Formats a part of a whole in percent.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

/// Formats rows of cells under a headline: the first column aligned left, all others right.
pub(super) fn text_table(head: &[&str], rows: &[Vec<String>]) -> String {
    let width = |n: usize| {
        let cells = rows.iter().map(|row| row[n].chars().count());
        cells.chain([head[n].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    let mut line = |cells: Vec<&str>| {
        for (n, cell) in cells.iter().enumerate() {
            let text = match n {
                0 => format!("  {cell:<width$}", width = widths[n]),
                _ => format!("  {cell:>width$}", width = widths[n]),
            };
            out.push_str(&text);
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    };
    line(head.to_vec());
    rows.iter().for_each(|row| line(row.iter().map(String::as_str).collect()));
    out
}
