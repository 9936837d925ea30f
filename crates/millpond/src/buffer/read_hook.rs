//! What the pool asks about a page that it has read: is it accepted, and does it lack redo?

#[cfg(test)]
use crate::error::Error;
use crate::error::Result;
use crate::page::Damage;
use base::{Lsn, PageNo};
use std::fmt::Debug;
#[cfg(test)]
use std::path::PathBuf;

/// What a page is that was just read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Complete as it was read.
    AsRead,
    /// It lacks redo. No caller sees it before [`ReadHook::catch_up`].
    Incomplete,
}

/// Checks a page that was just read, before any other thread sees it.
pub(crate) trait ReadHook: Send + Sync + Debug {
    /// Accepts or refuses the page. `verified` is the result of the checks of the page's checksum
    /// and structure. An error refuses the page. A page without a whole image that lacks redo
    /// becomes a blank one: redo may make it anew. Waits for nothing.
    fn after_read(&self, page: PageNo, bytes: &mut [u8], verified: Result<(), Damage>) -> Result<Arrival>;
    /// Returns whether a page that cannot be read is accepted as a blank one. May do I/O.
    fn needs_no_image(&self, _: PageNo) -> Result<bool> {
        Ok(false)
    }
    /// Completes a copy of an incomplete page, unless it is complete by now. Returns the
    /// LSN of the first redo that it applied. After an error the bytes mean nothing, and the error
    /// counts only if replay has not changed the page meanwhile. Called with no latch held; reads
    /// the log.
    fn catch_up(&self, _: PageNo, _: &mut [u8]) -> Result<Option<Lsn>> {
        Ok(None)
    }
    /// Does `work`, which calls [`ReadHook::catch_up`] for the page, once this thread may; or
    /// nothing if the page is not `incomplete` any more by then. Called with no latch held.
    fn with_permit(
        &self,
        _: PageNo,
        _incomplete: &dyn Fn() -> bool,
        work: &mut dyn FnMut() -> Result,
    ) -> Result {
        work()
    }
    /// Whether the page may lack redo, or replay may be about to read it.
    fn is_pending(&self, _: PageNo) -> bool {
        false
    }
    /// The page is in the pool and lacks nothing; if redo changed it, it is dirty.
    fn is_current(&self, _: PageNo) {}
}

/// Accepts intact pages as they are and refuses damaged ones.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct RefuseDamage {
    /// The file that errors name.
    pub(crate) path: PathBuf,
}

#[cfg(test)]
impl ReadHook for RefuseDamage {
    fn after_read(&self, page: PageNo, _: &mut [u8], verified: Result<(), Damage>) -> Result<Arrival> {
        match verified {
            Ok(()) => Ok(Arrival::AsRead),
            Err(damage) => Err(Error::corrupt(&self.path, format!("{page:?}: {damage}"))),
        }
    }
}
