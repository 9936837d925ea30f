//! When an event begins, and why: a figure that has left its band, or a condition that holds, for
//! some seconds. Pure: it is given readings.
//!
//! A figure that stays outside is one cause, not one a second: it must be back in its band before
//! it is a cause again. What leaves its band while an event is kept belongs to that event.

use super::band::{Band, Line, Shape, Side};
use super::condition::Condition;
use super::figure;
use crate::top::reading::Reading;
use output::units::{show_count, show_micros, show_size};

/// The latency says nothing while fewer statements run: one long query is no stall.
const STATEMENTS: f64 = 3.0;

/// The figures whose bands are learned.
const BANDS: [(&str, Shape); 3] = [
    // It is at least a tenth of the limit wide, too; see `widened`.
    ("age", Shape { side: Side::Above, floor: 1_048_576.0, share: 0.5 }),
    ("tps", Shape { side: Side::Below, floor: 5.0, share: 0.3 }),
    ("latency", Shape { side: Side::Above, floor: 20_000.0, share: 1.0 }),
];
/// The least width of the band of the age, in parts of its limit.
const AGE_FLOOR: f64 = 0.1;

/// Why an event begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// A word for names of files.
    pub(crate) word: String,
    /// A sentence.
    pub(crate) why: String,
}

impl Cause {
    pub(super) fn new(word: &str, why: impl Into<String>) -> Cause {
        Cause { word: word.to_owned(), why: why.into() }
    }
}

/// What is asked of a target.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) conditions: Vec<Condition>,
    /// Learn bands too.
    pub(crate) bands: bool,
    /// A band says nothing before it has seen so many seconds.
    pub(crate) learn: usize,
    /// A cause must last for so long, seconds.
    pub(crate) held: u64,
}

/// For how long something has been so.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    since: Option<u64>,
    taken: bool,
}

impl Run {
    /// Notes whether it is so now. Returns for how many seconds it has been, unless an event has
    /// taken it.
    fn see(&mut self, second: u64, is: bool) -> Option<u64> {
        if !is {
            *self = Run::default();
            return None;
        }
        let since = *self.since.get_or_insert(second);
        (!self.taken).then(|| second.saturating_sub(since) + 1)
    }
}

