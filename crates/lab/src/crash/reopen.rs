//! The process that opens the database after the kill. It commits one change as soon as it can,
//! then waits until recovery is complete. The parent measures the time.

use super::EngineSizes;
use super::recipe::{Plan, Writer};
use super::wire::{Message, Outbox};
use crate::whole::wait_recovered;
use crate::workload::row::{Row, id_key};
use output::failure::{Failure, Outcome};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::path::Path;

/// Opens the database, reads and changes row `id` in a transaction, and waits for the end of
/// recovery.
pub(crate) fn reopen(
    outbox: &Outbox,
    dir: &Path,
    plan: &Plan,
    engine: EngineSizes,
    table: u32,
    id: u32,
) -> Outcome {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let db = engine.options().open(dir)?;
    outbox.send(&Message::Opened)?;
    let rows = &db.open_table(&format!("sbtest{table}"))?;
    let mut tx = db.begin()?;
    let before = tx.get_for_update(rows, &id_key(id))?.as_deref().and_then(Row::decode);
    if let Some(before) = before {
        let c = plan.c(Writer { thread: plan.threads, number: 1 }, table, id);
        tx.put(rows, &id_key(id), &Row { c, ..before }.encode())?;
    }
    tx.commit()?;
    outbox.send(&Message::Committed(before))?;
    wait_recovered(&db)?;
    outbox.send(&Message::Recovered)?;
    db.close().map_err(Failure::from)
}
