//! Millpond: the recovery target against the measured speed of replay, writers that are delayed, a
//! pool that is too small, and what endangers data.

use crate::advise::advice::{Advice, Urgency};
use crate::advise::facts::{Facts, PondFacts, PondLog};
use crate::advise::gates::{self, Change};
use crate::advise::words::{option_bytes, rate, statement_bytes, time};
use output::units::{show_micros, show_size};

const LOG: &str = "millpond log";
const POOL: &str = "millpond pool";
const SAFETY: &str = "millpond safety";
/// A delay of less than this in a second is no loss, microseconds.
const DELAY_US: f64 = 1000.0;
/// From this part of its greatest useful size on a log is long enough.
const HELPFUL: f64 = 0.95;
/// Of the recovery target, what the capacity is for.
const REPLAY_PART: f64 = 0.75;
/// The recovery target if none was set, seconds.
const DEFAULT_TARGET_S: f64 = 10.0;
/// A pool is too small if it makes this part of the page writes, and so many of them a second.
const FOR_FRAMES: f64 = 0.5;
const WRITES: f64 = 100.0;

/// Decides about the length of the log.
pub(crate) fn log(facts: &Facts) -> Option<Advice> {
    let log = &facts.pond.as_ref()?.log;
    let (peak, limit) = (log.age_peak?, log.limit?);
    let delayed = log.delayed_us?;
    let hard = log.hard_waits.unwrap_or(0.0);
    if delayed >= DELAY_US || hard > 0.0 {
        return Some(delayed_writers(facts, log, peak, limit, delayed));
    }
    log.redo_rate.filter(|rate| *rate > 0.0)?;
    let replay = log.replay_rate.map_or_else(
        || "replay was not measured yet".to_owned(),
        |speed| {
            format!(
                "replay does {}: a recovery from the peak takes {}, from the limit {}",
                rate(speed),
                time(peak / speed),
                time(limit / speed)
            )
        },
    );
    let evidence = format!(
        "no writer was delayed in {:.0} s; peak of the checkpoint age {} of {}; {replay}",
        facts.seconds,
        show_size(peak),
        show_size(limit)
    );
    let finding = "a longer redo log gains nothing".to_owned();
    Some(Advice::none(
        LOG,
        finding,
        evidence,
        format!("for these {:.0} s; a busier time may show more", facts.seconds),
    ))
}

fn delayed_writers(facts: &Facts, log: &PondLog, peak: f64, limit: f64, delayed: f64) -> Advice {
    let hard = log.hard_waits.unwrap_or(0.0);
    let evidence = format!(
        "writers delayed {} a second, {hard:.0} waits at the limit, in {:.0} s; peak of the checkpoint age \
         {} of {}{}",
        show_micros(delayed),
        facts.seconds,
        show_size(peak),
        show_size(limit),
        log.redo_rate.map_or(String::new(), |redo| format!("; redo {}", rate(redo)))
    );
    let urgency = if hard > 0.0 { Urgency::Urgent } else { Urgency::Useful };
    let capacity = log.capacity.unwrap_or(limit);
    if log.helpful.is_some_and(|helpful| capacity >= HELPFUL * helpful) {
        let finding = "writers are delayed, and a longer log would not help: it is as long as is useful. \
                       The page writers are at the speed of the device";
        let sure = "the useful length is an estimate from the dirty pages".to_owned();
        let mut advice = Advice::none(LOG, finding.to_owned(), evidence, sure);
        advice.urgency = urgency;
        advice.action =
            "a larger buffer pool, if pages are written for free frames; else a faster device".into();
        return advice;
    }
    let (change, longer) = longer(facts, log, capacity);
    let recovery = log.replay_rate.map_or(String::new(), |speed| {
        format!(
            "; a recovery from the limit takes up to {} instead of {}, at the measured {}",
            time(longer * limit / speed),
            time(limit / speed),
            rate(speed)
        )
    });
    Advice {
        rule: LOG,
        urgency,
        finding: "writers are delayed, because the log is as short as the recovery target asks for"
            .to_owned(),
        evidence,
        action: change.action,
        costs: format!("{}{recovery}", change.note),
        undo: change.undo,
        sure: "that they are delayed is sure. A longer log lets changes share page writes; if the device \
               cannot keep up with those either, the delay stays"
            .to_owned(),
    }
}

