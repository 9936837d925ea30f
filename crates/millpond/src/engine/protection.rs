//! The doublewrite switched on and off while the database is open (To5).
//!
//! The root says that it is off before the first page is written without a copy (INV-31), and says
//! that it is on only when the last such page is synced in place. So a root that says "on" means
//! that no page can be torn that has no copy.

use crate::checkpoint::fuzzy::Checkpointer;
use crate::error::{Poison, Result};
use crate::flush::batch::Flusher;
use base::sync::{Mutex, MutexGuard};
use std::sync::Arc;

/// The switch of the doublewrite.
pub(super) struct ProtectionSwitch {
    /// Held while the doublewrite is switched or moved.
    switching: Mutex<()>,
    checkpointer: Arc<Checkpointer>,
    flusher: Arc<Flusher>,
    poison: Arc<Poison>,
}

impl ProtectionSwitch {
    pub(super) fn new(
        checkpointer: &Arc<Checkpointer>,
        flusher: &Arc<Flusher>,
        poison: &Arc<Poison>,
    ) -> ProtectionSwitch {
        ProtectionSwitch {
            switching: Mutex::new(()),
            checkpointer: Arc::clone(checkpointer),
            flusher: Arc::clone(flusher),
            poison: Arc::clone(poison),
        }
    }

    /// Keeps the doublewrite as it is until the returned guard is dropped.
    pub(super) fn hold(&self) -> MutexGuard<'_, ()> {
        self.switching.lock()
    }

    /// Switches the doublewrite on or off. After an error pages are protected as before, or better.
    pub(super) fn set(&self, off: bool) -> Result {
        let _switching = self.hold();
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
