//! Fewer dirty pages, where the checkpoint age is in trouble: the way without a longer recovery.

use crate::advise::advice::{Advice, Urgency};
use crate::advise::facts::Facts;
use crate::advise::gates;

/// Of the dirty share that was seen, the new maximum.
const PART: f64 = 0.75;
/// With fewer dirty pages than so many percent, a maximum is no way.
const LEAST: f64 = 4.0;

/// Decides.
pub(crate) fn decide(facts: &Facts) -> Option<Advice> {
    let above = facts.log.above_soft.filter(|above| *above > 0.0)?;
    let (dirty, maximum) =
        (facts.writes.dirty_percent?, facts.settings.number("innodb_max_dirty_pages_pct")?);
    let wanted = (dirty * PART).floor();
    if dirty < LEAST || wanted >= maximum {
        return None;
    }
    let change = gates::online(&[("innodb_max_dirty_pages_pct", maximum, wanted)]);
    Some(Advice {
        rule: "dirty pages",
        urgency: Urgency::Useful,
        finding: "the other way than a longer log: write pages before the soft limit forces it".to_owned(),
        evidence: format!(
            "{dirty:.0} % of the pages dirty on average, allowed {maximum:.0} %, while the age was at or above \
             its soft limit {}",
            crate::advise::words::part_of(above, facts.seconds)
        ),
        action: change.action,
        costs: format!("{}; more page writes, because fewer changes share one", change.note),
        undo: change.undo,
        sure: "it helps if the load comes in bursts, and not if the device is busy all the time. \
               A longer log is the surer way"
            .to_owned(),
    })
}
