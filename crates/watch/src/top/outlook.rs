//! What to look at first: one rule for `top` and `serve`, fed with a reading a second, without a
//! clock. It is slow to change its mind, so that a steady load is said with one sentence.
//!
//! - "Writers waited" is said only if a counter of waits moved.
//! - Below the soft limit the growth of the age tells when it is reached, if it lasts. Nothing is
//!   foretold above it: InnoDB flushes with full force there, and Millpond delays writers, so a
//!   straight line to the limit is wrong.
//! - An age that stands at its limit is said as that. Servers do not count all waits there: in
//!   MariaDB 10.11.19 `buffer_flush_sync_waits` stood still while throughput fell to a half.
//! - What is not known is not said to be well.

use super::reading::Reading;
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
/// Readings that a trend is told from, and how many of them there must be. In none of them the age
/// may have fallen: an age that goes up and down like a saw has no trend.
const TREND: usize = 8;
const LEAST_TREND: usize = 6;
/// From this part of the limit on the age is at its limit. Between two samples it may be above.
const AT_LIMIT: f64 = 0.999;
/// In so many readings of the window it must be.
const AT_LIMIT_READINGS: usize = 3;
/// Below this part of the soft limit the age is no longer above it.
const BELOW_SOFT: f64 = 0.95;
/// A forecast is for at most so many seconds.
const FORECAST_S: f64 = 20.0;
/// The least growth that is foretold from, of the limit, a second: from less it takes minutes.
const LEAST_GROWTH: f64 = 0.002;
/// The least age that is foretold from, of the soft limit.
const FORECAST_FROM: f64 = 0.5;
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
    rising: Held,
    delayed: Held,
    now: Option<Reading>,
    /// As long as a forecast is said.
    trend: Option<Trend>,
}

/// Where the age goes.
#[derive(Clone, Copy, Debug)]
struct Trend {
    /// Seconds to the soft limit.
    left: f64,
    /// The growth, of the limit, a second.
    growth: f64,
}

/// What is kept of a reading.
#[derive(Clone, Debug, Default)]
struct Seen {
    seconds: f64,
    /// The age of its limit.
    share: Option<f64>,
    /// The growth of the age, of its limit, a second.
    growth: Option<f64>,
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
        if self.window.len() == TREND {
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
        let trend = self.trend(share, soft);
        self.rising.take(trend.is_some_and(|trend| trend.left <= FORECAST_S), 3, 3);
        let foretold = self.rising.on && !self.above_soft.on;
        self.trend = if foretold { trend.or(self.trend) } else { None };
        self.now = Some(reading.clone());
    }

    /// Returns where the age goes at the rate of the last readings; `None` if it does not rise, or
    /// is above its soft limit or far from it.
    fn trend(&self, share: Option<f64>, soft: Option<f64>) -> Option<Trend> {
        let (share, soft) = (share?, soft?);
        let mut growths: Vec<f64> = self.window.iter().filter_map(|seen| seen.growth).collect();
        let falls = growths.iter().any(|growth| *growth < 0.0);
        if falls || growths.len() < LEAST_TREND || share >= soft || share < FORECAST_FROM * soft {
            return None;
        }
        // One second with much growth is no trend.
        let mean = growths.iter().sum::<f64>() / growths.len() as f64;
        growths.sort_by(f64::total_cmp);
        let growth = mean.min(growths[growths.len() / 2]);
        (growth >= LEAST_GROWTH).then(|| Trend { left: (soft - share) / growth, growth })
    }

    /// Returns in how many seconds the age will reach its soft limit, if that is foretold now.
    pub(crate) fn seconds_left(&self) -> Option<f64> {
        self.trend.map(|trend| trend.left.max(1.0))
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
            return (Urgency::Notable, format!("{place}; {text}"));
        }
        if let Some(trend) = self.trend {
            let what =
                if is_millpond { "writers will be delayed" } else { "InnoDB will flush with full force" };
            let limit = now.level("checkpoint_age_limit").unwrap_or(0.0);
            let (left, growth) = (trend.left.max(1.0), show_size((trend.growth * limit).max(1.0)));
            let text = format!("{what} in {left:.0} s if the age goes on growing by {growth}/s");
            return (Urgency::Notable, text);
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
    let limit = reading.level("checkpoint_age_limit").filter(|limit| *limit > 0.0);
    Seen {
        seconds,
        share: reading.age_share(),
        growth: reading.growth("checkpoint_age_bytes").zip(limit).map(|(growth, limit)| growth / limit),
        waits: WAITS.map(|(name, _, _)| grew(name)),
        delayed_us: grew("throttled_us_total"),
    }
}

#[cfg(test)]
mod tests;
