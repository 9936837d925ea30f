//! What is compared, and how it is read of the samples of a block: a value a second. Pure.

use output::samples::Samples;

/// How the seconds of a bin become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Mean,
    Least,
}

/// Whether a measure decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counts {
    /// If it is better or worse, so is the setting.
    Always,
    /// The same, where fewer page writes are the aim of the change.
    IfPages,
    /// It is only shown.
    Never,
}

/// What is compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    /// Its name, for people.
    pub(super) name: &'static str,
    pub(super) of: Of,
    /// More of it is better.
    pub(super) more_is_better: bool,
    /// A smaller change counts as none: a part of the figure before, and an absolute one.
    pub(super) least: (f64, f64),
    pub(super) counts: Counts,
    series: fn(&Samples) -> Vec<f64>,
}

/// All measures, in the order in which they are shown.
pub(super) const MEASURES: [Measure; 7] = [
    Measure {
        name: "transactions a second",
        of: Of::Mean,
        more_is_better: true,
        least: (0.05, 0.0),
        counts: Counts::Always,
        series: transactions,
    },
    Measure {
        name: "worst seconds",
        of: Of::Least,
        more_is_better: true,
        least: (0.1, 0.0),
        counts: Counts::Always,
        series: transactions,
    },
    Measure {
        name: "checkpoint age, % of the limit",
        of: Of::Mean,
        more_is_better: false,
        least: (0.0, 5.0),
        counts: Counts::Never,
        series: age,
    },
    Measure {
        name: "at the soft limit, % of the time",
        of: Of::Mean,
        more_is_better: false,
        least: (0.0, 10.0),
        counts: Counts::Always,
        series: at_soft_limit,
    },
    Measure {
        name: "waits at the limit a second",
        of: Of::Mean,
        more_is_better: false,
        least: (0.2, 0.1),
        counts: Counts::Always,
        series: |samples| rate(samples, "hard_waits"),
    },
    Measure {
        name: "waits for a free page a second",
        of: Of::Mean,
        more_is_better: false,
        least: (0.2, 0.1),
        counts: Counts::Always,
        series: |samples| rate(samples, "free_frame_waits"),
    },
    Measure {
        name: "pages written a second",
        of: Of::Mean,
        more_is_better: false,
        least: (0.1, 1.0),
        counts: Counts::IfPages,
        series: |samples| rate(samples, "pages_written"),
    },
];

/// Figures that count transactions; the first that the target counts is taken.
const TRANSACTIONS: [&str; 3] = ["commits", "statement_commits", "statements"];

impl Measure {
    /// Returns its value in each second; nothing if the target does not tell.
    pub(super) fn seconds(&self, samples: &Samples) -> Vec<f64> {
        (self.series)(samples)
    }

    /// Returns a value for each so many seconds: those of a bin are not independent of each other.
    pub(super) fn bins(&self, seconds: &[f64], length: usize) -> Vec<f64> {
        let value = |bin: &[f64]| match self.of {
            Of::Mean => mean(bin),
            Of::Least => bin.iter().copied().fold(f64::INFINITY, f64::min),
        };
        seconds.chunks_exact(length.max(1)).map(value).collect()
    }
}

/// Returns the average; 0 of nothing.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the transactions of each second.
pub(super) fn transactions(samples: &Samples) -> Vec<f64> {
    // MySQL with its metrics off counts COMMIT statements only.
    let counted = TRANSACTIONS.iter().find(|name| samples.growth(name) > 0.0);
    rate(samples, counted.unwrap_or(&TRANSACTIONS[0]))
}

fn rate(samples: &Samples, name: &str) -> Vec<f64> {
    samples.rate(name).into_iter().filter_map(|(_, value)| value).collect()
}

/// Returns the checkpoint age of each second, in percent of its limit.
pub(super) fn age(samples: &Samples) -> Vec<f64> {
    percent_of(samples, "checkpoint_age_limit")
}

fn at_soft_limit(samples: &Samples) -> Vec<f64> {
    let reached = |percent: f64| if percent >= 100.0 { 100.0 } else { 0.0 };
    percent_of(samples, "checkpoint_age_soft").into_iter().map(reached).collect()
}

fn percent_of(samples: &Samples, limit: &str) -> Vec<f64> {
    let (ages, limits) = (samples.level("checkpoint_age_bytes"), samples.level(limit));
    // The first sample is the begin of the first second.
    let both = ages.iter().zip(&limits).skip(1).filter_map(|(age, limit)| age.1.zip(limit.1));
    both.filter(|(_, limit)| *limit > 0.0).map(|(age, limit)| 100.0 * age / limit).collect()
}
