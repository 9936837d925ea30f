//! The size of the redo log: by what waits for the checkpoint at the worst moment, and the price in
//! recovery. Not by an hour of writes, and not by a percentage.
//!
//! - The age reached its soft limit: InnoDB flushes with full force there, and at the limit writers
//!   wait. The peak is cut off by the log, so what the load needs is not known; the log is made
//!   longer in a step, and looked at again.
//! - The age came near its soft limit: a fifth more.
//! - The age still grows: its peak is not known, so nothing is said but that.
//! - Else a longer log gains nothing that can be seen.

use crate::advise::advice::{Advice, Urgency};
use crate::advise::facts::{Facts, LogFacts};
use crate::advise::gates;
use crate::advise::words::{part_of, rate, recovery, round_size, time, times};
use output::units::show_size;

const RULE: &str = "log size";
/// Samples above the soft limit are urgent if they are this part of all.
const OFTEN: f64 = 0.1;
/// The same of samples at the limit.
const AT_LIMIT: f64 = 0.01;
/// With so many of them a doubled log is not enough.
const MOSTLY: f64 = 0.5;
/// From this part of the soft limit on the age is near it.
const NEAR: f64 = 0.8;
/// `innodb_flushing_avg_loops`, where it is not known.
const AVERAGED_S: f64 = 30.0;
/// A log of less than this costs nothing that is worth a change, bytes.
const SHORT: f64 = 1_073_741_824.0;
/// A log is far too long if no more than this part of the limit is used, in a time of at least so
/// many seconds.
const FAR_TOO_LONG: f64 = 0.1;
const LONG_WATCH_S: f64 = 600.0;
/// More than this helped one server of dozens, bytes.
const RARELY_MORE: f64 = 2_147_483_648.0;

/// Decides.
pub(crate) fn decide(facts: &Facts) -> Option<Advice> {
    let log = &facts.log;
    let sizes = Sizes {
        peak: log.age_peak?,
        soft: log.soft?,
        limit: log.limit?,
        capacity: log.capacity.filter(|capacity| *capacity > 0.0)?,
    };
    let above = log.above_soft.unwrap_or(0.0);
    if above > 0.0 || log.hard_waits.is_some_and(|waits| waits > 0.0) {
        return Some(too_short(facts, &sizes, above));
    }
    if sizes.peak >= NEAR * sizes.soft {
        return Some(near(facts, &sizes));
    }
    // Of a server that writes nothing, nothing is said.
    log.redo_rate.filter(|rate| *rate > 0.0)?;
    if let Some(growth) = log.age_growth {
        return Some(still_growing(facts, &sizes, growth));
    }
    Some(long_enough(facts, &sizes))
}

struct Sizes {
    peak: f64,
    soft: f64,
    limit: f64,
    capacity: f64,
}

fn too_short(facts: &Facts, sizes: &Sizes, above: f64) -> Advice {
    let (log, seconds) = (&facts.log, facts.seconds);
    let at_limit = log.at_limit.unwrap_or(0.0);
    let waits = match log.hard_waits {
        Some(waits) => format!("{waits:.0} waits of writers counted"),
        None => "waits of writers are not counted".to_owned(),
    };
    let evidence = format!(
        "at or above the soft limit {}, at the limit {}; peak {} of {}{}; {waits}",
        part_of(above, seconds),
        part_of(at_limit, seconds),
        show_size(sizes.peak),
        show_size(sizes.limit),
        log.redo_rate.map_or(String::new(), |redo| format!("; redo {}", rate(redo))),
    );
    let averaged = facts.settings.number("innodb_flushing_avg_loops").unwrap_or(AVERAGED_S);
    let step = if above >= MOSTLY { 4.0 } else { 2.0 };
    // Flushing follows an average of the redo over so many seconds: a log that is full sooner is
    // full before the flushing knows.
    let averaged_bytes = log.redo_rate.unwrap_or(0.0) * averaged * sizes.capacity / sizes.soft;
    let wanted = round_size((step * sizes.capacity).max(averaged_bytes));
    let hour = hour(log, None);
    let waited = at_limit > 0.0 || log.hard_waits.is_some_and(|waits| waits > 0.0);
    let often = above >= OFTEN || at_limit >= AT_LIMIT;
    let urgent = often || Urgency::of_waits(log.hard_waits.unwrap_or(0.0), seconds) == Urgency::Urgent;
    let consequence = if waited { ", and writers wait at the limit" } else { "" };
    Advice {
        urgency: if urgent { Urgency::Urgent } else { Urgency::Useful },
        finding: format!("the redo log is too short: InnoDB flushes with full force{consequence}"),
        sure: format!(
            "that it is too short is sure. How long it must be is not: the peak is cut off by the limit, \
             so run advise again afterwards{hour}{}",
            rarely(wanted)
        ),
        ..resized(facts, sizes, wanted, evidence)
    }
}

