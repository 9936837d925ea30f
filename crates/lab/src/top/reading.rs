//! What two samples tell: levels of the later one, rates between them. And what to look at first.

use crate::units::show_size;
use crate::watch::Sample;

/// A sample and what has changed since the one before.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reading {
    now: Sample,
    /// The sample before, unless the target was started again since.
    before: Option<Sample>,
}

/// How urgent something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Nothing waits.
    Calm,
    /// It will get worse, or costs something.
    Notable,
    /// Somebody waits, or will soon.
    Alarm,
}

/// Counters that tell by getting smaller that the target was started again.
const NEVER_SHRINK: [&str; 4] = ["uptime_seconds", "commits", "row_inserts", "fsyncs"];

/// From so much of the limit on the checkpoint age counts as at its limit.
const AT_LIMIT: f64 = 0.97;

impl Reading {
    /// Makes a reading of a sample and the one before.
    pub(crate) fn new(now: Sample, before: Option<&Sample>) -> Reading {
        let before = before.filter(|before| {
            let shrank =
                |name: &str| matches!((now.get(name), before.get(name)), (Some(a), Some(b)) if a < b);
            before.unix_us < now.unix_us && !NEVER_SHRINK.iter().any(|name| shrank(name))
        });
        Reading { before: before.cloned(), now }
    }

    /// Returns the time, microseconds since 1970.
    pub(crate) fn unix_us(&self) -> u64 {
        self.now.unix_us
    }

    /// Returns whether it follows the sample before, without a restart between.
    pub(crate) fn follows(&self) -> bool {
        self.before.is_some()
    }

    /// Returns the sample.
    pub(crate) fn sample(&self) -> &Sample {
        &self.now
    }

    /// Returns a level.
    pub(crate) fn level(&self, name: &str) -> Option<f64> {
        self.now.get(name)
    }

    /// Returns how much a figure grew a second; negative if a level fell.
    pub(crate) fn growth(&self, name: &str) -> Option<f64> {
        let before = self.before.as_ref()?;
        let seconds = (self.now.unix_us - before.unix_us) as f64 / 1e6;
        Some((self.now.get(name)? - before.get(name)?) / seconds)
    }

    /// Returns a counter's growth a second.
    pub(crate) fn rate(&self, name: &str) -> Option<f64> {
        self.growth(name).map(|rate| rate.max(0.0))
    }

    /// Returns the checkpoint age in parts of its limit.
    pub(crate) fn age_share(&self) -> Option<f64> {
        let limit = self.level("checkpoint_age_limit").filter(|limit| *limit > 0.0)?;
        Some(self.level("checkpoint_age_bytes")? / limit)
    }

    /// Returns the rates of pages written, by what forced them, in the order of the sample.
    pub(crate) fn forces(&self) -> Vec<(String, f64)> {
        let names =
            self.now.values.iter().filter_map(|value| value.0.strip_prefix("pages_written_by_force."));
        let rate = |force: &str| self.rate(&format!("pages_written_by_force.{force}"));
        names.map(|force| (force.to_owned(), rate(force).unwrap_or(0.0))).collect()
    }
}

/// Returns in how many seconds the checkpoint age reaches its limit at the rate of the last
/// readings, oldest first; `None` if it does not rise.
pub(crate) fn seconds_left<'r>(readings: impl DoubleEndedIterator<Item = &'r Reading>) -> Option<f64> {
    /// Readings that are averaged: InnoDB's age moves in steps of a second.
    const AVERAGED: usize = 5;
    let last: Vec<&Reading> = readings.rev().take(AVERAGED).take_while(|r| r.before.is_some()).collect();
    let growths: Vec<f64> = last.iter().filter_map(|r| r.growth("checkpoint_age_bytes")).collect();
    let now = last.first()?;
    let left = now.level("checkpoint_age_limit")? - now.level("checkpoint_age_bytes")?;
    let growth = growths.iter().sum::<f64>() / growths.len().max(1) as f64;
    (growth > 0.0 && left > 0.0).then(|| left / growth)
}

