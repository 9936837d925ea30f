//! `--ramp`: the same load by more and more threads, one step after the other. The knee is where
//! more threads stop to bring more.

use crate::result::{Checked, TableLines, to_json};
use crate::turn::Turn;
use output::failure::Outcome;
use output::print;
use output::samples::Samples;
use output::units::{show_count, show_micros};
use serde::Serialize;
use std::time::Instant;

/// The part of the best rate that is as good as the best.
const AS_GOOD: f64 = 0.95;

/// What was measured with so many threads.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Step {
    threads: u32,
    #[serde(flatten)]
    turn: Turn,
}

impl Step {
    /// Makes the step of `threads` threads.
    pub(crate) fn new(threads: u32, turn: Turn) -> Step {
        Step { threads, turn }
    }

    /// Returns how many threads it had.
    pub(crate) fn threads(&self) -> u32 {
        self.threads
    }

    /// Returns the commits of each second.
    pub(crate) fn per_second(&self) -> &[u64] {
        &self.turn.work.tps_per_second
    }

    /// Returns what people see of it, as [`HEADS`] names it.
    pub(crate) fn cells(&self) -> [String; HEADS.len()] {
        let latency = &self.turn.work.latency_us;
        let [age, share] = self.turn.shown_age();
        [
            self.threads.to_string(),
            show_count(self.turn.work.tps),
            show_micros(latency.p50),
            show_micros(latency.p95),
            show_micros(latency.p99),
            show_micros(latency.p999),
            show_count(self.turn.work.retries as f64),
            age,
            share,
            self.turn.commits_per_fsync.map_or("-".to_owned(), |n| format!("{n:.1}")),
        ]
    }
}

/// The columns of the steps.
pub(crate) const HEADS: [&str; 10] =
    ["threads", "tps", "p50", "p95", "p99", "p99.9", "retries", "age", "limit", "commits/fsync"];

/// The width of each column.
const WIDTHS: [usize; HEADS.len()] = [7, 10, 9, 9, 9, 9, 8, 9, 6, 13];

fn line<S: AsRef<str>>(cells: &[S]) -> String {
    let padded = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{:>width$}", cell.as_ref()));
    padded.collect::<Vec<_>>().join(" ")
}

/// A step that was taken.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Its figures.
    pub(crate) step: Step,
    /// When its measured phase began.
    pub(crate) began: Instant,
    /// Every metric at each second; empty unless requested.
    pub(crate) samples: Samples,
}

/// All steps.
#[derive(Debug, Default)]
pub(crate) struct Climb {
    pub(crate) steps: Vec<Step>,
    /// When the measured phase of each began, seconds from that of the first.
    pub(crate) starts: Vec<f64>,
    /// The samples of all steps.
    pub(crate) samples: Samples,
}

/// Takes the steps one after the other, and prints a row for each as soon as it is there.
pub(crate) fn climb(threads: &[u32], mut step: impl FnMut(u32) -> Outcome<Taken>) -> Outcome<Climb> {
    let mut climb = Climb::default();
    let mut first = None;
    for threads in threads {
        let Taken { step, began, samples } = step(*threads)?;
        if first.is_none() {
            print(&format!("{}\n", line(&HEADS)));
        }
        print(&format!("{}\n", line(&step.cells())));
        let start = began.duration_since(*first.get_or_insert(began)).as_secs_f64();
        climb.samples.append(&samples, start);
        climb.starts.push(start);
        climb.steps.push(step);
    }
    Ok(climb)
}

/// The result of all steps, with the parameters of the run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ramp<R: Serialize> {
    version: &'static str,
    #[serde(flatten)]
    request: R,
    ramp: Vec<Step>,
    knee_threads: Option<u32>,
    load_seconds: f64,
    #[serde(flatten)]
    checked: Checked,
}

