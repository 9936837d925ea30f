//! What two samples tell: levels of the later one, rates between them.

use crate::sources::Sample;

/// A sample and what has changed since the one before.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reading {
    now: Sample,
    /// The sample before, unless the target was started again since.
    before: Option<Sample>,
}

/// Counters that tell by getting smaller that the target was started again.
const NEVER_SHRINK: [&str; 4] = ["uptime_seconds", "commits", "row_inserts", "fsyncs"];

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

    /// Returns how many rows were inserted, updated and deleted a second.
    pub(crate) fn rows_changed(&self) -> Option<f64> {
        Some(self.rate("row_inserts")? + self.rate("row_updates")? + self.rate("row_deletes")?)
    }

    /// Returns the checkpoint age in parts of its limit.
    pub(crate) fn age_share(&self) -> Option<f64> {
        let limit = self.level("checkpoint_age_limit").filter(|limit| *limit > 0.0)?;
        Some(self.level("checkpoint_age_bytes")? / limit)
    }

    /// Returns the soft limit in parts of the limit.
    pub(crate) fn soft_share(&self) -> Option<f64> {
        let limit = self.level("checkpoint_age_limit").filter(|limit| *limit > 0.0)?;
        self.level("checkpoint_age_soft").filter(|soft| *soft > 0.0).map(|soft| soft / limit)
    }

    /// Returns the time since the sample before, seconds; 0 if there is none.
    pub(crate) fn seconds(&self) -> f64 {
        self.before.as_ref().map_or(0.0, |before| (self.now.unix_us - before.unix_us) as f64 / 1e6)
    }

    /// Returns the rates of pages written, by what forced them, in the order of the sample.
    pub(crate) fn forces(&self) -> Vec<(String, f64)> {
        let names =
            self.now.values.iter().filter_map(|value| value.0.strip_prefix("pages_written_by_force."));
        let rate = |force: &str| self.rate(&format!("pages_written_by_force.{force}"));
        names.map(|force| (force.to_owned(), rate(force).unwrap_or(0.0))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use output::samples::ColumnKind::Gauge;

    fn sample(second: u64, figures: &[(&str, f64)]) -> Sample {
        let values = figures.iter().map(|(name, value)| ((*name).to_owned(), "", Gauge, *value));
        Sample::new(second * 1_000_000, values.collect())
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
}
