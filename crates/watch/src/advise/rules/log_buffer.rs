//! The log buffer: whether threads wait for room in it.

use crate::advise::advice::{Advice, Urgency};
use crate::advise::facts::Facts;
use crate::advise::gates::{self, log_buffer_is_online};
use crate::advise::words::{option_bytes, statement_bytes};
use output::units::show_size;

/// Decides.
pub(crate) fn decide(facts: &Facts) -> Option<Advice> {
    let waits = facts.log.buffer_waits.filter(|waits| *waits > 0.0)?;
    let old = facts.settings.number("innodb_log_buffer_size")?;
    let new = 2.0 * old;
    let name = "innodb_log_buffer_size";
    let (action, undo, note) = if log_buffer_is_online(facts.version?) {
        let set = |bytes| format!("SET GLOBAL {name} = {}", statement_bytes(bytes));
        (set(new), set(old), "online")
    } else {
        let change = gates::at_start(name, &option_bytes(old), &option_bytes(new));
        (change.action, change.undo, change.note)
    };
    Some(Advice {
        rule: "log buffer",
        urgency: Urgency::of_waits(waits, facts.seconds),
        finding: "threads wait for room in the log buffer".to_owned(),
        evidence: format!("{waits:.0} waits in {:.0} s, with {}", facts.seconds, show_size(old)),
        action,
        costs: format!("{note}; {} more memory", show_size(old)),
        undo,
        sure:
            "that they wait is sure. If they still do with a larger buffer, the device of the log is too slow"
                .to_owned(),
    })
}
