//! The pages as the last run had them: the image in the file, or the copy in the doublewrite, with
//! the changes of the log that can be read.

use crate::checkpoint::root::Root;
use crate::error::{Error, Result};
use crate::flush::doublewrite::{Doublewrite, PageCopies};
use crate::inspect::db_dir::DbDir;
use crate::log::group::{PREV_MASK, Record};
use crate::page::header;
use crate::page::op::PageOp;
use crate::page_file::{PageFile, accept};
use base::aligned::AlignedBuf;
use base::{Lsn, PageNo};
use metrics::Metrics;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Pages that one read fetches.
const READ_PAGES: u32 = 64;

/// A page.
#[derive(Clone, Debug, Default)]
pub(super) struct PageState {
    /// Its content, of sound structure; none if there is none, or if the page was never written.
    pub(super) bytes: Option<Vec<u8>>,
    /// Why it is missing, or may lack changes.
    pub(super) flaw: Option<String>,
}

impl PageState {
    fn lsn(&self) -> Lsn {
        self.bytes.as_ref().map_or(Lsn::ZERO, |bytes| header::lsn(bytes))
    }
}

/// What becomes of the changes of one page by one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The page has them.
    Has,
    /// They are applied.
    Applies,
    /// They do not fit the page.
    Lost,
}

/// All pages.
pub(super) struct Pages {
    pub(super) page_bytes: usize,
    /// Whole pages in the file.
    in_file: u32,
    file: Option<PageFile>,
    doublewrite: Option<Doublewrite>,
    copies: PageCopies,
    /// The log can be read from here on.
    log_from: Lsn,
    /// The pages that the log changes.
    changed: BTreeMap<PageNo, PageState>,
    /// What became of the changes of the present group, by page.
    verdicts: BTreeMap<PageNo, Verdict>,
    group: Lsn,
}

impl Pages {
    /// Opens the file and the doublewrite. Calls `damaged` if one cannot be read.
    pub(super) fn open(db: &DbDir, root: &Root, log_from: Lsn, damaged: &mut dyn FnMut(Error)) -> Pages {
        let opened = PageFile::open_read_only(&db.vfs, &db.paths.pages, root.page_bytes);
        let (in_file, file) = match opened.and_then(|file| Ok((file.count()?, file))) {
            Ok((count, file)) => (count, Some(file)),
            Err(error) => {
                damaged(error);
                (0, None)
            }
        };
        let (files, metrics) = (db.paths.doublewrite_files(), Arc::new(Metrics::new()));
        let doublewrite = Doublewrite::open(&db.vfs, &files, root.db_id, root.page_bytes, &metrics);
        let doublewrite = doublewrite.map_err(damaged).ok();
        Pages {
            page_bytes: root.page_bytes,
            in_file,
            file,
            copies: doublewrite.as_ref().map(Doublewrite::copies).unwrap_or_default(),
            doublewrite,
            log_from,
            changed: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            group: Lsn::ZERO,
        }
    }

    /// Returns the number of pages.
    pub(super) fn count(&self) -> u32 {
        let changed = self.changed.last_key_value().map_or(0, |(last, _)| last.0.saturating_add(1));
        let copied = self.copies.last_key_value().map_or(0, |(last, _)| last.0.saturating_add(1));
        self.in_file.max(changed).max(copied)
    }

    /// Applies a record of the group at `lsn`. Groups come in order.
    pub(super) fn record(&mut self, lsn: Lsn, record: &Record<'_>) {
        let Record::Page { page, prev, op } = *record else { return };
        if self.group != lsn {
            self.verdicts.clear();
            self.group = lsn;
        }
        let mut state = match self.changed.remove(&page) {
            Some(state) => state,
            None => self.unchanged(page),
        };
        let op = PageOp::decode(op);
        let makes_anew = op.as_ref().is_ok_and(PageOp::is_init);
        let verdict = match self.verdicts.get(&page) {
            Some(Verdict::Lost) if makes_anew => Verdict::Applies,
            Some(verdict) => *verdict,
            None if state.lsn() >= lsn => Verdict::Has,
            None if makes_anew => Verdict::Applies,
            None if state.bytes.is_some() && state.lsn().0 & PREV_MASK == prev => Verdict::Applies,
            None => Verdict::Lost,
        };
        let verdict = match (verdict, op) {
            (Verdict::Applies, Ok(op)) => self.apply(lsn, page, &op, &mut state),
            (Verdict::Applies, Err(_)) => {
                state.flaw.get_or_insert_with(|| format!("the change at LSN {lsn} is malformed"));
                Verdict::Lost
            }
            (Verdict::Lost, _) if state.bytes.is_some() => {
                let has = state.lsn();
                state.flaw.get_or_insert_with(|| {
                    format!(
                        "the change at LSN {lsn} expects the version with the low bits {prev} of an LSN, and the page \
                         has that of LSN {has}: its rows may be older than they were"
                    )
                });
                Verdict::Lost
            }
            (verdict, _) => verdict,
        };
        self.verdicts.insert(page, verdict);
        self.changed.insert(page, state);
    }

