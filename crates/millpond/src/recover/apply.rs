//! The second pass over the log: every change goes to its page unless the page has it already.

use super::end::LogTail;
use crate::buffer::{PageWrite, Pool, ReadHook};
use crate::error::{Error, Result};
use crate::log::Log;
use crate::log::group::{Record, Records};
use crate::log::reader::{EpochStart, Group, Scanner};
use crate::log::segment::Segments;
use crate::page::op::PageOp;
use crate::page::{Damage, header};
use crate::planted::{Bug, planted};
use base::sync::Mutex;
use base::{Lsn, PageNo};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Low bits of the previous page LSN that a record carries.
const PREV_MASK: u64 = (1 << 40) - 1;

/// Judges pages as they are read: a damaged one is taken, as a blank, only if redo makes it anew.
#[derive(Debug)]
pub(crate) struct RedoHook {
    path: PathBuf,
    made_anew: Arc<Mutex<BTreeSet<PageNo>>>,
    log: Arc<Log>,
    /// Where the log of the last run ended; this run's begins at or above it.
    end: Lsn,
    begin: Lsn,
}

impl RedoHook {
    /// A hook for the pages of `path`, given what the first pass found.
    pub(crate) fn new(path: &Path, log: &Arc<Log>, tail: &LogTail) -> (RedoHook, MadeAnew) {
        let pages = tail.pages.iter().filter(|(_, init)| **init).map(|(page, _)| *page).collect();
        let made_anew = Arc::new(Mutex::new(pages));
        let hook = RedoHook {
            path: path.to_owned(),
            made_anew: Arc::clone(&made_anew),
            log: Arc::clone(log),
            end: tail.end,
            begin: log.durable_lsn(),
        };
        (hook, MadeAnew(made_anew))
    }
}

/// Pages that may be damaged until their redo is applied.
#[derive(Debug)]
pub(crate) struct MadeAnew(Arc<Mutex<BTreeSet<PageNo>>>);

impl ReadHook for RedoHook {
    fn after_read(
        &self,
        page: PageNo,
        bytes: &mut [u8],
        verified: Result<(), Damage>,
    ) -> Result<Option<Lsn>> {
        if let Err(damage) = verified {
            if !self.made_anew.lock().contains(&page) {
                return Err(Error::corrupt(&self.path, format!("{page:?}: {damage}")));
            }
            bytes.fill(0);
            return Ok(None);
        }
        // No page reaches the file before its redo is durable, so one that is ahead of the log proves that the log has
        // lost its end (El3).
        let lsn = header::lsn(bytes);
        if (lsn >= self.end && lsn < self.begin) || lsn >= self.log.reserved_lsn().max(Lsn(1)) {
            let what = format!("{page:?} names LSN {lsn}, beyond the log's end at {}", self.end);
            return Err(Error::corrupt(&self.path, what));
        }
        Ok(None)
    }
}

/// Applies all groups from `from` to `end`, where the last of them ends. Returns how many page changes were applied. `reached` hears of each group
/// before its changes begin: the checkpoint must not pass it yet, nor its segment be recycled under the reader.
pub(crate) fn replay(
    pool: &Pool,
    segments: &Segments,
    epochs: &[EpochStart],
    from: Lsn,
    pages_path: &Path,
    made_anew: &MadeAnew,
    end: Lsn,
    reached: impl Fn(Lsn),
) -> Result<u64> {
    let mut scanner = Scanner::new(segments, epochs, from);
    let mut applied = 0;
    // What stands beyond is of this run: a checkpoint may be logging its list already.
    while scanner.position() < end {
        let Some(group) = scanner.next()? else { break };
        reached(group.lsn);
        applied += replay_group(pool, &group, pages_path)?;
    }
    if scanner.position() != end {
        let what = format!(
            "replay stopped at LSN {}, the last group ended at {end} a moment ago",
            scanner.position()
        );
        return Err(Error::corrupt(segments.dir(), what));
    }
    // From now on every page is as redo left it, and damage is damage.
    made_anew.0.lock().clear();
    Ok(applied)
}

fn replay_group(pool: &Pool, group: &Group<'_>, pages_path: &Path) -> Result<u64> {
    let mut held: Vec<(PageWrite<'_>, bool)> = Vec::new();
    let mut applied = 0;
    let damaged = |page: PageNo, what: String| {
        Err(Error::corrupt(pages_path, format!("{page:?}, redo at LSN {}: {what}", group.lsn)))
    };
    // A latch order is not needed: nobody else changes pages yet, and the cleaner only tries its latches. But a page
    // must not be fetched while others are latched, so all are fetched first.
    let mut pins = Vec::new();
    for record in Records::new(group.records).flatten() {
        if let Record::Page { page, .. } = record
            && !pins.iter().any(|(no, _)| *no == page)
        {
            pins.push((page, pool.fetch(page)?));
        }
    }
    for (_, pin) in pins {
        let page = pin.write();
        let mut apply = header::lsn(&page) < group.lsn || header::is_blank(&page);
        if planted(Bug::RedoTwice) {
            apply = true;
        }
        if planted(Bug::RedoSkips) && group.lsn.0.is_multiple_of(7) {
            apply = false;
        }
        held.push((page, apply));
    }
    let before: Vec<Lsn> = held.iter().map(|(page, _)| header::lsn(page)).collect();
    for record in Records::new(group.records).flatten() {
        let Record::Page { page, prev, op } = record else { continue };
        let index = held.iter().position(|(p, _)| p.page_no() == page).expect("fetched above");
        let (bytes, apply) = &mut held[index];
        if !*apply {
            continue;
        }
        let Ok(op) = PageOp::decode(op) else { return damaged(page, "the record is not one".into()) };
        if !op.is_init() && before[index].0 & PREV_MASK != prev {
            let what = format!(
                "the page stands at LSN {}, the change expects …{prev}: a write was lost",
                before[index]
            );
            return damaged(page, what);
        }
        if let Err(damage) = op.apply(bytes) {
            return damaged(page, damage.to_string());
        }
        applied += 1;
    }
    for (mut page, apply) in held {
        if apply {
            let page_no = page.page_no();
            header::set_page_no(&mut page, page_no);
            header::set_lsn(&mut page, group.lsn);
            pool.mark_dirty(&page, group.lsn);
        }
    }
    Ok(applied)
}
