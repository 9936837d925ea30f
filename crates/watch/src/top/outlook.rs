//! What to look at first: one rule for `top` and `serve`, fed with a reading a second, without a
//! clock. It is slow to change its mind, so that a steady load is said with one sentence.
//!
//! - "Writers waited" is said only if a counter of waits moved.
//! - Where the age goes is told by [`crate::forecast`]: to its soft limit, and to its limit if the
//!   flushing does not hold it before. Which statement drives it is said if the server tells that.
//! - An age that stands at its limit is said as that. Servers do not count all waits there: in
//!   MariaDB 10.11.19 `buffer_flush_sync_waits` stood still while throughput fell to a half.
//! - What is not known is not said to be well.

use super::reading::Reading;
use crate::forecast::{Forecast, Forecaster, Point};
use output::units::{show_micros, show_size};
use std::collections::VecDeque;

/// How urgent something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Nothing waits.
    Calm,
    /// Nothing is known to wait, and figures are missing.
    Unknown,
    /// It will get worse, or costs something.
    Notable,
    /// Somebody waits.
    Alarm,
}

/// Readings in which waits are looked for together.
const WINDOW: usize = 5;
/// From this part of the limit on the age is at its limit. Between two samples it may be above.
const AT_LIMIT: f64 = 0.999;
/// In so many readings of the window it must be.
const AT_LIMIT_READINGS: usize = 3;
/// Below this part of the soft limit the age is no longer above it.
const BELOW_SOFT: f64 = 0.95;
/// The waits that are told by a counter, most urgent first: the figure, how urgent, and the words.
const WAITS: [(&str, Urgency, &str); 4] = [
    ("hard_waits", Urgency::Alarm, "writers waited at the limit of the checkpoint age"),
    ("free_frame_waits", Urgency::Alarm, "threads waited for a free page"),
    ("log_buffer_waits", Urgency::Alarm, "threads waited for room in the log buffer"),
    ("lock_waits", Urgency::Notable, "transactions waited for row locks"),
];
/// What must be known before "nothing waits" is said, in words.
const NEEDED: [(&str, &str); 5] = [
    ("checkpoint_age_bytes", "the checkpoint age"),
    ("checkpoint_age_limit", "its limit"),
    ("free_frame_waits", "waits for pages"),
    ("log_buffer_waits", "waits for the log buffer"),
    ("lock_waits", "lock waits"),
];

/// A condition that begins after so many readings in which it is so, and ends after so many in
/// which it is not.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    on: bool,
    /// Readings in a row that contradict.
    against: usize,
}

impl Held {
    fn take(&mut self, now: bool, begin: usize, end: usize) {
        self.against = if now == self.on { 0 } else { self.against + 1 };
        if self.against >= if self.on { end } else { begin } {
            *self = Held { on: now, against: 0 };
        }
    }
}

/// What was seen in the last readings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outlook {
    window: VecDeque<Seen>,
    above_soft: Held,
    at_limit: Held,
    delayed: Held,
    now: Option<Reading>,
    forecaster: Forecaster,
    forecast: Option<Forecast>,
    /// What drives the age, as long as there is a forecast.
    driver: Option<String>,
}

/// What is kept of a reading.
#[derive(Clone, Debug, Default)]
struct Seen {
    seconds: f64,
    /// The age of its limit.
    share: Option<f64>,
    /// How often was waited, in the order of [`WAITS`].
    waits: [f64; WAITS.len()],
    delayed_us: f64,
}

impl Outlook {
    /// Takes the next reading.
    pub(crate) fn take(&mut self, reading: &Reading) {
        if !reading.follows() {
            // The first one, or the target was started again.
            *self = Outlook::default();
        }
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(seen(reading));
        let share = reading.age_share();
        let soft = reading.soft_share();
        let above = |part: f64| share.zip(soft).is_some_and(|(share, soft)| share >= part * soft);
        let was_above = self.above_soft.on;
        self.above_soft.take(if was_above { above(BELOW_SOFT) } else { above(1.0) }, 1, WINDOW);
        let at_limit = self.recent().filter(|seen| seen.share.is_some_and(|s| s >= AT_LIMIT)).count();
        self.at_limit.take(at_limit >= AT_LIMIT_READINGS, 1, WINDOW);
        let delayed = self.recent().any(|seen| seen.delayed_us > 0.0);
        self.delayed.take(delayed, 1, 1);
        self.forecast = self.forecaster.take(Point::of(reading.sample()));
        if self.forecast.is_none() {
            self.driver = None;
        }
        self.now = Some(reading.clone());
    }

    /// Notes what drives the age.
    pub(crate) fn is_driven_by(&mut self, driver: String) {
        self.driver = self.forecast.map(|_| driver);
    }

    /// Returns where the age goes, if that is foretold now, and what drives it.
    pub(crate) fn forecast(&self) -> Option<(Forecast, Option<&str>)> {
        self.forecast.map(|forecast| (forecast, self.driver.as_deref()))
    }

    /// Returns in how many seconds the age will reach its soft limit, if that is foretold now.
    pub(crate) fn seconds_left(&self) -> Option<f64> {
        self.forecast?.to_soft
    }