    fn apply(&self, lsn: Lsn, page: PageNo, op: &PageOp<'_>, state: &mut PageState) -> Verdict {
        if op.is_init() {
            *state = PageState { bytes: Some(vec![0; self.page_bytes]), flaw: None };
        }
        let Some(bytes) = &mut state.bytes else { return Verdict::Lost };
        let before = bytes.clone();
        if let Err(damage) = op.apply(bytes) {
            // A change may fail in the middle.
            *bytes = before;
            state.flaw = Some(format!("the change at LSN {lsn} does not fit it: {damage}"));
            return Verdict::Lost;
        }
        header::set_page_no(bytes, page);
        header::set_lsn(bytes, lsn);
        // The change has found the version that it expects, which proves that none was missing.
        state.flaw = None;
        Verdict::Applies
    }

    /// A list in the log says that the last change of a page was at `last`.
    pub(super) fn changed_last(&mut self, page: PageNo, last: Lsn) {
        let mut state = self.page(page);
        if state.lsn() < last {
            let has = state.lsn();
            state.flaw.get_or_insert_with(|| {
                format!("its change at LSN {last} is missing, it is of LSN {has}: its rows may be older than they were")
            });
            self.changed.insert(page, state);
        }
    }

    /// Returns a page without the changes of the log.
    fn unchanged(&self, no: PageNo) -> PageState {
        let mut bytes = AlignedBuf::zeroed(self.page_bytes);
        let read = match &self.file {
            Some(file) if no.0 < self.in_file => Some(file.read(no, &mut bytes)),
            Some(_) | None => None,
        };
        self.judge(no, read, &mut bytes)
    }

    /// Chooses between the image in the file and the copy in the doublewrite. `read` is none if the
    /// file ends before the page.
    fn judge(&self, no: PageNo, read: Option<io::Result<()>>, bytes: &mut [u8]) -> PageState {
        let (image, damage) = match read {
            None => (None, None),
            Some(Err(error)) => (None, Some(error.to_string())),
            Some(Ok(())) if header::is_blank(bytes) => (None, None),
            Some(Ok(())) => match accept(bytes, no) {
                Ok(()) => (Some(&*bytes), None),
                Err(damage) => (None, Some(damage.to_string())),
            },
        };
        let lsn = image.map_or(Lsn::ZERO, header::lsn);
        let Some((copied, copy)) = self.copy_above(no, lsn, image.is_some()) else {
            return PageState { bytes: image.map(<[u8]>::to_vec), flaw: damage };
        };
        // The page may have been written once more, and that copy be overwritten by others.
        let flaw = damage.filter(|_| copied < self.log_from).map(|damage| {
            format!("{damage}; a copy of it stands in the doublewrite, and may be older than it was")
        });
        PageState { bytes: Some(copy), flaw }
    }

    /// Returns the copy of a page and its LSN, if it is newer than the image.
    fn copy_above(&self, no: PageNo, lsn: Lsn, has_image: bool) -> Option<(Lsn, Vec<u8>)> {
        let &(copied, at) = self.copies.get(&no)?;
        if has_image && copied <= lsn {
            return None;
        }
        let mut image = AlignedBuf::zeroed(self.page_bytes);
        self.doublewrite.as_ref()?.read(at, &mut image).ok()?;
        accept(&mut image, no).ok()?;
        Some((copied, image.to_vec()))
    }

    /// Returns a page.
    pub(super) fn page(&self, no: PageNo) -> PageState {
        match self.changed.get(&no) {
            Some(state) => state.clone(),
            None => self.unchanged(no),
        }
    }

    /// Calls `each` for every page, in order.
    pub(super) fn each_page(&self, each: &mut dyn FnMut(PageNo, &PageState) -> Result) -> Result {
        let mut bytes = AlignedBuf::zeroed(READ_PAGES as usize * self.page_bytes);
        let mut first = 0;
        let count = self.count();
        while first < count {
            let pages = READ_PAGES.min(count - first);
            let part = &mut bytes[..pages as usize * self.page_bytes];
            let together = match &self.file {
                Some(file) if first + pages <= self.in_file => file.read(PageNo(first), part).is_ok(),
                Some(_) | None => false,
            };
            for (no, image) in (first..first + pages).map(PageNo).zip(part.chunks_mut(self.page_bytes)) {
                match self.changed.get(&no) {
                    Some(state) => each(no, state)?,
                    None if together => each(no, &self.judge(no, Some(Ok(())), image))?,
                    None => each(no, &self.unchanged(no))?,
                }
            }
            first += pages;
        }
        Ok(())
    }
}
