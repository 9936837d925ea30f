//! Medians over the rounds, and the printed table.

use crate::measure::Measurement;
use crate::rounds::{Results, Size, WorkResult};
use std::fmt::Write;

/// The summary of several rounds.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Median of the rates.
    pub rate: f64,
    /// Median over the rounds of this peer's rate divided by Millpond's of the same round.
    pub to_millpond: Option<f64>,
    /// Medians of the percentiles, microseconds: 50, 99, 99.9, 100.
    pub latency_us: [f64; 4],
    /// Median of the worst second as a share of the median second.
    pub worst_second: Option<f64>,
}

/// The percentiles of a summary.
pub const PERCENTILES: [(&str, f64); 4] = [("p50", 50.0), ("p99", 99.0), ("p999", 99.9), ("max", 100.0)];

/// Returns the median; for an even number the mean of the middle two. `None` without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(values[n / 2]),
        _ => Some(f64::midpoint(values[n / 2 - 1], values[n / 2])),
    }
}

/// Summarises the rounds of a peer. `millpond` are Millpond's measurements of the same rounds.
pub fn summary(rounds: &[Measurement], millpond: Option<&[Measurement]>) -> Summary {
    let ratios = millpond.map(|own| own.iter().zip(rounds).map(|(own, peer)| peer.rate / own.rate));
    Summary {
        rate: median(rounds.iter().map(|f| f.rate)).unwrap_or(0.0),
        to_millpond: ratios.and_then(median),
        latency_us: PERCENTILES.map(|(_, percentile)| {
            let each = rounds.iter().map(|f| f.latency.value_at_percentile(percentile) as f64 / 1000.0);
            median(each).unwrap_or(0.0)
        }),
        worst_second: median(rounds.iter().filter_map(Measurement::worst_second)),
    }
}

impl WorkResult {
    /// Returns the summary of each peer.
    pub fn summaries(&self) -> Vec<(&'static str, Summary)> {
        let millpond = self.by_peer.iter().find(|(name, _)| *name == "millpond");
        let millpond = millpond.map(|(_, rounds)| rounds.as_slice());
        self.by_peer.iter().map(|(name, rounds)| (*name, summary(rounds, millpond))).collect()
    }
}

/// Formats a count for people: `1 234 567`.
fn count(n: f64) -> String {
    let digits = format!("{n:.0}");
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

fn micros(us: f64) -> String {
    match us {
        _ if us < 10.0 => format!("{us:.1} µs"),
        _ if us < 1000.0 => format!("{us:.0} µs"),
        _ if us < 1_000_000.0 => format!("{:.1} ms", us / 1000.0),
        _ => format!("{:.2} s", us / 1_000_000.0),
    }
}

/// Returns the complete table.
pub fn table(results: &Results) -> String {
    let mut out = String::new();
    for cell in &results.cells {
        let threads = if cell.threads == 1 { "thread" } else { "threads" };
        let _ = writeln!(out, "\n{}, {} {threads}", cell.work.unit(), cell.threads);
        let _ = writeln!(
            out,
            "  {:<12} {:>12} {:>11} {:>9} {:>9} {:>9} {:>9} {:>12}",
            "", "a second", "x millpond", "p50", "p99", "p99.9", "max", "worst second"
        );
        for (name, summary) in cell.summaries() {
            let ratio = summary.to_millpond.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
            let worst = summary.worst_second.map_or_else(String::new, |share| format!("{share:.2}"));
            let [p50, p99, p999, max] = summary.latency_us.map(micros);
            let rate = count(summary.rate);
            let _ = writeln!(
                out,
                "  {name:<12} {rate:>12} {ratio:>11} {p50:>9} {p99:>9} {p999:>9} {max:>9} {worst:>12}"
            );
        }
    }
    if !results.sizes.is_empty() {
        let _ = writeln!(out, "\nMiB on disk\n  {:<12} {:>12} {:>14}", "", "after load", "after updates");
        for Size { peer, loaded, churned } in &results.sizes {
            let mib = |all: &[u64]| count(median(all.iter().map(|n| *n as f64)).unwrap_or(0.0) / 1048576.0);
            let _ = writeln!(out, "  {peer:<12} {:>12} {:>14}", mib(loaded), mib(churned));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::histogram;

    fn figures(rate: f64) -> Measurement {
        let mut latency = histogram();
        latency.record(1_000_000).unwrap();
        Measurement { rate, latency, per_second: vec![10, 5, 10] }
    }

    #[test]
    fn ratios_are_computed_within_a_round() {
        let own = [figures(100.0), figures(10.0), figures(1000.0)];
        let peer = [figures(50.0), figures(5.0), figures(2000.0)];
        let summary = summary(&peer, Some(&own));
        assert_eq!((summary.rate, summary.to_millpond), (50.0, Some(0.5)));
        assert_eq!(summary.worst_second, Some(0.5));
        assert!((999.0..1002.0).contains(&summary.latency_us[0]));
        assert_eq!(median([]), None);
        assert_eq!(median([1.0, 3.0]), Some(2.0));
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(count(1_234_567.4), "1 234 567");
        assert_eq!(count(12.0), "12");
        assert_eq!(micros(1234.0), "1.2 ms");
    }
}
