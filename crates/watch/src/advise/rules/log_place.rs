//! The place of the redo log: only where syncs are seen to be slow. How long a sync takes no server
//! shows; Little's law gives it: syncs in flight on average, divided by syncs a second.

use crate::advise::advice::{Advice, Urgency};
use crate::advise::facts::Facts;
use crate::advise::gates;

/// A sync that takes as long is slow for a log, seconds.
const SLOW_S: f64 = 0.005;
/// With fewer samples the average says nothing.
const SAMPLES: usize = 20;
/// Syncs in flight on average below which a sync is rarely waited for.
const IN_FLIGHT: f64 = 0.3;

/// Decides.
pub(crate) fn decide(facts: &Facts) -> Option<Advice> {
    let (syncs, in_flight) = (facts.writes.syncs?, facts.writes.syncs_in_flight?);
    let durable = facts.settings.number("innodb_flush_log_at_trx_commit")? == 1.0;
    if facts.samples < SAMPLES || in_flight < IN_FLIGHT || syncs <= 0.0 || !durable {
        return None;
    }
    let took = in_flight / syncs;
    if took < SLOW_S {
        return None;
    }
    let dir = facts.settings.text("innodb_log_group_home_dir")?;
    let change = gates::at_start("innodb_log_group_home_dir", dir, "a directory on a faster device");
    Some(Advice {
        rule: "log place",
        urgency: Urgency::Useful,
        finding: "syncs are slow, and every commit waits for one".to_owned(),
        evidence: format!(
            "{in_flight:.1} syncs in flight on average at {syncs:.0} syncs/s, in {:.0} s: about {:.0} ms each",
            facts.seconds,
            1000.0 * took
        ),
        action: change.action,
        costs: format!(
            "{}, with the log moved while it is down; if that device is lost, so is the database",
            change.note
        ),
        undo: change.undo,
        sure: "an estimate from averages, with the syncs of pages in it. Before you move the log, measure \
               both devices: millpond disk DIR, millpond trace-fsync"
            .to_owned(),
    })
}
