//! What is said if no rule has found anything to change.

use crate::advise::advice::Advice;
use crate::advise::facts::Facts;
use crate::advise::words::rate;

const RULE: &str = "overall";

/// Says so, with the figures that were looked at.
pub(crate) fn nothing_to_change(facts: &Facts) -> Advice {
    let redo = facts.pond.as_ref().and_then(|pond| pond.log.redo_rate);
    let redo = match (facts.log.redo_rate, redo) {
        (None, None) => None,
        (innodb, millpond) => Some(innodb.unwrap_or(0.0) + millpond.unwrap_or(0.0)),
    };
    let Some(redo) = redo else {
        let finding = "nothing can be said: the target shows no figures of InnoDB or Millpond";
        return none(facts, finding.to_owned(), String::new(), "of these figures there are none");
    };
    if redo <= 0.0 {
        let finding = "nothing was written while it was watched, so nothing can be said";
        return none(facts, finding.to_owned(), "; redo 0 B/s".to_owned(), "watch it while it works");
    }
    let waits = [
        ("for a free page", facts.pool.free_waits),
        ("for the log buffer", facts.log.buffer_waits),
        ("at the limit of the log", facts.log.hard_waits),
        ("of Millpond for a free frame", facts.pond.as_ref().and_then(|pond| pond.pages.free_waits)),
    ];
    let mut evidence = format!("; redo {}", rate(redo));
    for (words, waits) in waits.iter().filter_map(|(words, waits)| Some((words, (*waits)?))) {
        evidence.push_str(&format!("; {waits:.0} waits {words}"));
    }
    let finding = match facts.log.age_growth {
        Some(_) => "nothing to change so far: the checkpoint age still grows",
        None => "no change needed: no setting that is looked at helps here",
    };
    none(facts, finding.to_owned(), evidence, "for this time only: a busier one may show more")
}

fn none(facts: &Facts, finding: String, more: String, sure: &str) -> Advice {
    let evidence = format!("{} samples in {:.0} s{more}", facts.samples, facts.seconds);
    Advice::none(RULE, finding, evidence, sure.to_owned())
}