/// Doubles what decides the length of the log. Returns the change and how much longer the log gets.
fn longer(facts: &Facts, log: &PondLog, capacity: f64) -> (Change, f64) {
    let settings = &facts.settings;
    if let Some(pinned) = settings.number("millpond_redo_capacity").filter(|pinned| *pinned > 0.0) {
        let set = |bytes| format!("SET GLOBAL millpond_redo_capacity = {}", statement_bytes(bytes));
        let change = Change { action: set(2.0 * pinned), undo: set(pinned), note: "online" };
        return (change, 2.0);
    }
    if let Some(target) = settings.number("millpond_recovery_target") {
        return (gates::online(&[("millpond_recovery_target", target, 2.0 * target)]), 2.0);
    }
    let derived = log.replay_rate.map(|speed| (capacity / (REPLAY_PART * speed)).ceil());
    let target = derived.filter(|target| *target >= 1.0).unwrap_or(DEFAULT_TARGET_S);
    let option =
        |seconds: f64| format!("Db::set_recovery_target or Options::recovery_target: {seconds:.0} s");
    let undo =
        format!("{} (derived from the capacity; it is {DEFAULT_TARGET_S} s if you set none)", option(target));
    (Change { action: option(2.0 * target), undo, note: "online" }, 2.0)
}

/// Decides whether the pool is too small.
pub(crate) fn pool(facts: &Facts) -> Option<Advice> {
    let pages = &facts.pond.as_ref()?.pages;
    let waits = pages.free_waits?;
    let forced = pages.for_frames.zip(pages.written);
    let many = forced.is_some_and(|(forced, written)| written >= WRITES && forced >= FOR_FRAMES * written);
    if waits <= 0.0 && !many {
        return None;
    }
    let old = pages.pool_bytes?;
    let mut evidence =
        format!("{waits:.0} waits for a free frame in {:.0} s; pool {}", facts.seconds, show_size(old));
    if let Some((forced, written)) = forced {
        evidence.push_str(&format!("; {forced:.0} of {written:.0} pages/s written for free frames"));
    }
    evidence.push_str(&pages.reads.map_or(String::new(), |reads| format!("; {reads:.0} pages/s read")));
    let (action, undo) = match facts.version {
        Some(_) => {
            let set = |bytes| format!("SET GLOBAL millpond_buffer_pool_size = {}", statement_bytes(bytes));
            (set(2.0 * old), set(old))
        }
        None => {
            let set = |bytes| {
                format!("Db::set_buffer_pool_bytes or Options::buffer_pool_bytes: {}", option_bytes(bytes))
            };
            (set(2.0 * old), set(old))
        }
    };
    Some(Advice {
        rule: POOL,
        urgency: Urgency::of_waits(waits, facts.seconds),
        finding: "the buffer pool is too small for what is written: pages are written to get free frames"
            .to_owned(),
        evidence,
        action,
        costs: format!("online; {} more memory", show_size(old)),
        undo,
        sure: "whether twice is enough is not known: look at the same figures afterwards".to_owned(),
    })
}

/// Says what endangers data.
pub(crate) fn safety(facts: &Facts) -> Option<Advice> {
    let pond = facts.pond.as_ref()?;
    let is_server = facts.version.is_some();
    let (urgency, finding, figure, action, undo) = match pond {
        PondFacts { poisoned: true, .. } => (
            Urgency::Urgent,
            "a write or a sync has failed, and the database takes no more work",
            "poisoned is 1",
            "look into the error log and at the disk, then open the database again: it recovers",
            "",
        ),
        PondFacts { doublewrite_off: true, .. } => (
            Urgency::Useful,
            "pages are written without a copy: a power cut may tear one for good",
            "doublewrite_off is 1",
            if is_server { "SET GLOBAL millpond_doublewrite = ON" } else { "Db::set_doublewrite: On" },
            if is_server {
                "SET GLOBAL millpond_doublewrite = OFF"
            } else {
                "Db::set_doublewrite: UnsafeOff"
            },
        ),
        PondFacts { in_memory: true, .. } => (
            Urgency::Useful,
            "the directory is in memory: no commit survives a power cut",
            "durable is 0",
            "a directory on a disk, if the data are worth it",
            "",
        ),
        _ => return None,
    };
    Some(Advice {
        rule: SAFETY,
        urgency,
        finding: finding.to_owned(),
        evidence: format!("{figure} in the last of {} samples", facts.samples),
        action: action.to_owned(),
        costs: if pond.doublewrite_off { "each page is written twice" } else { "" }.to_owned(),
        undo: undo.to_owned(),
        sure: "the engine says so".to_owned(),
    })
}
