//! What a sweep has found: for each point the rate, the worst second and the steadiness.

use super::grid::{Axis, Point};
use crate::own_command::{number, per_second};
use crate::result::to_json;
use crate::steadiness::Steadiness;
use output::report::page::{Table, columns};
use output::units::{show_count, show_micros};
use serde::Serialize;
use serde_json::Value;

/// A point with its rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Found {
    settings: Point,
    /// Commits a second, the mean of all rounds; and the least and the greatest round.
    tps: f64,
    tps_min: f64,
    tps_max: f64,
    /// The worst second of all rounds, in percent of the median second of its round.
    steadiness: Option<f64>,
    /// Seconds without a commit, all rounds together.
    zero_seconds: usize,
    /// The greatest of all rounds, microseconds.
    p99_us: Option<f64>,
    rounds: usize,
}

impl Found {
    /// Takes the results of a point's rounds; `None` if there are none.
    pub(crate) fn new(settings: Point, results: &[Value]) -> Option<Found> {
        let rates: Vec<f64> = results.iter().filter_map(|result| number(result, "/tps")).collect();
        let least = |values: &[f64]| values.iter().copied().min_by(f64::total_cmp);
        let greatest = |values: &[f64]| values.iter().copied().max_by(f64::total_cmp);
        let steady: Vec<Steadiness> =
            results.iter().filter_map(|result| Steadiness::of(&per_second(result))).collect();
        let worst: Vec<f64> = steady.iter().filter_map(Steadiness::percent).collect();
        let p99: Vec<f64> = results.iter().filter_map(|result| number(result, "/latency_us/p99")).collect();
        Some(Found {
            settings,
            tps: rates.iter().sum::<f64>() / rates.len() as f64,
            tps_min: least(&rates)?,
            tps_max: greatest(&rates)?,
            steadiness: least(&worst),
            zero_seconds: steady.iter().map(|steady| steady.zero).sum(),
            p99_us: greatest(&p99),
            rounds: rates.len(),
        })
    }
}

/// A sweep.
#[derive(Debug, Serialize)]
pub(crate) struct Sweep {
    version: &'static str,
    /// The load, as it stands on the command line.
    load: String,
    /// The steadiest first.
    points: Vec<Found>,
}

impl Sweep {
    /// Sorts the points: the steadiest first, and of those that are as steady the fastest.
    pub(crate) fn new(load: String, mut points: Vec<Found>) -> Sweep {
        let key = |found: &Found| (found.steadiness.unwrap_or(0.0).round(), found.tps);
        points.sort_by(|a, b| key(b).partial_cmp(&key(a)).unwrap_or(std::cmp::Ordering::Equal));
        Sweep { version: env!("CARGO_PKG_VERSION"), load, points }
    }

    /// Returns the JSON object.
    pub(crate) fn json(&self) -> String {
        to_json(self)
    }

    /// Returns all points for people.
    pub(crate) fn table(&self) -> Table {
        let names = self.points.first().map_or(&[][..], |found| &found.settings);
        let mut heads: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        let settings = heads.len();
        heads.extend(["tps", "least to most", "worst second", "seconds at 0", "p99"]);
        let row = |found: &Found| {
            let mut cells: Vec<String> = found.settings.iter().map(|(_, value)| value.clone()).collect();
            cells.push(show_count(found.tps));
            cells.push(format!("{} to {}", show_count(found.tps_min), show_count(found.tps_max)));
            cells.push(found.steadiness.map_or("-".to_owned(), |share| format!("{share:.0} %")));
            cells.push(found.zero_seconds.to_string());
            cells.push(found.p99_us.map_or("-".to_owned(), show_micros));
            cells
        };
        Table {
            caption: "The steadiest first. The worst second is in percent of the median one.".to_owned(),
            names: settings,
            columns: columns(&heads),
            rows: self.points.iter().map(row).collect(),
        }
    }

    /// Returns the rates of a sweep of two settings as a map; `None` for another number.
    pub(crate) fn map(&self, axes: &[Axis]) -> Option<Table> {
        let [down, across] = axes else { return None };
        let mut heads = vec![format!("{} \\ {}", down.name, across.name)];
        heads.extend(across.values.iter().cloned());
        let cell = |a: &String, b: &String| {
            let found =
                self.points.iter().find(|found| found.settings[0].1 == *a && found.settings[1].1 == *b);
            found.map_or("-".to_owned(), |found| {
                let steady = found.steadiness.map_or(String::new(), |share| format!(" ({share:.0} %)"));
                format!("{}{steady}", show_count(found.tps))
            })
        };
        let row =
            |a: &String| std::iter::once(a.clone()).chain(across.values.iter().map(|b| cell(a, b))).collect();
        Some(Table {
            caption: "Commits a second, and the worst second in percent of the median one.".to_owned(),
            names: 1,
            columns: heads,
            rows: down.values.iter().map(row).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::points;
    use expect_test::expect;
    use serde_json::json;

    fn sweep() -> (Vec<Axis>, Sweep) {
        let axes = vec![Axis::parse("cap=200,2000").unwrap(), Axis::parse("log=96M,1G").unwrap()];
        let found = |(i, point): (usize, Point)| {
            let (rate, worst) = ([100.0, 90.0, 120.0, 80.0][i], [50, 90, 0, 90][i]);
            let round =
                json!({"tps": rate, "tps_per_second": [100, 100, worst], "latency_us": {"p99": 900.0}});
            let other = json!({"tps": rate + 10.0, "tps_per_second": [100, 100, 95]});
            Found::new(point, &[round, other])
        };
        let found = points(&axes).into_iter().enumerate().filter_map(found).collect();
        (axes, Sweep::new("write-heavy".to_owned(), found))
    }

    #[test]
    fn the_steadiest_comes_first_and_of_those_the_fastest() {
        let (axes, sweep) = sweep();
        expect![[r#"
            cap   log  tps  least to most  worst second  seconds at 0     p99
            200   1G    95      90 to 100          90 %             0  900 µs
            2000  1G    85       80 to 90          90 %             0  900 µs
            200   96M  105     100 to 110          50 %             0  900 µs
            2000  96M  125     120 to 130           0 %             1  900 µs

            cap \ log         96M         1G
            200        105 (50 %)  95 (90 %)
            2000        125 (0 %)  85 (90 %)
        "#]]
        .assert_eq(&format!("{}\n{}", sweep.table().text(), sweep.map(&axes).unwrap().text()));
        assert!(sweep.map(&axes[..1]).is_none());
        assert!(sweep.json().contains("\"zero_seconds\": 1"));
    }

    #[test]
    fn a_point_without_a_result_is_left_out() {
        assert!(Found::new(Vec::new(), &[]).is_none());
        assert!(Found::new(Vec::new(), &[json!({"check": "ok"})]).is_none());
    }
}
