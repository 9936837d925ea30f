//! Who writes the redo log: its bytes by tree and by kind of record.

use super::db_dir::DbDir;
use super::log::{kind_of, op_name};
use super::pages::{PageImage, PagesFile};
use super::walk::catalog;
use crate::catalog::CATALOG;
use crate::error::Result;
use crate::log::group::{GROUP_HEADER_BYTES, Record, Records};
use crate::log::reader::Scanner;
use crate::page::header::{self, PageKind};
use crate::page::op::PageOp;
use base::codec::Reader;
use base::{Lsn, PageNo, TreeId};
use std::collections::BTreeMap;
use std::path::Path;
use vfs::Vfs;

/// Whose bytes of the redo log are, of one kind of record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedoRow {
    /// Whose the bytes are.
    pub owner: RedoOwner,
    /// The kind of record, as [`log`](super::log()) names it.
    pub record: &'static str,
    /// Number of records.
    pub records: u64,
    /// Bytes, with those of the record's kind and length.
    pub bytes: u64,
}

/// Whose bytes of the redo log are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RedoOwner {
    /// A tree: its number, and the name of its table, if the catalog in the file has it.
    Tree(u32, Option<String>),
    /// The catalog.
    Catalog,
    /// The space map and the head of the file.
    Space,
    /// Pages whose tree is not known: the file does not have them yet, or not any more.
    UnknownPages,
    /// The ends of transactions, purge, and undo that belongs to no row.
    Transactions,
    /// The log itself: headers of groups, padding, lists of checkpoints.
    Log,
}

/// A part of the redo log, by owners. The bytes of the rows are all that is between the two LSNs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redo {
    /// Where the part begins: where the caller asked for, or at the checkpoint if what is before it
    /// is gone.
    pub from_lsn: u64,
    /// Where the log ended.
    pub to_lsn: u64,
    /// The rows, in no order.
    pub rows: Vec<RedoRow>,
}

/// Whose a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Tree(TreeId),
    Space,
    Unknown,
    Transactions,
    Log,
}

pub(super) fn read(vfs: &Vfs, dir: &Path, from: Option<u64>) -> Result<Redo> {
    let db = DbDir::open(vfs, dir)?;
    let root = db.root()?;
    let segments = db.segments(&root)?;
    let pages = PagesFile::open(&db, &root)?;
    let first = from.map_or(root.checkpoint, Lsn);
    let mut sums = Sums { pages: &pages, owners: BTreeMap::new(), counts: BTreeMap::new() };
    let mut begin = first;
    let mut end = scan(&mut Scanner::new(&segments, &root.epochs, first), &mut sums);
    if !matches!(end, Ok(end) if end > first) && first < root.checkpoint {
        // Segments below the checkpoint are used again.
        begin = root.checkpoint;
        sums.counts.clear();
        end = scan(&mut Scanner::new(&segments, &root.epochs, begin), &mut sums);
    }
    let end = end?;
    sums.pad(end.since(begin));
    let names = names(&pages);
    let rows = sums.counts.iter().map(|((whose, record), (records, bytes))| RedoRow {
        owner: owner(*whose, &names),
        record,
        records: *records,
        bytes: *bytes,
    });
    Ok(Redo { from_lsn: begin.0, to_lsn: end.0, rows: rows.collect() })
}

/// Counts all groups. Returns the end of the last one.
fn scan(scanner: &mut Scanner<'_>, sums: &mut Sums<'_>) -> Result<Lsn> {
    let mut end = scanner.position();
    while let Some(group) = scanner.next()? {
        end = group.end;
        sums.group(group.records);
    }
    Ok(end)
}

/// What was counted.
struct Sums<'a> {
    pages: &'a PagesFile,
    owners: BTreeMap<PageNo, Whose>,
    /// Records and bytes.
    counts: BTreeMap<(Whose, &'static str), (u64, u64)>,
}

