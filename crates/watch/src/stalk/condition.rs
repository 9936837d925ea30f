//! `--when 'age > 90%'`: a comparison of a figure that is known with a fixed number. Pure.

use super::figure;
use crate::explain::nearest;
use crate::top::reading::Reading;
use output::units::{parse_duration, parse_size};
use std::fmt;

/// How many names are proposed for one that is unknown.
const PROPOSALS: usize = 3;

/// A comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    /// The figure's name.
    pub(super) figure: String,
    comparison: Comparison,
    bound: Bound,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    /// In the unit of the figure.
    Of(f64),
    /// Of the limit of the checkpoint age.
    Percent(f64),
}

/// The longer ones first.
const COMPARISONS: [(&str, Comparison); 4] = [
    (">=", Comparison::GreaterOrEqual),
    ("<=", Comparison::LessOrEqual),
    (">", Comparison::Greater),
    ("<", Comparison::Less),
];

impl Condition {
    /// Reads a condition. An error is one sentence.
    pub(crate) fn parse(text: &str) -> Result<Condition, String> {
        let found = COMPARISONS.iter().find_map(|(sign, comparison)| {
            text.split_once(sign).map(|(name, bound)| (name.trim(), *comparison, bound.trim()))
        });
        let (name, comparison, bound) = found.filter(|(name, ..)| !name.is_empty()).ok_or_else(|| {
            format!("{text:?} is no condition: give a figure, < or >, and a number, as in 'age > 90%'")
        })?;
        let figure = name.to_lowercase();
        let bound = read(&figure, bound).ok_or_else(|| {
            format!("{bound:?} is no number for {name}: one is 40, 90%, 512MiB or 20ms, as the figure needs")
        })?;
        Ok(Condition { figure, comparison, bound, text: text.trim().to_owned() })
    }

    /// Returns whether it holds; `None` if the figure is not known now.
    pub(super) fn holds(&self, reading: &Reading) -> Option<bool> {
        let (value, bound) = match self.bound {
            Bound::Of(bound) => (figure::value(&self.figure, reading)?, bound),
            Bound::Percent(percent) => (100.0 * reading.age_share()?, percent),
        };
        Some(match self.comparison {
            Comparison::Greater => value > bound,
            Comparison::GreaterOrEqual => value >= bound,
            Comparison::Less => value < bound,
            Comparison::LessOrEqual => value <= bound,
        })
    }

    /// Fails, with a sentence, if a target with these names has no such figure.
    pub(super) fn check(&self, names: &[String]) -> Result<(), String> {
        let known = figure::NAMES.iter().map(|(name, _)| (*name).to_owned()).chain(names.iter().cloned());
        if known.clone().any(|name| name == self.figure) {
            return Ok(());
        }
        let near = nearest(&self.figure, known, PROPOSALS);
        let hint = match near.as_slice() {
            [] => "`millpond age TARGET --all` has the names".to_owned(),
            near => format!("near to it are {}", near.join(", ")),
        };
        Err(format!("there is no figure {} here; {hint}", self.figure))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn read(figure: &str, text: &str) -> Option<Bound> {
    let is_age = ["age", "checkpoint_age_bytes"].contains(&figure);
    if let Some(percent) = text.strip_suffix('%') {
        let percent = number(percent)?;
        let own = figure.ends_with("percent").then_some(Bound::Of(percent));
        return if is_age { Some(Bound::Percent(percent)) } else { own };
    }
    let micros = || Some(parse_duration(text).ok()?.as_micros() as f64);
    let value = match figure {
        "latency" => return micros().map(Bound::Of),
        _ if is_age || figure.contains("bytes") => {
            number(text).or_else(|| Some(parse_size(text).ok()? as f64))
        }
        _ if figure.contains("_us") => number(text).or_else(micros),
        _ => number(text),
    };
    value.map(Bound::Of)
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Sample;
    use expect_test::expect;
    use output::samples::ColumnKind::{Counter, Gauge};
    use std::fmt::Write;

    fn reading() -> Reading {
        let sample = |second: u64, commits: f64| {
            Sample::new(
                second * 1_000_000,
                vec![
                    ("commits".into(), "count", Counter, commits),
                    ("checkpoint_age_bytes".into(), "bytes", Gauge, 80.0 * 1_048_576.0),
                    ("checkpoint_age_limit".into(), "bytes", Gauge, 100.0 * 1_048_576.0),
                    ("dirty_percent".into(), "%", Gauge, 12.0),
                    ("threads_running".into(), "count", Gauge, 41.0),
                    ("statements".into(), "count", Counter, 10.0 * commits),
                ],
            )
        };
        Reading::new(sample(11, 150.0), Some(&sample(10, 50.0)))
    }

    #[test]
    fn conditions_are_read_and_compared() {
        let mut out = String::new();
        for text in [
            "age > 79%",
            "age > 80%",
            "age >= 80%",
            "age > 64MiB",
            "checkpoint_age_bytes<1G",
            "tps < 100",
            "TPS <= 100",
            "threads_running > 40",
            "dirty_percent > 10%",
            "latency > 3ms",
            "latency > 1s",
            "statements > 999",
            "unseen > 1",
            "age",
            "> 3",
            "tps < 1%",
            "latency > 5",
            "tps < many",
            "",
        ] {
            let said = match Condition::parse(text) {
                Ok(condition) => format!("{:?}", condition.holds(&reading())),
                Err(why) => why,
            };
            let _ = writeln!(out, "{text}: {said}");
        }
        expect![[r#"
            age > 79%: Some(true)
            age > 80%: Some(false)
            age >= 80%: Some(true)
            age > 64MiB: Some(true)
            checkpoint_age_bytes<1G: Some(true)
            tps < 100: Some(false)
            TPS <= 100: Some(true)
            threads_running > 40: Some(true)
            dirty_percent > 10%: Some(true)
            latency > 3ms: Some(true)
            latency > 1s: Some(false)
            statements > 999: Some(true)
            unseen > 1: None
            age: "age" is no condition: give a figure, < or >, and a number, as in 'age > 90%'
            > 3: "> 3" is no condition: give a figure, < or >, and a number, as in 'age > 90%'
            tps < 1%: "1%" is no number for tps: one is 40, 90%, 512MiB or 20ms, as the figure needs
            latency > 5: "5" is no number for latency: one is 40, 90%, 512MiB or 20ms, as the figure needs
            tps < many: "many" is no number for tps: one is 40, 90%, 512MiB or 20ms, as the figure needs
            : "" is no condition: give a figure, < or >, and a number, as in 'age > 90%'
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn an_unknown_figure_is_named_with_those_near_to_it() {
        let names = ["threads_running".to_owned(), "commits".to_owned()];
        let check = |text: &str| Condition::parse(text).unwrap().check(&names);
        assert_eq!(
            (check("threads_running > 1"), check("tps < 1"), check("Commits > 1")),
            (Ok(()), Ok(()), Ok(()))
        );
        expect!["there is no figure thread_running here; near to it are threads_running"]
            .assert_eq(&check("thread_running > 1").unwrap_err());
        assert!(check("zzz > 1").unwrap_err().contains("--all"));
    }
}
