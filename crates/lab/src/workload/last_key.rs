//! Where a table ends that a run before this one has filled.

use millpond::{Db, Table, TxnOptions};
use output::failure::Outcome;

/// Returns the greatest key of a table.
pub(super) fn last_key(db: &Db, table: &Table) -> Outcome<Option<Vec<u8>>> {
    let tx = db.begin_with(TxnOptions::new().read_only(true))?;
    let last = tx.range(table, ..)?.next_back().transpose()?;
    Ok(last.map(|(key, _)| key))
}
