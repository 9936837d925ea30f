//! Counts the bytes of mini-transactions by the owners of the pages that they change. No byte is
//! left out: the sum of the counts is the length of the mini-transactions.

use super::mtr::END_BYTES;
use super::page::{Header, Owner};
use super::record::{Kind, PageId, Place, Record, Records};
use super::undo;
use crate::redo::table::Count;
use std::collections::{BTreeMap, HashMap};

/// Whose the bytes are: of a tablespace, or of the log itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Account {
    Space(u32, Owner),
    Log,
}

/// What the log says of the file of a tablespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileName {
    /// Its newest name.
    pub(super) name: String,
    pub(super) deleted: bool,
}

/// Where the header of a page can be looked at.
pub(super) trait Pages {
    /// Returns the header that the file has. `name` is that of the file, if the log has told it.
    fn look(&mut self, page: PageId, name: Option<&str>) -> Option<Header>;
}

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: HashMap<(Account, Kind), Count>,
    /// Headers of the pages that were met.
    headers: HashMap<PageId, Option<Header>>,
    /// Names of files by tablespace, also from before the counts.
    pub(super) files: BTreeMap<u32, FileName>,
}

impl Tally {
    /// Counts a mini-transaction. A page belongs to whoever owns it at the end of it: there its
    /// header is complete, if the mini-transaction creates it.
    pub(super) fn add(&mut self, records: &[u8], pages: &mut dyn Pages) {
        let mut waiting: Vec<(PageId, Kind, usize, Option<u64>)> = Vec::new();
        for record in Records::new(records) {
            match record.place {
                Place::Page(page) => {
                    self.see(page, &record, pages);
                    let undo_of =
                        (record.kind == Kind::AppendUndo).then(|| undo::table(record.body)).flatten();
                    waiting.push((page, record.kind, record.bytes, undo_of));
                }
                Place::File(space) => {
                    self.name(space, &record);
                    self.count(Account::Space(space, Owner::File), record.kind, record.bytes);
                }
                Place::Nowhere => self.count(Account::Log, record.kind, record.bytes),
            }
        }
        for (page, kind, bytes, undo_of) in waiting {
            let owner = match (undo_of, self.headers.get(&page)) {
                (Some(table), _) => Owner::UndoOf(table),
                (None, Some(Some(header))) => header.owner(),
                _ => Owner::Unknown,
            };
            self.count(Account::Space(page.0, owner), kind, bytes);
        }
        self.count(Account::Log, Kind::End, END_BYTES);
    }

    /// Forgets the counts, and keeps what is known of pages and files.
    pub(super) fn begin(&mut self) {
        self.counts.clear();
    }

    /// Returns the counts.
    pub(super) fn counts(&self) -> impl Iterator<Item = (Account, Kind, Count)> {
        self.counts.iter().map(|((account, kind), count)| (*account, *kind, *count))
    }

    /// Returns the indexes whose pages were counted.
    pub(super) fn indexes(&self) -> impl Iterator<Item = u64> {
        self.counts.keys().filter_map(|(account, _)| match account {
            Account::Space(_, Owner::Index(index)) => Some(*index),
            _ => None,
        })
    }

    fn count(&mut self, account: Account, kind: Kind, bytes: usize) {
        let count = self.counts.entry((account, kind)).or_default();
        count.records += 1;
        count.bytes += bytes as u64;
    }

    /// Keeps up with the header of a page. A page that is created needs no look at the file.
    fn see(&mut self, page: PageId, record: &Record<'_>, pages: &mut dyn Pages) {
        let files = &self.files;
        let header = self.headers.entry(page).or_insert_with(|| {
            let name = files.get(&page.0).map(|file| file.name.as_str());
            if record.kind == Kind::InitPage { None } else { pages.look(page, name) }
        });
        Header::apply(header, record);
    }

    /// Keeps the name of a file.
    fn name(&mut self, space: u32, record: &Record<'_>) {
        let newest = record.body.rsplit(|b| *b == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(newest).into_owned();
        self.files.insert(space, FileName { name, deleted: record.kind == Kind::FileDelete });
    }
}
