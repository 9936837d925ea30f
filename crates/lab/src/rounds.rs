//! `--compare`: the same load on several engines or servers, in turns, with ratios.
//!
//! In each round every contestant has one turn, and the order rotates from round to round, so a
//! slow minute of the machine does not always meet the same one. A ratio is of two turns of one
//! round.

use crate::result::{rounded, to_json};
use crate::steadiness::Steadiness;
use crate::turn::Turn;
use output::units::{show_count, show_micros};
use serde::Serialize;

/// The middle of several values, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    /// Returns the spread of values; `None` if there are none. The median of an even number is the
    /// mean of the two in the middle.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut sorted: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Spread { median, min, max })
    }

    fn show(self, value: impl Fn(f64) -> String) -> String {
        format!("{} ({} to {})", value(self.median), value(self.min), value(self.max))
    }
}

/// A contestant with its turns.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Contestant {
    target: String,
    server: String,
    engine: String,
    load_seconds: f64,
    check: String,
    tps: Option<Spread>,
    /// Its rate divided by that of the first contestant in the same round.
    ratio: Option<Spread>,
    p99_us: Option<Spread>,
    rounds: Vec<Turn>,
}

/// Who a contestant is.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    pub(crate) target: String,
    pub(crate) server: String,
    pub(crate) engine: String,
}

/// All contestants, with the parameters of the run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Comparison<R: Serialize> {
    version: &'static str,
    #[serde(flatten)]
    request: R,
    compare: Vec<Contestant>,
}

/// The columns of the contestants.
pub(crate) const HEADS: [&str; 6] = ["contestant", "tps", "ratio", "p99", "worst second", "commits/fsync"];

/// What is known of a contestant at the end.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) who: Who,
    pub(crate) load_seconds: f64,
    /// "ok", or what is wrong with its tables.
    pub(crate) check: String,
    /// One turn a round.
    pub(crate) turns: Vec<Turn>,
}

impl<R: Serialize> Comparison<R> {
    /// Makes the result. The first contestant is that to which the others are compared.
    pub(crate) fn new(request: R, known: Vec<Known>) -> Comparison<R> {
        let first: Vec<f64> = known.first().map_or(Vec::new(), |first| rates(&first.turns).collect());
        let compare = known.into_iter().map(|known| {
            let ratios = rates(&known.turns).zip(&first).map(|(own, first)| rounded(own / first, 3));
            Contestant {
                tps: Spread::of(rates(&known.turns)),
                ratio: Spread::of(ratios),
                p99_us: Spread::of(known.turns.iter().map(|turn| turn.work.latency_us.p99)),
                target: known.who.target,
                server: known.who.server,
                engine: known.who.engine,
                load_seconds: rounded(known.load_seconds, 3),
                check: known.check,
                rounds: known.turns,
            }
        });
        Comparison { version: env!("CARGO_PKG_VERSION"), request, compare: compare.collect() }
    }

    /// Returns the JSON object.
    pub(crate) fn json(&self) -> String {
        to_json(self)
    }

    /// Returns "ok", or what is wrong with the tables of a contestant.
    pub(crate) fn check(&self) -> String {
        let bad = self.compare.iter().find(|contestant| contestant.check != "ok");
        bad.map_or_else(|| "ok".to_owned(), |bad| format!("{}: {}", bad.engine, bad.check))
    }

    /// Returns each contestant's name and its turns.
    pub(crate) fn turns(&self) -> impl Iterator<Item = (String, &[Turn])> {
        self.compare.iter().map(|contestant| (self.name(contestant), contestant.rounds.as_slice()))
    }

    /// Returns what people see of each contestant, as [`HEADS`] names it: medians of the rounds,
    /// and the least and the greatest.
    pub(crate) fn cells(&self) -> impl Iterator<Item = [String; HEADS.len()]> {
        self.compare.iter().map(|contestant| self.row(contestant))
    }

