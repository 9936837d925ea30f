//! The figures that `stalk` looks at, of two samples. Pure.

use crate::top::reading::Reading;
use output::samples::ColumnKind;

/// The short names, and what they mean.
pub(super) const NAMES: [(&str, &str); 3] = [
    ("age", "checkpoint age"),
    ("tps", "commits of changes a second"),
    ("latency", "how long a statement takes"),
];

/// Returns the value of a figure now: a level, or a counter's growth a second.
pub(super) fn value(name: &str, reading: &Reading) -> Option<f64> {
    match name {
        "age" => reading.level("checkpoint_age_bytes"),
        "tps" => reading.rate("commits"),
        "latency" => latency_us(reading),
        name => {
            let values = &reading.sample().values;
            let (.., kind, value) = values.iter().find(|value| value.0 == name)?;
            match kind {
                ColumnKind::Gauge => Some(*value),
                ColumnKind::Counter => reading.rate(name),
            }
        }
    }
}

/// Returns how many statements of others run now.
pub(super) fn running(reading: &Reading) -> Option<f64> {
    // The sample itself is one.
    Some((reading.level("threads_running")? - 1.0).max(0.0))
}

/// Returns how long a statement takes, by Little's law: those that run, divided by those that end a
/// second. If none has ended, each has taken the whole time since the sample before, or longer.
fn latency_us(reading: &Reading) -> Option<f64> {
    let (running, seconds) = (running(reading)?, reading.seconds());
    let ended = (reading.rate("statements")? * seconds - 1.0).max(1.0);
    (seconds > 0.0).then(|| 1e6 * running * seconds / ended)
}