fn near(facts: &Facts, sizes: &Sizes) -> Advice {
    let percent = 100.0 * sizes.peak / sizes.soft;
    let evidence = format!(
        "peak {}, {percent:.0} % of the soft limit {}, in {:.0} s",
        show_size(sizes.peak),
        show_size(sizes.soft),
        facts.seconds
    );
    let mib = 1_048_576.0;
    let wanted = (1.2 * sizes.capacity / mib).ceil() * mib;
    Advice {
        finding: "the checkpoint age comes near its soft limit: nobody waits yet".to_owned(),
        sure: format!(
            "seen for {:.0} s: if a busier hour comes, it will reach the limit. A fifth more, then look \
             again{}{}",
            facts.seconds,
            hour(&facts.log, Some(sizes.peak)),
            rarely(wanted)
        ),
        ..resized(facts, sizes, wanted, evidence)
    }
}

/// Makes the advice to give the log another size. Finding and certainty are left open.
fn resized(facts: &Facts, sizes: &Sizes, wanted: f64, evidence: String) -> Advice {
    let version = facts.version.unwrap_or_else(|| client::Version::parse("", ""));
    let change = gates::log_size(facts, version, sizes.capacity, wanted);
    let limit = sizes.limit * wanted / sizes.capacity;
    let costs = format!(
        "{}; {} of disk; a recovery at the limit reads {} instead of {}: {} instead of {}, at the published \
         2 to 5 minutes a GiB",
        change.note,
        show_size(wanted),
        show_size(limit),
        show_size(sizes.limit),
        recovery(limit),
        recovery(sizes.limit)
    );
    Advice {
        rule: RULE,
        urgency: Urgency::Useful,
        finding: String::new(),
        evidence,
        action: change.action,
        costs,
        undo: change.undo,
        sure: String::new(),
    }
}

fn still_growing(facts: &Facts, sizes: &Sizes, growth: f64) -> Advice {
    let evidence = format!(
        "{}, {:.0} % of the limit {}, after {:.0} s in which it grew by {}",
        show_size(sizes.peak),
        100.0 * sizes.peak / sizes.limit,
        show_size(sizes.limit),
        facts.seconds,
        rate(growth)
    );
    let sure = format!(
        "not known yet: if it goes on growing, it is at its soft limit in {}. Watch for longer than that, with \
         --watch",
        time((sizes.soft - sizes.peak) / growth)
    );
    let finding = "the checkpoint age still grows, so what the load needs was not seen".to_owned();
    Advice { action: "watch longer".to_owned(), ..Advice::none(RULE, finding, evidence, sure) }
}

fn long_enough(facts: &Facts, sizes: &Sizes) -> Advice {
    let used = sizes.peak / sizes.limit;
    let evidence = format!(
        "peak {}, {:.1} % of the limit {}, never at the soft limit in {:.0} s{}",
        show_size(sizes.peak),
        100.0 * used,
        show_size(sizes.limit),
        facts.seconds,
        hour(&facts.log, Some(sizes.peak))
    );
    let far_too_long = used < FAR_TOO_LONG && sizes.capacity > SHORT;
    if !far_too_long {
        let sure = format!(
            "for these {:.0} s. A busier time may need more: --watch 10m, or a collection of a day",
            facts.seconds
        );
        return Advice::none(RULE, "a longer redo log gains nothing".to_owned(), evidence, sure);
    }
    let price = format!(
        "a crash at the limit costs {} of recovery at the published 2 to 5 minutes a GiB, one at this peak {}",
        recovery(sizes.limit),
        recovery(sizes.peak)
    );
    let finding = "the redo log is far longer than what is used".to_owned();
    if facts.seconds < LONG_WATCH_S {
        let sure = format!(
            "{:.0} s are too short a time to make a log shorter: --watch 10m in the busiest hour. Meanwhile \
             its length does no harm: {price}",
            facts.seconds
        );
        return Advice::none(RULE, finding, evidence, sure);
    }
    // Four times what was used at the worst moment.
    let wanted = round_size(4.0 * sizes.peak * sizes.capacity / sizes.soft).max(96.0 * 1_048_576.0);
    let shorter = resized(facts, sizes, wanted, evidence);
    Advice {
        finding,
        costs: format!("{}; {price}", shorter.costs),
        sure: "only if the time that was watched has the heaviest load. What is not used does no \
               harm: the price is only the longest recovery that is possible"
            .to_owned(),
        ..shorter
    }
}

/// Says what the rule of an hour asks for, and why it is not followed.
fn hour(log: &LogFacts, peak: Option<f64>) -> String {
    let Some(hour) = log.hour.filter(|hour| *hour > 0.0) else { return String::new() };
    let beside = peak
        .filter(|peak| *peak > 0.0)
        .map_or(String::new(), |peak| format!(", {} what was used", times(hour, peak)));
    format!(
        "; not the rule of an hour: it asks for {}{beside}, because it counts all that is written and not \
         what waits for the checkpoint",
        show_size(hour)
    )
}

fn rarely(wanted: f64) -> &'static str {
    if wanted > RARELY_MORE { "; more than 2 GiB helped one server in dozens" } else { "" }
}