    /// Returns the table for a terminal.
    pub(crate) fn table(&self) -> String {
        let rows: Vec<[String; 6]> = std::iter::once(HEADS.map(str::to_owned)).chain(self.cells()).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..6).map(width).collect();
        let line = |row: &[String; 6]| {
            let cells = row.iter().zip(&widths).enumerate().map(|(i, (cell, width))| match i {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            cells.collect::<Vec<_>>().join("   ") + "\n"
        };
        rows.iter().map(line).collect()
    }

    fn row(&self, contestant: &Contestant) -> [String; 6] {
        let show = |spread: Option<Spread>, value: &dyn Fn(f64) -> String| {
            spread.map_or("-".to_owned(), |spread| spread.show(value))
        };
        let of = |value: &dyn Fn(&Turn) -> Option<f64>| {
            Spread::of(contestant.rounds.iter().filter_map(value)).map(|spread| spread.median)
        };
        [
            self.name(contestant),
            show(contestant.tps, &show_count),
            show(contestant.ratio, &|ratio| format!("{ratio:.2}")),
            show(contestant.p99_us, &show_micros),
            of(&|turn| Steadiness::of(&turn.work.tps_per_second)?.percent())
                .map_or("-".to_owned(), |share| format!("{share:.0} %")),
            of(&|turn| turn.commits_per_fsync).map_or("-".to_owned(), |n| format!("{n:.1}")),
        ]
    }

    /// Returns the name of a contestant: its engine, and its server if there are several.
    fn name(&self, contestant: &Contestant) -> String {
        let one = self.compare.iter().all(|other| other.target == contestant.target);
        if one {
            return contestant.engine.clone();
        }
        format!("{}, {}, {}", contestant.engine, contestant.server, contestant.target)
    }
}

fn rates(turns: &[Turn]) -> impl Iterator<Item = f64> + '_ {
    turns.iter().map(|turn| turn.work.tps)
}

/// Returns the order of the contestants in a round: it rotates.
pub(crate) fn order(contestants: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..contestants).map(move |i| (i + round) % contestants)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Level;
    use crate::measurements::{DoneTxn, Measurements, Window};
    use crate::turn::Counted;
    use expect_test::expect;
    use std::time::{Duration, Instant};

    /// A turn with so many transactions a second, of which the second second has half.
    fn turn(transactions: u32) -> Turn {
        let start = Instant::now();
        let measurements = Measurements::new(1);
        let window = Window { start, end: Some(start + Duration::from_secs(3)) };
        measurements.open_window(window);
        for (second, n) in [(0, transactions), (1, transactions / 2), (2, transactions)] {
            for _ in 0..n {
                let ended = start + Duration::from_millis(second * 1000 + 2);
                let began = ended - Duration::from_millis(1);
                measurements.record(
                    0,
                    DoneTxn { began, ended, retries: 0, row_changes: 1, kind: None, committed: true },
                );
            }
        }
        let counted = Counted { fsyncs: Some(50), checkpoint_age_limit: None };
        Turn::new(&measurements.totals(window), &Level::default(), counted)
    }

    fn known(engine: &str, rates: &[u32]) -> Known {
        let who =
            Who { target: "mysql://db/".into(), server: "MariaDB 10.11.19".into(), engine: engine.into() };
        let turns = rates.iter().map(|rate| turn(*rate)).collect();
        Known { who, load_seconds: 1.0, check: "ok".into(), turns }
    }

    #[test]
    fn ratios_are_of_one_round() {
        let both = vec![known("InnoDB", &[100, 50, 200]), known("Millpond", &[200, 100, 300])];
        let comparison = Comparison::new((), both);
        expect![[r#"
            contestant               tps                 ratio                         p99   worst second   commits/fsync
            InnoDB        83 (42 to 167)   1.00 (1.00 to 1.00)   1.0 ms (1.0 ms to 1.0 ms)           50 %             5.0
            Millpond     167 (83 to 250)   2.00 (1.50 to 2.00)   1.0 ms (1.0 ms to 1.0 ms)           50 %            10.0
        "#]]
        .assert_eq(&comparison.table());
        assert_eq!(comparison.check(), "ok");
        let ratio = comparison.compare[1].ratio.unwrap();
        assert_eq!((ratio.median, ratio.min, ratio.max), (2.0, 1.5, 2.0));
    }

    #[test]
    fn a_median_of_two_lies_between_them() {
        assert_eq!(Spread::of([4.0, 1.0].into_iter()).unwrap().median, 2.5);
        assert_eq!(Spread::of([4.0, 1.0, 3.0, f64::NAN].into_iter()).unwrap().median, 3.0);
        assert_eq!(Spread::of(std::iter::empty()), None);
    }

    #[test]
    fn damage_names_the_engine() {
        let damaged = Known { check: "sbtest1: 3 rows".into(), ..known("Millpond", &[1]) };
        let comparison = Comparison::new((), vec![known("InnoDB", &[1]), damaged]);
        assert_eq!(comparison.check(), "Millpond: sbtest1: 3 rows");
    }

    #[test]
    fn the_order_rotates() {
        let orders: Vec<Vec<usize>> = (0..4).map(|round| order(3, round).collect()).collect();
        assert_eq!(orders, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
    }
}
