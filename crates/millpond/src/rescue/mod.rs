//! [`rescue()`]: copies what can be read of a database that does not recover into a new one.
//!
//! Recovery gives the database back as it was, or refuses: it never guesses. A rescue is for what
//! recovery refuses. It reads a log that has holes ([`log`]), keeps pages that lack changes
//! ([`pages`]), finds the leaves of a tree without its inner pages ([`tables`]), takes each key
//! from the newest complete leaf that covers it ([`leaves`]), and takes back versions that were not
//! committed ([`versions`]). It names everything that it cannot read, or cannot read for certain
//! ([`problem`]).

mod leaves;
mod log;
mod owners;
mod pages;
mod problem;
mod source;
mod tables;
mod versions;

#[cfg(test)]
mod tests;

pub use problem::RescueProblem;

use crate::catalog::{self, CATALOG};
use crate::checkpoint::root::Root;
use crate::db::Db;
use crate::error::{Error, Result};
use crate::inspect::db_dir::{DbDir, InUse};
use crate::options::{Medium, Options};
use base::TreeId;
use problem::Problems;
use source::Source;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use tables::{PageIndex, TreeReader};
use vfs::Vfs;

/// What a [`rescue()`] has saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RescueReport {
    /// Tables in the new database.
    pub tables: u64,
    /// Rows in them.
    pub rows: u64,
    /// Pages of the old database that were looked at.
    pub pages: u64,
    /// How many problems were named. If none, the new database has all that the old one had.
    pub problems: u64,
}

/// Copies every row that can be read of the database in `dir` into a new database in `to`. For a
/// database that does not recover: one with damaged pages, with a part of its log missing, or with
/// lost writes. Calls `on_problem` for everything that cannot be read, or not for certain.
///
/// The old database is only read. It may have been closed or killed; it must not be in use. The new
/// one has the tables with their metadata and counters, and of each row the newest committed
/// version. Changes of transactions that had not committed are left out, those of prepared ones
/// too. Of a page that lacks changes the rows are used only where no other page has their keys.
///
/// The pages that the log changes are held in memory.
///
/// # Errors
/// [`Error::InUse`]; [`Error::Misuse`] if `to` is not empty, or lies in `dir`; [`Error::Foreign`]
/// if `dir` has no root; [`Error::Corrupt`] if neither slot of the root is whole; any error of the
/// new database.
///
/// ```
/// # let dir = std::env::temp_dir().join(format!("millpond-doc-rescue-{}", std::process::id()));
/// # let (dir, to) = (dir.join("old"), dir.join("new"));
/// # std::fs::create_dir_all(dir.parent().unwrap())?;
/// # let db = millpond::Options::new().buffer_pool_bytes(16 << 20).open(&dir)?;
/// # db.create_table("accounts")?;
/// # db.close()?;
/// let report = millpond::rescue(&dir, &to, &mut |problem| eprintln!("{problem}"))?;
/// assert_eq!((report.tables, report.problems), (1, 0));
/// # std::fs::remove_dir_all(dir.parent().unwrap()).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rescue(dir: &Path, to: &Path, on_problem: &mut dyn FnMut(RescueProblem)) -> Result<RescueReport> {
    let options = Options::new();
    rescue_on(&options.vfs(Medium::Os), dir, to, &options, on_problem)
}

fn rescue_on(
    vfs: &Vfs,
    dir: &Path,
    to: &Path,
    options: &Options,
    on_problem: &mut dyn FnMut(RescueProblem),
) -> Result<RescueReport> {
    check_target(vfs, dir, to)?;
    let db = DbDir::open(vfs, dir)?;
    let _lock = match db.in_use {
        InUse::Yes => return Err(Error::InUse { dir: dir.to_owned() }),
        _ => lock(vfs, &db)?,
    };
    let root: Root = db.root()?;
    let mut problems = Problems { sink: on_problem, count: 0 };
    let source = Source::read(&db, &root, &mut problems);
    let index = PageIndex::read(&source.pages)?;
    let tables = read_catalog(&source, &index, &mut problems)?;
    name_pages(&index, &tables, &mut problems);
    for xid in source.transactions.prepared() {
        problems.add(RescueProblem::Prepared { xid });
    }
    let mut report = RescueReport { pages: index.read, ..RescueReport::default() };
    let target = Db::open_on(vfs, to, &options.clone().page_bytes(root.page_bytes))?;
    for (tree, table) in &tables {
        report.rows += save_table(&source, &index, (*tree, table), &target, &mut problems)?;
        report.tables += 1;
    }
    target.close()?;
    report.problems = problems.count;
    Ok(report)
}

