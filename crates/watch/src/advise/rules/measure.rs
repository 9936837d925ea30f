//! What must be counted before more can be said: only where there is trouble to explain, or where
//! the checkpoint age itself is not known.

use crate::advise::advice::{Advice, Urgency};
use crate::advise::facts::Facts;

const RULE: &str = "measure";
/// How the names of the metrics of flushing begin.
const FLUSHING: &str = "buffer_flush_";

/// Decides.
pub(crate) fn decide(facts: &Facts) -> Option<Advice> {
    if let (None, Some(why)) = (facts.log.age_peak, &facts.missing.age) {
        return unknown_age(facts, why);
    }
    let above = facts.log.above_soft.filter(|above| *above > 0.0)?;
    let of_flushing = |name: &&String| name.starts_with(FLUSHING);
    let off: Vec<&str> = facts.missing.switched_off.iter().filter(of_flushing).map(String::as_str).collect();
    if off.is_empty() {
        return None;
    }
    Some(Advice {
        rule: RULE,
        urgency: Urgency::Useful,
        finding: "who waits at the limit, and what forces pages to be written, is not counted".to_owned(),
        evidence: format!(
            "{} metrics are off ({}), while the age was at or above its soft limit {}",
            off.len(),
            off.join(", "),
            crate::advise::words::part_of(above, facts.seconds)
        ),
        action: format!("SET GLOBAL innodb_monitor_enable = '{FLUSHING}%'"),
        costs: "online, until a restart; a few counters in memory".to_owned(),
        undo: format!("SET GLOBAL innodb_monitor_disable = '{FLUSHING}%'"),
        sure: "it can be counted; run advise again afterwards".to_owned(),
    })
}

/// Nothing can be said of the log. If it is a privilege that is missing, that can be mended.
fn unknown_age(facts: &Facts, why: &str) -> Option<Advice> {
    let (action, undo) = if why.contains("PROCESS") {
        ("GRANT PROCESS ON *.* TO the user that advise connects as", "REVOKE PROCESS ON *.* FROM that user")
    } else {
        return Some(Advice::none(
            RULE,
            "the server does not tell its checkpoint age, so nothing can be said of the log".to_owned(),
            format!("{} samples in {:.0} s: {why}", facts.samples, facts.seconds),
            "the server says so".to_owned(),
        ));
    };
    Some(Advice {
        rule: RULE,
        urgency: Urgency::Useful,
        finding: "the server does not tell its checkpoint age, so nothing can be said of the log".to_owned(),
        evidence: format!("{} samples in {:.0} s: {why}", facts.samples, facts.seconds),
        action: action.to_owned(),
        costs: "online; the user may then see the statements of all users".to_owned(),
        undo: undo.to_owned(),
        sure: "the server says so".to_owned(),
    })
}
