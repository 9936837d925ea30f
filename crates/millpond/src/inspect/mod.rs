//! Views of a database directory from outside: what stands in its files, as text for engineers.
//!
//! Nothing is opened, recovered or changed: every file is read through a disk that refuses writes. So the pages are as
//! the `pages` file has them, which may be older than the log; each view says by how much. A directory in use can be
//! looked at too, but then its files change under the view. Damage is part of what is shown; an error is returned only
//! where nothing can be shown at all: [`Error::Io`](crate::Error::Io) for a file that is missing or cannot be read,
//! [`Error::Misuse`](crate::Error::Misuse) for a page that there is not. That there is no such tree or table is said in the text.
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

mod db_dir;
mod log;
mod page;
mod pages;
mod root;
mod table;
mod tail;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

use crate::error::Result;
use std::path::Path;
use vfs::Vfs;

/// Both slots of the root: what each says, and which one an open would take.
pub fn root(dir: &Path) -> Result<String> {
    root::view(&Vfs::os(), dir)
}

/// The redo log: segments, epochs, where it ends, what stands in it by kind of record, its last groups, and the
/// transactions that are unfinished.
pub fn log(dir: &Path) -> Result<String> {
    log::view(&Vfs::os(), dir)
}

/// One page of the `pages` file: header, content, and which redo it lacks.
pub fn page(dir: &Path, number: u32) -> Result<String> {
    page::view(&Vfs::os(), dir, number)
}

/// The shape of a tree, named by its table or its number: levels, pages, how full they are.
pub fn tree(dir: &Path, name: &str) -> Result<String> {
    tree::view(&Vfs::os(), dir, name)
}

/// What a table takes: rows, delete marks, bytes, pages. Named by its name or its tree's number.
pub fn table(dir: &Path, name: &str) -> Result<String> {
    table::view(&Vfs::os(), dir, name)
}
