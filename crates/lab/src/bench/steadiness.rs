//! How steady a load is: the worst seconds, the time that admission took, and seconds
//! in which the device or the processor itself was slow.

use super::probe::Probe;
use super::processor::Processor;
use super::{median, sorted};
use crate::driver::{Pace, drive};
use crate::figures::lsn;
use crate::progress::Progress;
use crate::workload::{self, WorkloadKind, WorkloadParams};
use millpond::Db;
use output::failure::Outcome;
use std::path::Path;
use std::time::{Duration, Instant};

/// What one run measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Commits a second.
    pub(super) tps: f64,
    /// Commits of each second.
    pub(super) seconds: Vec<f64>,
    /// The slowest hundredth of the transactions took so long or longer, milliseconds.
    pub(super) p99_ms: f64,
    /// The part of the threads' time for which admission held them.
    pub(super) delayed: f64,
    /// Operations that waited for the checkpoint.
    pub(super) stops: u64,
    /// Seconds in which the device was slow.
    pub(super) dips: usize,
    /// How fast the processor was in each second; 1 is usual.
    pub(super) speeds: Vec<f64>,
    /// The length of the measured phase, seconds, and the pages that were read and written in it.
    pub(super) measured_s: f64,
    pub(super) pages_read: u64,
    pub(super) pages_written: u64,
    pub(super) pages_written_foreground: u64,
}

/// Runs a load on a database that holds its rows. `probe` is a file that does not exist, on the
/// same device.
pub(super) fn measure(
    db: &Db,
    kind: WorkloadKind,
    params: WorkloadParams,
    pace: Pace,
    probe: &Path,
) -> Outcome<Measured> {
    let workload = workload::build(kind, params.after(lsn(&db.metrics())));
    let threads = pace.threads;
    let (probe, processor) = (Probe::start(probe)?, Processor::start());
    let measured = drive(db, workload.as_ref(), pace, &mut Progress::on_stderr())?;
    let end = Instant::now();
    let (totals, figures) = (&measured.totals, &measured.figures);
    let begun = end.checked_sub(Duration::from_secs_f64(totals.seconds)).unwrap_or(end);
    let held_s = figures.throttled_us_total as f64 / 1e6;
    Ok(Measured {
        tps: totals.transactions as f64 / totals.seconds,
        seconds: totals.per_second.iter().map(|commits| *commits as f64).collect(),
        p99_ms: totals.latency_us(99.0) / 1000.0,
        delayed: held_s / (totals.seconds * f64::from(threads)),
        stops: figures.hard_waits,
        dips: probe.stop()?.slow_seconds(begun, totals.per_second.len()),
        speeds: processor.stop()?.of_seconds(begun, totals.per_second.len()),
        measured_s: totals.seconds,
        pages_read: figures.pages_read,
        pages_written: figures.pages_written,
        pages_written_foreground: figures.pages_written_foreground,
    })
}

/// Returns the heads of the columns; `first` names what differs from run to run.
pub(super) fn heads(first: &str) -> String {
    format!(
        "{first:>18} {:>10} {:>6} {:>6} {:>8} {:>8} {:>6} {:>5} {:>6} {:>7}",
        "commits/s", "worst", "99 %", "p99 ms", "delayed", "stops", "dips", "cpu", "by cpu"
    )
}

impl Measured {
    /// Returns the line of the run.
    pub(super) fn line(&self, name: &str) -> String {
        let (worst, most) = self.steadiness();
        format!(
            "{name:>18} {:>10.0} {worst:>6.2} {most:>6.2} {:>8.1} {:>8.3} {:>6} {:>5} {:>6.2} {:>7.2}",
            self.tps,
            self.p99_ms,
            self.delayed,
            self.stops,
            self.dips,
            steadiness_of(&self.speeds).1,
            self.by_speed()
        )
    }

    /// Returns the commits of the worst second, and what 99 % of the seconds reach, as parts of the
    /// median second.
    pub(super) fn steadiness(&self) -> (f64, f64) {
        steadiness_of(&self.seconds)
    }

    /// Returns what 99 % of the seconds reach, if each second's commits are divided by the
    /// processor's speed.
    fn by_speed(&self) -> f64 {
        let of_second = |(commits, speed): (&f64, &f64)| commits / speed;
        steadiness_of(&self.seconds.iter().zip(&self.speeds).map(of_second).collect::<Vec<_>>()).1
    }
}

/// Returns the worst second, and what 99 % of the seconds reach, as parts of the median second.
fn steadiness_of(seconds: &[f64]) -> (f64, f64) {
    let ascending = sorted(seconds.to_vec());
    let Some(&worst) = ascending.first() else { return (0.0, 0.0) };
    let middle = median(ascending.clone());
    if middle == 0.0 {
        return (0.0, 0.0);
    }
    (worst / middle, ascending[ascending.len() / 100] / middle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_table_shows_the_worst_seconds() {
        let mut seconds = vec![1000.0; 300];
        (seconds[7], seconds[8], seconds[9], seconds[10]) = (500.0, 600.0, 700.0, 800.0);
        // The processor was slow in the worst of them.
        let mut speeds = vec![1.0; 300];
        (speeds[7], speeds[8], speeds[9], speeds[10]) = (0.6, 0.7, 0.75, 0.8);
        let delayed = 0.051;
        let run =
            Measured { tps: 995.0, seconds, speeds, p99_ms: 12.34, delayed, dips: 1, ..Measured::default() };
        let short = Measured { seconds: vec![0.0, 10.0, 8.0], speeds: vec![1.0; 3], ..Measured::default() };
        let none = Measured::default();
        let table = [heads("log"), run.line("96 MiB"), short.line("4 GiB"), none.line("a name of 18 bytes")];
        expect![[r#"
                           log  commits/s  worst   99 %   p99 ms  delayed  stops  dips    cpu  by cpu
                        96 MiB        995   0.50   0.80     12.3    0.051      0     1   0.80    1.00
                         4 GiB          0   0.00   0.00      0.0    0.000      0     0   1.00    0.00
            a name of 18 bytes          0   0.00   0.00      0.0    0.000      0     0   0.00    0.00
        "#]]
        .assert_eq(&(table.join("\n") + "\n"));
    }
}
