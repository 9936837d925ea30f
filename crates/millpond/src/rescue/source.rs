//! Everything that a rescue reads: the log, then the pages and the transactions as they were at its
//! end.

use super::log::{AfterHole, DamagedLog, LogPiece};
use super::pages::Pages;
use super::problem::{Problems, RescueProblem};
use super::versions::Transactions;
use crate::checkpoint::dirty_list::decode_dirty;
use crate::checkpoint::list::List;
use crate::checkpoint::parts::Collector;
use crate::checkpoint::root::Root;
use crate::error::Error;
use crate::inspect::db_dir::DbDir;
use crate::log::group::{Record, Records};
use base::{Lsn, PageNo};

/// The database at the end of its log.
pub(super) struct Source {
    pub(super) pages: Pages,
    pub(super) transactions: Transactions,
}

/// What a first reading of the log finds.
#[derive(Default)]
struct Lists {
    transactions: Option<List>,
    /// Pages and the LSN of the last change of each.
    dirty: Option<Vec<(PageNo, Lsn)>>,
    /// No hole lies above.
    whole_from: Option<Lsn>,
}

/// Puts a list together whose first part is at `at`.
struct ListReader {
    at: Lsn,
    parts: Option<Collector>,
    body: Option<Vec<u8>>,
}

impl ListReader {
    fn new(at: Lsn) -> ListReader {
        ListReader { at, parts: Some(Collector::default()), body: None }
    }

    fn part(&mut self, lsn: Lsn, part: &[u8]) {
        if lsn < self.at {
            return;
        }
        let Some(parts) = &mut self.parts else { return };
        match parts.push(part) {
            Ok(None) => {}
            Ok(Some(body)) => (self.parts, self.body) = (None, Some(body)),
            Err(_) => self.parts = None,
        }
    }
}

fn read_lists(log: &DamagedLog, root: &Root) -> Lists {
    let mut lists = Lists::default();
    let mut transactions = ListReader::new(root.record);
    let mut dirty = ListReader::new(root.dirty.map_or(Lsn::MAX, |list| list.record));
    log.read(AfterHole::Read, &mut |piece| match *piece {
        LogPiece::Hole { to, .. } => lists.whole_from = Some(to),
        LogPiece::Group { lsn, records } => {
            for record in Records::new(records).flatten() {
                match record {
                    Record::Checkpoint { body } => transactions.part(lsn, body),
                    Record::DirtyPages { body } => dirty.part(lsn, body),
                    _ => {}
                }
            }
        }
    });
    lists.transactions = transactions.body.and_then(|body| List::decode(&body).ok());
    lists.dirty = dirty.body.and_then(|body| {
        let mut pages = Vec::new();
        decode_dirty(&body, |page, last| pages.push((page, last))).ok()?;
        Some(pages)
    });
    lists
}

impl Source {
    /// Reads the log and applies it.
    pub(super) fn read(db: &DbDir, root: &Root, problems: &mut Problems<'_>) -> Source {
        let damaged = |problems: &mut Problems<'_>, error: &Error| {
            problems.add(RescueProblem::Log { what: error.to_string() });
        };
        let log = DamagedLog::open(&db.vfs, &db.paths.redo_dirs(), root, &mut |error| {
            damaged(problems, &error);
        });
        let lists = read_lists(&log, root);
        let whole_from = lists.whole_from.unwrap_or(Lsn::MAX);
        let mut pages = Pages::open(db, root, whole_from, &mut |error| damaged(problems, &error));
        let mut transactions = Transactions::default();
        match &lists.transactions {
            Some(list) => {
                transactions.begin(list, root.undo_from);
                if let Err(error) = transactions.open_undo(db, root.db_id, list) {
                    damaged(problems, &error);
                }
            }
            None if root.record == Lsn::MAX => {}
            None => problems.add(RescueProblem::Log {
                what: format!(
                    "the checkpoint's list of open transactions and counters at LSN {} cannot be read: rows may be \
                     among those saved whose transactions had not committed, and counters may be lower than they were",
                    root.record
                ),
            }),
        }
        log.read(AfterHole::ReadIfProven, &mut |piece| match *piece {
            LogPiece::Hole { from, to } if to > root.checkpoint => {
                let from = from.max(root.checkpoint);
                problems.add(RescueProblem::Log {
                    what: format!(
                        "the redo log from LSN {from} to LSN {to} cannot be read: changes in it are lost, except \
                         those that the pages have"
                    ),
                });
                transactions.hole();
            }
            LogPiece::Hole { .. } => {}
            LogPiece::Group { lsn, records } => {
                for record in Records::new(records).flatten() {
                    pages.record(lsn, &record);
                    transactions.record(lsn, &record);
                }
            }
        });
        for (page, last) in lists.dirty.into_iter().flatten() {
            pages.changed_last(page, last);
        }
        Source { pages, transactions }
    }
}
