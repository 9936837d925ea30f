//! The doublewrite switched on and off while the database is open (To5).
//!
//! The root says that it is off before the first page is written without a copy (INV-31), and says
//! that it is on only when the last such page is synced in place. So a root that says "on" means
//! that no page can be torn that has no copy.

use super::{Engine, Shared};
use crate::checkpoint::protection::Protection;
use crate::error::Result;
use crate::options::Doublewrite;

impl Engine {
    /// Switches the doublewrite on or off. After an error pages are protected as before, or better.
    pub(crate) fn set_doublewrite(&self, wanted: Doublewrite) -> Result {
        self.shared.set_doublewrite(wanted.is_off())
    }

    /// Returns what the root says about torn pages.
    pub(crate) fn protection(&self) -> Protection {
        self.shared.checkpointer.protection()
    }
}

impl Shared {
    fn set_doublewrite(&self, off: bool) -> Result {
        let _switching = self.switching.lock();
        self.poison.check()?;
        if off {
            self.checkpointer.set_unprotected(true)?;
            self.flusher.set_protecting(false);
        } else {
            self.flusher.set_protecting(true);
            self.checkpointer.set_unprotected(false)?;
        }
        Ok(())
    }
}
