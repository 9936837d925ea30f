//! [`DbCore`]: what all handles of an open database share; how calls begin, and how it closes.

use super::call_gate::CallGate;
use crate::catalog::Catalog;
use crate::engine::{ActiveCall, Engine};
use crate::error::{Error, Result};
use base::Lsn;
use metrics::SyncReason;
use std::time::Duration;

/// What all handles of an open database share.
#[derive(Debug)]
pub(crate) struct DbCore {
    /// A number that no other database of this process has.
    pub(crate) id: u64,
    pub(crate) engine: Engine,
    pub(crate) catalog: Catalog,
    pub(crate) lock_wait: Duration,
    pub(super) gate: CallGate,
}

impl DbCore {
    /// Begins a call. Errors: `Closed`, `Poisoned`, `Forked`.
    pub(crate) fn enter(&self) -> Result<ActiveCall<'_>> {
        let inside = self.gate.enter()?;
        self.engine.check_poison()?;
        Ok(inside)
    }

    /// Returns `result`, or `Poisoned` in place of `Closed` if the database is poisoned. Both end
    /// lock waits in the same way.
    pub(super) fn or_poisoned<R>(&self, result: Result<R>) -> Result<R> {
        if let Err(Error::Closed) = &result {
            self.engine.check_poison()?;
        }
        result
    }

    /// Waits until a change of the catalog is durable.
    pub(super) fn flush(&self, lsn: Lsn) -> Result {
        self.engine.store.log.flush_to(lsn, SyncReason::Ddl).map(drop)
    }

    /// Refuses new calls, ends all waits, waits for the calls inside, rolls back, and closes.
    pub(super) fn close(&self) -> Result {
        self.gate.check_process()?;
        if !self.gate.close() {
            return Err(Error::Closed);
        }
        let txns = &self.engine.txns;
        txns.locks.stop();
        self.catalog.stop();
        self.engine.stop_admission();
        self.gate.drain();
        txns.versions.expire_snapshots();
        txns.rollbacks().abort_active(&|| self.engine.checkpoint().map(drop));
        self.engine.close()
    }
}

impl Drop for DbCore {
    fn drop(&mut self) {
        // No caller is left to get an error. The next open recovers. A child of the process that
        // opened the database does nothing, and the engine leaves its memory as it is.
        let _ = self.close();
    }
}