impl<R: Serialize> Ramp<R> {
    /// Makes the result.
    pub(crate) fn new(request: R, ramp: Vec<Step>, load_seconds: f64, checked: Checked) -> Ramp<R> {
        let knee_threads = knee(&ramp).map(|step| step.threads);
        Ramp { version: env!("CARGO_PKG_VERSION"), request, ramp, knee_threads, load_seconds, checked }
    }

    /// Returns the JSON object.
    pub(crate) fn json(&self) -> String {
        to_json(self)
    }

    /// Returns what follows the rows.
    pub(crate) fn end(&self) -> String {
        let knee = self.knee().map_or(String::new(), |knee| format!("{:<15} {knee}\n", "knee"));
        let mut checks = TableLines::default();
        self.checked.add_to(&mut checks);
        format!("{knee}{}", checks.text())
    }

    /// Returns where more threads stop to bring more, in a sentence.
    pub(crate) fn knee(&self) -> Option<String> {
        let (knee, best) = knee(&self.ramp).zip(best(&self.ramp))?;
        Some(format!(
            "{} threads reach {} a second; the best are {} with {}",
            knee.threads,
            show_count(knee.turn.work.tps),
            best.threads,
            show_count(best.turn.work.tps)
        ))
    }
}

fn best(steps: &[Step]) -> Option<&Step> {
    steps.iter().max_by(|a, b| a.turn.work.tps.total_cmp(&b.turn.work.tps))
}

/// Returns the step with the fewest threads whose rate is about the best.
fn knee(steps: &[Step]) -> Option<&Step> {
    let enough = best(steps)?.turn.work.tps * AS_GOOD;
    steps.iter().filter(|step| step.turn.work.tps >= enough).min_by_key(|step| step.threads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Level;
    use crate::measurements::{DoneTxn, Measurements, Window};
    use crate::turn::Counted;
    use expect_test::expect;
    use std::time::{Duration, Instant};

    /// A step with so many transactions in a second.
    fn step(threads: u32, transactions: u32) -> Step {
        let start = Instant::now();
        let measurements = Measurements::new(1);
        let window = Window { start, end: Some(start + Duration::from_secs(1)) };
        measurements.open_window(window);
        for _ in 0..transactions {
            let ended = start + Duration::from_millis(2);
            measurements.record(
                0,
                DoneTxn { began: start, ended, retries: 0, row_changes: 1, kind: None, committed: true },
            );
        }
        let mut age = Level::default();
        age.add(3 << 20);
        let counted = Counted { fsyncs: Some(50), checkpoint_age_limit: Some(12 << 20) };
        Step::new(threads, Turn::new(&measurements.totals(window), &age, counted))
    }

    #[test]
    fn the_knee_is_where_more_threads_bring_no_more() {
        let ramp = vec![step(1, 100), step(2, 190), step(4, 196), step(8, 200), step(16, 150)];
        let ramp = Ramp::new((), ramp, 1.0, Checked { check: "ok".to_owned(), consistency: None });
        assert_eq!(ramp.knee_threads, Some(2));
        expect![[r#"
            knee            2 threads reach 190 a second; the best are 8 with 200
            check           ok
        "#]]
        .assert_eq(&ramp.end());
        assert!(knee(&[]).is_none());
    }

    #[test]
    fn a_row_has_what_is_known() {
        let mut unknown = step(4, 100);
        (unknown.turn.checkpoint_age_max, unknown.turn.commits_per_fsync) = (None, None);
        expect![[r#"
            threads        tps       p50       p95       p99     p99.9  retries       age  limit commits/fsync
                  4        100    2.0 ms    2.0 ms    2.0 ms    2.0 ms        0     3 MiB   25 %           2.0
                  4        100    2.0 ms    2.0 ms    2.0 ms    2.0 ms        0         -                    -
        "#]]
        .assert_eq(&format!(
            "{}\n{}\n{}\n",
            line(&HEADS),
            line(&step(4, 100).cells()),
            line(&unknown.cells())
        ));
    }
}