/// What is looked at.
#[derive(Clone, Debug)]
pub(super) struct Trigger {
    held: u64,
    bands: Vec<(&'static str, Band, Run)>,
    conditions: Vec<(Condition, Run)>,
}

impl Trigger {
    pub(super) fn new(wanted: &Wanted) -> Trigger {
        let band =
            |(name, shape): &(&'static str, Shape)| (*name, Band::new(*shape, wanted.learn), Run::default());
        let bands = if wanted.bands { BANDS.iter().map(band).collect() } else { Vec::new() };
        let conditions = wanted.conditions.iter().map(|one| (one.clone(), Run::default())).collect();
        Trigger { held: wanted.held, bands, conditions }
    }

    /// Takes a reading. Returns all causes that there are now.
    pub(super) fn take(&mut self, reading: &Reading) -> Vec<Cause> {
        let (held, second) = (self.held, reading.unix_us() / 1_000_000);
        let mut causes = Vec::new();
        for (condition, run) in &mut self.conditions {
            let seconds = run.see(second, condition.holds(reading) == Some(true));
            if let Some(seconds) = seconds.filter(|seconds| *seconds >= held) {
                let now = said(&condition.figure, figure::value(&condition.figure, reading), reading);
                let why = format!("{condition}: it is {now}, and has held for {seconds} s");
                causes.push(Cause::new(&condition.figure, why));
            }
        }
        for (name, band, run) in &mut self.bands {
            let Some(value) = figure::value(name, reading) else { continue };
            let line = band.line().map(|line| widened(name, line, reading));
            let outside =
                line.is_some_and(|line| line.is_outside(value, run.since.is_some()) && counts(name, reading));
            let seconds = run.see(second, outside);
            band.learn(value);
            if let Some((seconds, line)) = seconds.filter(|seconds| *seconds >= held).zip(line) {
                let show = |value| said(name, Some(value), reading);
                let side = if line.limit > line.median { "above" } else { "below" };
                let why = format!(
                    "{} has been {side} {}, the end of its band, for {seconds} s: it is {}, and its median was {}",
                    title(name),
                    show(line.limit),
                    show(value),
                    show(line.median)
                );
                causes.push(Cause::new(name, why));
            }
        }
        causes
    }

    /// Notes that an event begins or goes on: all that is so now belongs to it.
    pub(super) fn taken(&mut self) {
        let runs = self.bands.iter_mut().map(|(.., run)| run);
        for run in runs.chain(self.conditions.iter_mut().map(|(_, run)| run)) {
            run.taken |= run.since.is_some();
        }
    }

    /// Forgets what was learned: the target was started again.
    pub(super) fn restarted(&mut self) {
        self.bands.iter_mut().for_each(|(_, band, run)| {
            band.forget();
            *run = Run::default();
        });
    }
}

/// Makes the band of the age at least a part of the limit wide.
fn widened(name: &str, line: Line, reading: &Reading) -> Line {
    let limit = reading.level("checkpoint_age_limit").filter(|_| name == "age").unwrap_or(0.0);
    line.at_least(AGE_FLOOR * limit)
}

/// Returns whether a figure outside its band says something now.
fn counts(name: &str, reading: &Reading) -> bool {
    let running = figure::running(reading);
    match name {
        // A load that has ended is no stall.
        "tps" => running.is_none_or(|running| running > 0.0),
        "latency" => running.is_none_or(|running| running >= STATEMENTS),
        _ => true,
    }
}

fn title(name: &str) -> String {
    let known = figure::NAMES.iter().find(|(short, _)| *short == name);
    known.map_or_else(|| name.to_owned(), |(short, meaning)| format!("{short} ({meaning})"))
}

/// Returns a value of a figure for people.
pub(super) fn said(name: &str, value: Option<f64>, reading: &Reading) -> String {
    let Some(value) = value else { return "not known".to_owned() };
    match name {
        "age" | "checkpoint_age_bytes" => {
            let limit = reading.level("checkpoint_age_limit").filter(|limit| *limit > 0.0);
            let share = limit.map(|limit| format!(" ({:.0} % of the limit)", 100.0 * value / limit));
            format!("{}{}", show_size(value), share.unwrap_or_default())
        }
        "tps" => format!("{}/s", show_count(value.round())),
        "latency" => show_micros(value),
        name if name.contains("bytes") => show_size(value),
        _ if value.fract() == 0.0 || value >= 100.0 => show_count(value.round()),
        _ => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Sample;
    use expect_test::expect;
    use output::samples::ColumnKind::{Counter, Gauge};
    use std::fmt::Write;

    /// Runs a script of seconds: `tps 1000 run 5 age 10 x60` is so many seconds of these figures.
    /// `event` is one that begins now. The answer has each cause when it comes for the first time.
    fn script(wanted: &Wanted, text: &str) -> String {
        let (mut trigger, mut out) = (Trigger::new(wanted), String::new());
        let (mut last, mut commits, mut seen): (Option<Sample>, f64, Vec<String>) = (None, 0.0, Vec::new());
        for line in text.split(';').map(str::trim) {
            if line == "event" {
                trigger.taken();
                continue;
            }
            let words: Vec<&str> = line.split(' ').collect();
            let of = |name: &str| {
                words.windows(2).find(|pair| pair[0] == name).map(|pair| pair[1].parse::<f64>().unwrap())
            };
            let times: usize = words.iter().find_map(|word| word.strip_prefix('x')?.parse().ok()).unwrap();
            for n in 0..times {
                commits += of("tps").unwrap_or(0.0);
                let second = last.as_ref().map_or(1, |last| last.unix_us / 1_000_000 + 1);
                let value = |name: &str, kind, value| (name.to_owned(), "", kind, value);
                let sample = Sample::new(
                    second * 1_000_000,
                    vec![
                        value("commits", Counter, commits),
                        value("statements", Counter, 2.0 * commits),
                        value("threads_running", Gauge, of("run").unwrap_or(0.0) + 1.0),
                        value("checkpoint_age_bytes", Gauge, of("age").unwrap_or(0.0) * 1_048_576.0),
                        value("checkpoint_age_limit", Gauge, 100.0 * 1_048_576.0),
                    ],
                );
                let causes = trigger.take(&Reading::new(sample.clone(), last.as_ref()));
                last = Some(sample);
                for cause in &causes {
                    if !seen.contains(&cause.word) {
                        let _ = writeln!(out, "second {} of {line}: {}", n + 1, cause.why);
                    }
                }
                seen = causes.into_iter().map(|cause| cause.word).collect();
            }
        }
        out
    }

    fn wanted(conditions: &[&str]) -> Wanted {
        let conditions: Vec<Condition> =
            conditions.iter().map(|text| Condition::parse(text).unwrap()).collect();
        Wanted { bands: conditions.is_empty(), conditions, learn: 60, held: 3 }
    }

    #[test]
    fn a_stall_is_a_cause_after_some_seconds_and_an_end_of_the_load_is_none() {
        let after_calm = |text: &str| script(&wanted(&[]), &format!("tps 1000 run 5 age 20 x120; {text}"));
        expect![[r#"
            second 3 of tps 0 run 9 age 20 x6: tps (commits of changes a second) has been below 700/s, the end of its band, for 3 s: it is 0/s, and its median was 1 000/s
            second 3 of tps 0 run 9 age 20 x6: latency (how long a statement takes) has been above 22.5 ms, the end of its band, for 3 s: it is 9.00 s, and its median was 2.5 ms
        "#]].assert_eq(&after_calm("tps 0 run 9 age 20 x6"));
        expect![[r#""#]].assert_eq(&after_calm("tps 0 run 9 age 20 x2; tps 1000 run 5 age 20 x9"));
        expect![[r#""#]].assert_eq(&after_calm("tps 0 run 0 age 20 x60"));
        expect![[r#"
            second 3 of tps 1000 run 5 age 31 x4: age (checkpoint age) has been above 30 MiB (30 % of the limit), the end of its band, for 3 s: it is 31 MiB (31 % of the limit), and its median was 20 MiB (20 % of the limit)
        "#]].assert_eq(&after_calm("tps 1000 run 5 age 29 x9; tps 1000 run 5 age 31 x4"));
    }

    #[test]
    fn what_stays_outside_is_one_cause_until_it_was_back() {
        let (calm, stall) = ("tps 1000 run 5 x120", "tps 100 run 5 x5");
        // Nobody could take it, such as in a cool-down: it is still a cause.
        let untaken = format!("{calm}; {stall}; {stall}");
        expect![[r#"
            second 3 of tps 100 run 5 x5: tps (commits of changes a second) has been below 700/s, the end of its band, for 3 s: it is 100/s, and its median was 1 000/s
            second 3 of tps 100 run 5 x5: latency (how long a statement takes) has been above 22.5 ms, the end of its band, for 3 s: it is 25.1 ms, and its median was 2.5 ms
        "#]].assert_eq(&script(&wanted(&[]), &untaken));
        let taken = format!("{calm}; {stall}; event; {stall}; {calm}; {stall}");
        expect![[r#"
            second 3 of tps 100 run 5 x5: tps (commits of changes a second) has been below 700/s, the end of its band, for 3 s: it is 100/s, and its median was 1 000/s
            second 3 of tps 100 run 5 x5: latency (how long a statement takes) has been above 22.5 ms, the end of its band, for 3 s: it is 25.1 ms, and its median was 2.5 ms
            second 3 of tps 100 run 5 x5: tps (commits of changes a second) has been below 700/s, the end of its band, for 3 s: it is 100/s, and its median was 1 000/s
            second 3 of tps 100 run 5 x5: latency (how long a statement takes) has been above 22.5 ms, the end of its band, for 3 s: it is 25.1 ms, and its median was 2.5 ms
        "#]].assert_eq(&script(&wanted(&[]), &taken));
    }

    #[test]
    fn a_condition_needs_no_history() {
        let text = "run 39 age 95 x5; run 41 age 20 x2; run 41 age 95 x9";
        expect![[r#"
            second 3 of run 39 age 95 x5: age > 90%: it is 95 MiB (95 % of the limit), and has held for 3 s
            second 1 of run 41 age 95 x9: threads_running > 40: it is 42, and has held for 3 s
            second 3 of run 41 age 95 x9: age > 90%: it is 95 MiB (95 % of the limit), and has held for 3 s
        "#]]
        .assert_eq(&script(&wanted(&["threads_running > 40", "age > 90%"]), text));
    }
}
