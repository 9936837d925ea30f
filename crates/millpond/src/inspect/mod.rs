//! Views of a database directory from outside: shows what its files contain, as text for engineers.
//!
//! A view does not open, recover or change the database: it reads every file through a disk that
//! refuses writes. So it shows the pages of the `pages` file, which may be older than the log; each
//! view says by how much. A directory in use can be viewed too, but its files change meanwhile.
//! Damage is shown in the view. An error is returned only where nothing can be shown:
//! [`Error::Io`](crate::Error::Io) for a file that is missing or cannot be read,
//! [`Error::Misuse`](crate::Error::Misuse) for a page that does not exist. If a tree or table does
//! not exist, the text says so.
//!
//! ```
//! # let dir = std::env::temp_dir().join(format!("millpond-doc-inspect-{}", std::process::id()));
//! # let db = millpond::Options::new().buffer_pool_bytes(16 << 20).open(&dir)?;
//! # db.create_table("accounts")?;
//! # db.close()?;
//! println!("{}", millpond::inspect::log(&dir)?);
//! println!("{}", millpond::inspect::table(&dir, "accounts")?);
//! # std::fs::remove_dir_all(&dir).ok();
//! # Ok::<(), millpond::Error>(())
//! ```

pub(crate) mod db_dir;
mod log;
mod page;
mod pages;
mod redo;
mod root;
mod table_size;
mod tail;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

use crate::error::Result;
use crate::options::{Medium, Options};
use crate::recorder;
#[doc(inline)]
pub use metrics::recording::{Recording, Sample, Samples};
#[doc(inline)]
pub use redo::{Redo, RedoOwner, RedoRow};
use std::path::Path;
use vfs::Vfs;

/// Returns the files that views read.
fn files() -> Vfs {
    Options::new().vfs(Medium::Os)
}

/// Shows both slots of the root: what each contains, and which one opening would use.
pub fn root(dir: &Path) -> Result<String> {
    root::view(&files(), dir)
}

/// Shows the redo log: segments, epochs, its end, its records by kind, its last groups, and the
/// unfinished transactions.
pub fn log(dir: &Path) -> Result<String> {
    log::view(&files(), dir)
}

/// Returns who writes the redo log: its bytes by tree and by kind of record, from the LSN `from`,
/// or from the checkpoint, to the log's end. `from` is a [`Redo::to_lsn`] of before; if the log
/// from there on is gone, the part begins at the checkpoint. The database may be open, closed or
/// crashed.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("millpond-doc-redo-{}", std::process::id()));
/// # let db = millpond::Options::new().buffer_pool_bytes(16 << 20).open(&dir)?;
/// # db.create_table("accounts")?;
/// let redo = millpond::inspect::redo(&dir, None)?;
/// let bytes: u64 = redo.rows.iter().map(|row| row.bytes).sum();
/// assert_eq!(bytes, redo.to_lsn - redo.from_lsn);
/// # db.close()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok::<(), millpond::Error>(())
/// ```
pub fn redo(dir: &Path, from: Option<u64>) -> Result<Redo> {
    redo::read(&files(), dir, from)
}

/// Shows one page of the `pages` file: header, content, and the redo that it lacks.
pub fn page(dir: &Path, number: u32) -> Result<String> {
    page::view(&files(), dir, number)
}

/// Shows the shape of a tree, named by its table or its number: levels, pages, fill.
pub fn tree(dir: &Path, name: &str) -> Result<String> {
    tree::view(&files(), dir, name)
}

/// Shows the size of a table: rows, delete marks, bytes, pages. It is named by its name or its
/// tree's number.
pub fn table(dir: &Path, name: &str) -> Result<String> {
    table_size::view(&files(), dir, name)
}

/// Reads what the flight recorder of a database has written: all metrics, once a second, for the
/// last hours ([`Options::recorder_interval`]). The database may be open, closed or crashed.
///
/// [`Error::Io`] if there is no recording, [`Error::Corrupt`] if its head is damaged. Damage
/// further on costs samples ([`Sample::after_gap`]).
///
/// [`Error::Io`]: crate::Error::Io
/// [`Error::Corrupt`]: crate::Error::Corrupt
/// [`Options::recorder_interval`]: crate::Options::recorder_interval
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("millpond-doc-recording-{}", std::process::id()));
/// # let db = millpond::Options::new().buffer_pool_bytes(16 << 20).open(&dir)?;
/// # db.create_table("accounts")?;
/// # db.close()?;
/// let recording = millpond::inspect::recording(&dir)?;
/// for sample in recording.samples() {
///     println!("{} µs: {} commits", sample.unix_us, sample.metrics.get("commits").unwrap());
/// }
/// # assert!(recording.samples().count() > 0);
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok::<(), millpond::Error>(())
/// ```
pub fn recording(dir: &Path) -> Result<Recording> {
    recorder::read(&files(), dir)
}