impl Sums<'_> {
    fn group(&mut self, records: &[u8]) {
        self.add(Whose::Log, "group header", GROUP_HEADER_BYTES);
        let mut lengths = Reader::new(records);
        for record in Records::new(records) {
            let before = lengths.taken();
            // Where a length is malformed, the rest is one record.
            let whole = lengths.prefixed().is_ok();
            let bytes = if whole { lengths.taken() } else { records.len() } - before;
            match &record {
                Ok(record) => self.record(record, bytes),
                Err(_) => self.add(Whose::Log, "malformed", bytes),
            }
            if !whole {
                return;
            }
        }
        self.add_rest(records.len() - lengths.taken());
    }

    fn add_rest(&mut self, bytes: usize) {
        if bytes > 0 {
            self.add(Whose::Log, "malformed", bytes);
        }
    }

    fn record(&mut self, record: &Record<'_>, bytes: usize) {
        let whose = match *record {
            Record::Page { page, op, .. } => match PageOp::decode(op) {
                Ok(op) => return self.page(page, &op, bytes),
                Err(_) => Whose::Unknown,
            },
            Record::Counter { tree, .. } => Whose::Tree(tree),
            Record::Checkpoint { .. }
            | Record::DirtyPages { .. }
            | Record::Filler { .. }
            | Record::Bookmark { .. } => Whose::Log,
            Record::Undo { .. }
            | Record::Commit { .. }
            | Record::Prepare { .. }
            | Record::Abort { .. }
            | Record::Reverted { .. }
            | Record::Purged { .. } => Whose::Transactions,
        };
        self.add(whose, kind_of(record), bytes);
    }

    /// Counts a change of a page. A page that is made anew says whose it is; of another the file
    /// says it. A freed page was its last owner's.
    fn page(&mut self, page: PageNo, op: &PageOp<'_>, bytes: usize) {
        let made = match *op {
            PageOp::Init { head, .. } => Some(Whose::Tree(head.tree)),
            PageOp::InitOverflow { tree, .. } => Some(Whose::Tree(tree)),
            PageOp::InitMap
            | PageOp::MapOwn { .. }
            | PageOp::MapSet { .. }
            | PageOp::MapClear { .. }
            | PageOp::MapRelease { .. }
            | PageOp::InitFile { .. }
            | PageOp::InitOwners
            | PageOp::OwnerSet { .. }
            | PageOp::OwnerClear { .. } => Some(Whose::Space),
            _ => None,
        };
        if let Some(whose) = made {
            self.owners.insert(page, whose);
        }
        let pages = self.pages;
        let whose = *self.owners.entry(page).or_insert_with(|| in_file(pages, page));
        self.add(whose, op_name(op), bytes);
    }

    fn add(&mut self, whose: Whose, record: &'static str, bytes: usize) {
        let count = self.counts.entry((whose, record)).or_default();
        *count = (count.0 + 1, count.1 + bytes as u64);
    }

    /// Counts as padding what is no group of `length` bytes of log.
    fn pad(&mut self, length: u64) {
        let counted: u64 = self.counts.values().map(|(_, bytes)| bytes).sum();
        if let Some(bytes) = length.checked_sub(counted).filter(|bytes| *bytes > 0) {
            self.counts.insert((Whose::Log, "padding"), (0, bytes));
        }
    }
}

/// Returns whose a page is in the file.
fn in_file(pages: &PagesFile, page: PageNo) -> Whose {
    if page.0 >= pages.count {
        return Whose::Unknown;
    }
    match pages.read(page) {
        Ok(PageImage::Sound(bytes)) => match header::kind(&bytes) {
            Some(PageKind::Leaf | PageKind::Inner | PageKind::Overflow) => Whose::Tree(header::tree(&bytes)),
            Some(PageKind::Map | PageKind::Owners | PageKind::File) => Whose::Space,
            _ => Whose::Unknown,
        },
        _ => Whose::Unknown,
    }
}

/// Returns the names of trees that the catalog in the file has. The present name of a renamed table
/// is the one without a delete mark.
fn names(pages: &PagesFile) -> BTreeMap<TreeId, String> {
    let mut names = BTreeMap::new();
    let rows = catalog(pages).map_or(Vec::new(), |(rows, _)| rows);
    for row in rows {
        let Some(tree) = row.tree else { continue };
        if !row.deleted || !names.contains_key(&tree.id) {
            names.insert(tree.id, row.name);
        }
    }
    names
}

fn owner(whose: Whose, names: &BTreeMap<TreeId, String>) -> RedoOwner {
    match whose {
        Whose::Tree(tree) if tree == CATALOG.id => RedoOwner::Catalog,
        Whose::Tree(tree) => RedoOwner::Tree(tree.0, names.get(&tree).cloned()),
        Whose::Space => RedoOwner::Space,
        Whose::Unknown => RedoOwner::UnknownPages,
        Whose::Transactions => RedoOwner::Transactions,
        Whose::Log => RedoOwner::Log,
    }
}
