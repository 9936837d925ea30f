//! The process that opens what the victim left: it makes one durable change as soon as it can, then waits until all is
//! recovered. The parent holds the clock.

use super::Engine;
use super::recipe::{Plan, Writer};
use super::wire::{Message, Outbox};
use crate::cli::wait_recovered;
use crate::failure::{Failure, Outcome};
use crate::workload::row::{Row, id_key};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::path::Path;

/// Reads row `id`, changes it, commits it; then waits for the rest.
pub(crate) fn reopen(
    outbox: &Outbox,
    dir: &Path,
    plan: &Plan,
    engine: Engine,
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
