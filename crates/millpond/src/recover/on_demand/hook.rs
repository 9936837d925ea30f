//! What is checked when a page is read from the file, and the redo that it gets before a thread
//! sees it.

use super::pending::Pending;
use crate::buffer::{Arrival, ReadHook};
use crate::error::{Error, Result};
use crate::page::{Damage, header};
use crate::planted::{Bug, planted};
use base::{Lsn, PageNo};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Checks pages as they are read, and brings those up to date that lack redo of the last run.
#[derive(Debug)]
pub(crate) struct RedoHook {
    pending: Arc<Pending>,
    /// Pages that were written with this LSN or a greater one, and synced.
    stale: BTreeMap<PageNo, Lsn>,
    /// The log of this run begins here.
    begin: Lsn,
}

impl RedoHook {
    /// A hook for the pages of the last run. `stale` are pages known to be older than they should
    /// be.
    pub(crate) fn new(pending: &Arc<Pending>, stale: BTreeMap<PageNo, Lsn>) -> RedoHook {
        RedoHook { pending: Arc::clone(pending), stale, begin: pending.log.durable_lsn() }
    }

    fn corrupt(&self, what: String) -> Error {
        Error::corrupt(&self.pending.pages_path, what)
    }

    /// Returns the LSN of a page image that may be used. An error says why not; a page that redo
    /// makes anew needs none.
    fn usable(&self, page: PageNo, bytes: &[u8], verified: Result<(), Damage>) -> Result<Lsn> {
        verified.map_err(|damage| {
            let torn = self.pending.last(page).map_or("", |_| self.pending.torn());
            self.corrupt(format!("{page:?}: {damage}{torn}"))
        })?;
        let lsn = header::lsn(bytes);
        match self.stale.get(&page) {
            Some(&written) if lsn < written => Err(self.corrupt(format!(
                "{page:?}: the file has an older version, of LSN {lsn}; the page had been written with LSN {written}"
            ))),
            _ => Ok(lsn),
        }
    }

    /// No page is written before its redo is durable. So a page that is ahead of the log proves
    /// that the log has lost its end (El3).
    fn check_end(&self, page: PageNo, lsn: Lsn) -> Result {
        let Pending { log, end, .. } = &*self.pending;
        if (lsn >= *end && lsn < self.begin) || lsn >= log.reserved_lsn().max(Lsn(1)) {
            return Err(self.corrupt(format!("{page:?} names LSN {lsn}, beyond the log's end at {end}")));
        }
        Ok(())
    }
}

impl ReadHook for RedoHook {
    fn needs_no_image(&self, page: PageNo) -> Result<bool> {
        let Some(last) = self.pending.last(page) else { return Ok(false) };
        Ok(self.pending.redo(page, last, None)?.is_some())
    }

    fn after_read(&self, page: PageNo, bytes: &mut [u8], verified: Result<(), Damage>) -> Result<Arrival> {
        let image = self.usable(page, bytes, verified);
        if let Ok(lsn) = image {
            self.check_end(page, lsn)?;
        }
        let Some(last) = self.pending.last(page) else {
            return image.map(|_| Arrival::AsRead);
        };
        if planted(Bug::IncompleteUnseen) && image.is_ok() {
            return Ok(Arrival::AsRead);
        }
        match image {
            Ok(lsn) if lsn >= last => {
                self.pending.done(page);
                return Ok(Arrival::AsRead);
            }
            Ok(_) => {}
            // Most likely it is new, and a change makes it anew.
            Err(_) => bytes.fill(0),
        }
        Ok(Arrival::Incomplete)
    }

    fn catch_up(&self, page: PageNo, bytes: &mut [u8]) -> Result<Option<Lsn>> {
        let image = if header::is_blank(bytes) { None } else { Some(header::lsn(bytes)) };
        let is_incomplete = |last: &Lsn| image.is_none_or(|image| image < *last);
        let Some(last) = self.pending.last(page).filter(is_incomplete) else { return Ok(None) };
        let Some(chain) = self.pending.redo(page, last, image)? else {
            return Err(self.pending.no_image(page));
        };
        let first = self.pending.apply(&chain, bytes)?;
        Ok((!planted(Bug::RedoNotDirty)).then_some(first))
    }

    fn with_permit(
        &self,
        page: PageNo,
        incomplete: &dyn Fn() -> bool,
        work: &mut dyn FnMut() -> Result,
    ) -> Result {
        self.pending.with_permit(page, incomplete, work).unwrap_or(Ok(()))
    }

    fn is_pending(&self, page: PageNo) -> bool {
        self.pending.is_pending(page)
    }

    fn is_current(&self, page: PageNo) {
        self.pending.done(page);
    }
}
