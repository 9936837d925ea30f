//! `innodb_io_capacity`: too low if the load needs more pages a second than it allows, and the
//! checkpoint age pays for it; too high if pages are written that would soon change again.

use crate::advise::advice::{Advice, Urgency};
use crate::advise::facts::Facts;
use crate::advise::gates;
use crate::advise::words::round_up;

const RULE: &str = "io capacity";
/// The load needs more than the setting if so much more is written.
const MORE: f64 = 1.1;
/// A page that stays dirty for a shorter time is written early, seconds.
const EARLY_S: f64 = 10.0;
/// The age is low below this part of its soft limit.
const LOW_AGE: f64 = 0.2;
/// Fewer pages a second wear no device.
const FEW_PAGES: f64 = 200.0;
/// No less is proposed, pages a second.
const LEAST: f64 = 100.0;

/// Decides.
pub(crate) fn decide(facts: &Facts) -> Option<Advice> {
    let capacity = facts.settings.number("innodb_io_capacity")?;
    let pages = facts.writes.pages?;
    if facts.log.above_soft? > 0.0 {
        too_low(facts, capacity, pages)
    } else {
        too_high(facts, capacity, pages)
    }
}

fn too_low(facts: &Facts, capacity: f64, pages: f64) -> Option<Advice> {
    let maximum = facts.settings.number("innodb_io_capacity_max")?;
    let peak = facts.writes.pages_peak.unwrap_or(pages);
    if pages < MORE * capacity {
        return None;
    }
    let wanted = round_up(pages);
    let wanted_max = maximum.max(round_up(peak)).max(wanted);
    let change = gates::online(&[
        ("innodb_io_capacity_max", maximum, wanted_max),
        ("innodb_io_capacity", capacity, wanted),
    ]);
    let forced = facts.writes.sync_pages.map_or(String::new(), |sync| {
        format!(", {:.0} % of them with full force", 100.0 * sync / pages.max(1.0))
    });
    Some(Advice {
        rule: RULE,
        urgency: Urgency::Useful,
        finding: "innodb_io_capacity is below what the load needs, so flushing comes late and all at once"
            .to_owned(),
        evidence: format!(
            "{pages:.0} pages/s written on average{forced}, {peak:.0} in the busiest second, in {:.0} s; \
             innodb_io_capacity is {capacity}, _max {maximum}",
            facts.seconds
        ),
        action: change.action,
        costs: format!("{}; more page writes where the load would have let the age grow", change.note),
        undo: change.undo,
        sure: "the device can do it: it has done it. Whether reads suffer is not known. Change the log first: with a longer one fewer page writes are needed"
            .to_owned(),
    })
}

fn too_high(facts: &Facts, capacity: f64, pages: f64) -> Option<Advice> {
    let (age, soft) = (facts.log.age_peak?, facts.log.soft?);
    let stays = facts.writes.dirty_pages? / pages.max(1.0);
    let wanted = round_up((pages / 2.0).max(LEAST));
    let adaptive = facts.settings.is_on("innodb_adaptive_flushing") == Some(true);
    let low = age < LOW_AGE * soft;
    if !adaptive || !low || pages < FEW_PAGES || stays > EARLY_S || wanted > capacity / 2.0 {
        return None;
    }
    let change = gates::online(&[("innodb_io_capacity", capacity, wanted)]);
    Some(Advice {
        rule: RULE,
        urgency: Urgency::Useful,
        finding:
            "pages are written earlier than the log asks for, so the same page is written again and again"
                .to_owned(),
        evidence: format!(
            "{pages:.0} pages/s written; a dirty page is written after {stays:.1} s on average, while the age \
             was at most {:.0} % of its soft limit, in {:.0} s; innodb_io_capacity is {capacity}",
            100.0 * age / soft,
            facts.seconds
        ),
        action: change.action,
        costs: format!(
            "{}; the age grows, and with it the time of a recovery; adaptive flushing writes more again \
             when the age grows",
            change.note
        ),
        undo: change.undo,
        sure: "that pages are written early is sure; how many writes it saves depends on how often the same \
               pages change. Look again afterwards: pages/s must fall"
            .to_owned(),
    })
}