/// Returns what to look at first, in one sentence.
pub(crate) fn first(now: &Reading, seconds_left: Option<f64>) -> (Urgency, String) {
    let rate = |name: &str| now.rate(name).unwrap_or(0.0);
    let share = now.age_share().unwrap_or(0.0);
    let above_soft = match (now.level("checkpoint_age_bytes"), now.level("checkpoint_age_soft")) {
        (Some(age), Some(soft)) => soft > 0.0 && age >= soft,
        _ => false,
    };
    if share >= AT_LIMIT || rate("hard_waits") > 0.0 {
        let percent = 100.0 * share;
        return (
            Urgency::Alarm,
            format!("writers wait: the checkpoint age is at {percent:.0} % of its limit"),
        );
    }
    if let Some(left) = seconds_left.filter(|left| *left < 60.0 && (share > 0.5 || above_soft)) {
        let growth = show_size(now.growth("checkpoint_age_bytes").unwrap_or(0.0).max(0.0));
        return (
            Urgency::Alarm,
            format!("writers will wait in {left:.0} s at this rate: the age grows by {growth}/s"),
        );
    }
    if rate("free_frame_waits") > 0.0 {
        return (
            Urgency::Alarm,
            format!("threads wait for free pages, {:.0} times a second", rate("free_frame_waits")),
        );
    }
    if rate("log_buffer_waits") > 0.0 {
        let waits = rate("log_buffer_waits");
        return (
            Urgency::Alarm,
            format!("threads wait for room in the log buffer, {waits:.0} times a second"),
        );
    }
    if above_soft {
        let percent = 100.0 * share;
        let text = format!("the checkpoint age is above its soft limit, at {percent:.0} % of the limit");
        return (Urgency::Notable, text);
    }
    match (now.level("lock_waiters"), now.rate("lock_waits")) {
        (Some(waiters), _) if waiters > 0.0 => {
            (Urgency::Notable, format!("{waiters:.0} transactions wait for row locks"))
        }
        (None, Some(waits)) if waits > 0.0 => (Urgency::Notable, format!("{waits:.0} lock waits a second")),
        _ => (Urgency::Calm, "nothing waits".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::ColumnKind::Gauge;
    use expect_test::expect;

    fn sample(second: u64, figures: &[(&str, f64)]) -> Sample {
        let values = figures.iter().map(|(name, value)| ((*name).to_owned(), "", Gauge, *value));
        Sample::new(second * 1_000_000, values.collect())
    }

    fn age(second: u64, age: f64) -> Sample {
        let limits = [("checkpoint_age_limit", 1000.0), ("checkpoint_age_soft", 875.0)];
        sample(second, &[("checkpoint_age_bytes", age), limits[0], limits[1]])
    }

    #[test]
    fn rates_are_between_samples_and_not_over_a_restart() {
        let first = sample(10, &[("commits", 100.0), ("uptime_seconds", 50.0)]);
        let reading = Reading::new(sample(12, &[("commits", 300.0), ("uptime_seconds", 52.0)]), Some(&first));
        assert_eq!(
            (reading.rate("commits"), reading.level("commits"), reading.rate("x")),
            (Some(100.0), Some(300.0), None)
        );
        for later in
            [sample(12, &[("commits", 300.0), ("uptime_seconds", 1.0)]), sample(10, &[("commits", 300.0)])]
        {
            assert_eq!(Reading::new(later, Some(&first)).rate("commits"), None);
        }
    }

    #[test]
    fn the_seconds_left_follow_the_last_readings() {
        let samples: Vec<Sample> = (0..8).map(|i| age(i, 100.0 * i as f64)).collect();
        let readings: Vec<Reading> =
            samples.windows(2).map(|w| Reading::new(w[1].clone(), Some(&w[0]))).collect();
        assert_eq!(seconds_left(readings.iter()), Some(3.0));
        let falling = [Reading::new(age(9, 600.0), Some(&age(8, 700.0)))];
        assert_eq!((seconds_left(falling.iter()), seconds_left([].iter())), (None, None));
    }

    #[test]
    fn what_to_look_at_first() {
        let before = sample(
            0,
            &[("free_frame_waits", 5.0), ("log_buffer_waits", 5.0), ("hard_waits", 1.0), ("lock_waits", 0.0)],
        );
        let mut out = String::new();
        let levels = |age: f64| {
            vec![
                ("checkpoint_age_bytes", age),
                ("checkpoint_age_limit", 1000.0),
                ("checkpoint_age_soft", 875.0),
            ]
        };
        for (age, more, left) in [
            (100.0, vec![], None),
            (100.0, vec![("lock_waiters", 3.0)], Some(10.0)),
            (100.0, vec![("lock_waits", 7.0)], None),
            (900.0, vec![("lock_waiters", 3.0)], None),
            (600.0, vec![], Some(12.3)),
            (600.0, vec![], Some(90.0)),
            (975.0, vec![], Some(1.0)),
            (100.0, vec![("hard_waits", 2.0)], None),
            (100.0, vec![("free_frame_waits", 9.0)], None),
            (100.0, vec![("log_buffer_waits", 9.0)], None),
        ] {
            let figures: Vec<_> = levels(age).into_iter().chain(more).collect();
            let (urgency, text) = first(&Reading::new(sample(1, &figures), Some(&before)), left);
            out += &format!("{urgency:?}: {text}\n");
        }
        expect![[r#"
            Calm: nothing waits
            Notable: 3 transactions wait for row locks
            Notable: 7 lock waits a second
            Notable: the checkpoint age is above its soft limit, at 90 % of the limit
            Alarm: writers will wait in 12 s at this rate: the age grows by 0 B/s
            Calm: nothing waits
            Alarm: writers wait: the checkpoint age is at 98 % of its limit
            Alarm: writers wait: the checkpoint age is at 10 % of its limit
            Alarm: threads wait for free pages, 4 times a second
            Alarm: threads wait for room in the log buffer, 4 times a second
        "#]]
        .assert_eq(&out);
    }
}