/// Takes the lock of the database, if it has a lock file. No file is made.
fn lock(vfs: &Vfs, db: &DbDir) -> Result<Option<Box<dyn Send + Sync>>> {
    let names = db.vfs.disk.list(&db.dir).map_err(|e| Error::io("list", &db.dir, e))?;
    if !names.iter().any(|name| name == "LOCK") {
        return Ok(None);
    }
    match vfs.disk.lock(&db.paths.lock) {
        Ok(held) => Ok(Some(held)),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Err(Error::InUse { dir: db.dir.clone() }),
        Err(e) => Err(Error::io("lock", &db.paths.lock, e)),
    }
}

/// Checks that the new directory is empty, or is not there, and is none of the old one's.
fn check_target(vfs: &Vfs, dir: &Path, to: &Path) -> Result {
    if to.starts_with(dir) {
        let (dir, to) = (dir.display(), to.display());
        return Err(Error::Misuse(format!("{to} lies in {dir}: a rescue changes nothing there")));
    }
    match vfs.disk.list(to) {
        Ok(names) if names.is_empty() => Ok(()),
        Ok(_) => Err(Error::Misuse(format!(
            "{} is not empty: a rescue makes a new database, in an empty directory or one that does not exist",
            to.display()
        ))),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Error::io("list", to, e)),
    }
}

/// A table to save.
struct SavedTable {
    name: String,
    metadata: Vec<u8>,
}

/// Reads the tables. If a part of the catalog cannot be read, each tree that no entry names becomes
/// a table with a made-up name.
fn read_catalog(
    source: &Source,
    index: &PageIndex,
    problems: &mut Problems<'_>,
) -> Result<BTreeMap<TreeId, SavedTable>> {
    let before = problems.count;
    let (mut tables, mut malformed) = (BTreeMap::new(), Vec::new());
    let reader = TreeReader { source, tree: CATALOG.id, name: "(catalog)" };
    let leaves = index.leaves.get(&CATALOG.id).map_or(&[][..], Vec::as_slice);
    reader.read(leaves, problems, &mut |key, value| {
        match (catalog::decode(value), std::str::from_utf8(key)) {
            (Ok((tree, metadata)), Ok(name)) => {
                let table = SavedTable { name: name.to_owned(), metadata: metadata.to_vec() };
                tables.insert(tree.id, table);
            }
            _ => malformed.push(String::from_utf8_lossy(key).into_owned()),
        }
        Ok(())
    })?;
    for table in malformed {
        problems
            .add(RescueProblem::Table { table, what: "its entry in the catalog is malformed".to_owned() });
    }
    let is_flawed = |(_, tree, _): &(_, Option<TreeId>, _)| *tree == Some(CATALOG.id);
    if problems.count == before && !index.flawed.iter().any(is_flawed) {
        return Ok(tables);
    }
    for tree in index.leaves.keys().filter(|tree| **tree != CATALOG.id) {
        if tables.contains_key(tree) {
            continue;
        }
        let mut name = format!("rescued-tree-{}", tree.0);
        while tables.values().any(|table| table.name == name) {
            name.push('+');
        }
        problems.add(RescueProblem::Table {
            table: name.clone(),
            what: format!(
                "the catalog's entry of tree {} is lost, so its name and metadata are too; or the table was dropped",
                tree.0
            ),
        });
        tables.insert(*tree, SavedTable { name, metadata: Vec::new() });
    }
    Ok(tables)
}

/// Names the pages that cannot be read, or that may lack changes.
fn name_pages(index: &PageIndex, tables: &BTreeMap<TreeId, SavedTable>, problems: &mut Problems<'_>) {
    for (page, tree, what) in &index.flawed {
        let table = tree.and_then(|tree| match tables.get(&tree) {
            Some(table) => Some(table.name.clone()),
            None => (tree == CATALOG.id).then(|| "(catalog)".to_owned()),
        });
        problems.add(RescueProblem::Page { page: page.0, table, what: what.clone() });
    }
}

/// Copies the rows of a table. Returns how many.
fn save_table(
    source: &Source,
    index: &PageIndex,
    (tree, table): (TreeId, &SavedTable),
    target: &Db,
    problems: &mut Problems<'_>,
) -> Result<u64> {
    let mut load = target.begin_bulk_load_with(&table.name, &table.metadata)?;
    let reader = TreeReader { source, tree, name: &table.name };
    let leaves = index.leaves.get(&tree).map_or(&[][..], Vec::as_slice);
    let mut rows = 0;
    reader.read(leaves, problems, &mut |key, value| {
        rows += 1;
        load.push(key, value)
    })?;
    let made = load.commit()?;
    if let Some(next) = source.transactions.counters.get(&tree) {
        target.raise_counter(&made, *next)?;
    }
    Ok(rows)
}
