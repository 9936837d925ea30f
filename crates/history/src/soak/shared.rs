//! What the threads of a life share: the database with its tables, and the counts of their steps.

use super::recipe::Recipe;
use millpond::{Db, Table};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The tables that exist all the time.
pub(super) struct Tables {
    pub(super) rows: Table,
    pub(super) hot: Table,
    pub(super) clients: Table,
    pub(super) queue: Table,
}

/// The file that counts the acknowledged steps: eight bytes for each client, overwritten in place,
/// which works on a full disk too.
pub(super) struct Ledger(pub(super) File);

impl Ledger {
    pub(super) fn note(&self, client: u16, steps: u64) -> Result<(), String> {
        let at = u64::from(client) * 8;
        self.0.write_all_at(&steps.to_le_bytes(), at).map_err(|e| format!("cannot write the ledger: {e}"))
    }
}

/// What the threads of a life share.
pub(super) struct Life {
    pub(super) db: Db,
    pub(super) tables: Tables,
    pub(super) recipe: Recipe,
    pub(super) ledger: Ledger,
    pub(super) acknowledged: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) retried: AtomicU64,
    pub(super) scans: AtomicU64,
    pub(super) over: AtomicBool,
}

impl Life {
    pub(super) fn ends(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}