    /// Returns what to look at first, in one sentence.
    pub(crate) fn first(&self) -> (Urgency, String) {
        let Some(now) = &self.now else {
            return (Urgency::Unknown, "waiting for the first sample".to_owned());
        };
        let percent = 100.0 * now.age_share().unwrap_or(0.0);
        let is_millpond = now.level("throttled_us_total").is_some();
        let wait =
            |urgency| WAITS.iter().enumerate().find(|(i, wait)| wait.1 == urgency && self.waits(*i) > 0.0);
        if let Some((i, (_, urgency, words))) = wait(Urgency::Alarm) {
            return (*urgency, self.times(i, words));
        }
        if self.at_limit.on {
            let counted = if now.level("hard_waits").is_some() {
                "the server counts no waits there"
            } else {
                "whether writers wait is not counted"
            };
            let text = format!(
                "the checkpoint age was at its limit in the last {WINDOW} s, {percent:.0} % now; {counted}"
            );
            return (Urgency::Alarm, text);
        }
        if self.above_soft.on {
            let text = match (is_millpond, self.delayed.on) {
                (true, true) => {
                    format!("writers are delayed, {} a second", show_micros(self.delayed_a_second()))
                }
                (true, false) => "no writer is delayed now".to_owned(),
                (false, _) => "InnoDB flushes with full force".to_owned(),
            };
            let place =
                format!("the checkpoint age is at its soft limit or above, {percent:.0} % of the limit");
            let to_limit = match self.forecast.and_then(|forecast| forecast.to_limit) {
                Some(left) => format!(", which it reaches in about {left:.0} s"),
                None => String::new(),
            };
            return (Urgency::Notable, format!("{place}{to_limit}; {text}{}", self.driven()));
        }
        if let Some(forecast) = self.forecast {
            return (Urgency::Notable, self.foretold(&forecast, is_millpond));
        }
        match (now.level("lock_waiters"), wait(Urgency::Notable)) {
            (Some(waiters), _) if waiters > 0.0 => {
                return (Urgency::Notable, format!("{waiters:.0} transactions wait for row locks"));
            }
            (_, Some((i, (_, urgency, words)))) => return (*urgency, self.times(i, words)),
            _ => {}
        }
        let missing: Vec<&str> =
            NEEDED.iter().filter(|(name, _)| now.level(name).is_none()).map(|(_, words)| *words).collect();
        match missing.len() {
            0 => (Urgency::Calm, "nothing waits".to_owned()),
            n if n == NEEDED.len() => (
                Urgency::Unknown,
                "whether anything waits is not known: the target has no such figures".to_owned(),
            ),
            _ => {
                let text = format!("nothing is known to wait; not known: {}", missing.join(", "));
                (Urgency::Unknown, text)
            }
        }
    }

    /// Says where the age goes.
    fn foretold(&self, forecast: &Forecast, is_millpond: bool) -> String {
        let soft = if is_millpond { "writers will be delayed" } else { "InnoDB will flush with full force" };
        let limit = "writers will wait at the limit of the checkpoint age";
        let when = |what: &str, left: f64| format!("{what} in {left:.0} s");
        let what = match (forecast.to_soft, forecast.to_limit) {
            (Some(to_soft), None) => when(soft, to_soft),
            (Some(to_soft), Some(to_limit)) => {
                format!("{} and {}", when(soft, to_soft), when(limit, to_limit))
            }
            (None, to_limit) => when(limit, to_limit.unwrap_or_default()),
        };
        let growth = show_size(forecast.growth.max(1.0));
        let since = forecast.rises_for;
        format!("{what}: the age has grown by {growth}/s for {since:.0} s{}", self.driven())
    }

    /// Says what drives the age, if that is known.
    fn driven(&self) -> String {
        self.driver.as_ref().map_or(String::new(), |driver| format!("; most rows are changed by {driver}"))
    }

    /// Returns the last readings.
    fn recent(&self) -> impl Iterator<Item = &Seen> {
        self.window.iter().rev().take(WINDOW)
    }

    /// Returns how often was waited in them.
    fn waits(&self, which: usize) -> f64 {
        self.recent().map(|seen| seen.waits[which]).sum()
    }

    fn seconds(&self) -> f64 {
        self.recent().map(|seen| seen.seconds).sum::<f64>().max(0.001)
    }

    fn times(&self, which: usize, words: &str) -> String {
        let (times, seconds) = (self.waits(which), self.seconds());
        let times = if times == 1.0 { "once".to_owned() } else { format!("{times:.0} times") };
        format!("{words} {times} in the last {seconds:.0} s")
    }

    fn delayed_a_second(&self) -> f64 {
        self.recent().map(|seen| seen.delayed_us).sum::<f64>() / self.seconds()
    }
}

fn seen(reading: &Reading) -> Seen {
    let seconds = reading.seconds();
    let grew = |name: &str| reading.rate(name).unwrap_or(0.0) * seconds;
    Seen {
        seconds,
        share: reading.age_share(),
        waits: WAITS.map(|(name, _, _)| grew(name)),
        delayed_us: grew("throttled_us_total"),
    }
}

#[cfg(test)]
mod tests;
