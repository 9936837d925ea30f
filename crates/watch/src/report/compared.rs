//! What `millpond plot` says of its directories besides plots: a row of figures for each, and the
//! settings in which they differ.

use crate::collect::WORKLOAD_UNIT;
use crate::plot::Input;
use output::report::chart::Series;
use output::report::page::{Table, columns};
use output::samples::Point;
use output::units::{show_count, show_size};
use std::collections::BTreeSet;

/// The figures of the schema that the rows need.
pub(crate) const SUMMARY: [&str; 6] = [
    "commits",
    "run_transactions",
    "checkpoint_age_bytes",
    "checkpoint_age_limit",
    "redo_bytes_written",
    "fsyncs",
];
/// What a server lists among its settings, and what changes by itself.
const STATE: [&str; 12] = [
    "gtid_binlog_pos",
    "gtid_binlog_state",
    "gtid_current_pos",
    "gtid_executed",
    "gtid_purged",
    "gtid_slave_pos",
    "innodb_redo_log_capacity_resized",
    "pseudo_thread_id",
    "rand_seed1",
    "rand_seed2",
    "server_uid",
    "timestamp",
];
/// The longest value of a setting that is shown whole, characters.
const VALUE: usize = 48;
const UNKNOWN: &str = "–";

/// Returns a row of figures for each directory.
pub(super) fn summary(inputs: &[Input]) -> Table {
    Table {
        caption: "tps: what the workload says of itself under a name with “tps”, else commits. 95 % reach: in 95 of 100 \
                  seconds it was at least that. p95: the average of what the workload says under a name with “95”. \
                  Age: of the limit at which writers wait."
            .to_owned(),
        names: 1,
        columns: columns(&[
            "directory",
            "tps",
            "worst",
            "seconds at 0",
            "95 % reach",
            "p95",
            "age",
            "greatest",
            "redo an hour",
            "syncs/s",
        ]),
        rows: inputs.iter().map(row).collect(),
    }
}

fn row(input: &Input) -> Vec<String> {
    let samples = &input.samples;
    let known = |points: Vec<Point>| -> Vec<f64> { Series::new("", points).known().collect() };
    let mean =
        |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let said = |part: &str| {
        let mut names = samples.columns.iter().filter(|(_, column)| column.unit == WORKLOAD_UNIT);
        let (name, _) = names.find(|(name, _)| name.to_lowercase().contains(part))?;
        Some(known(samples.level(name)))
    };
    let counted = |name: &str| Some(known(samples.rate(name))).filter(|values| !values.is_empty());
    let mut tps = said("tps")
        .or_else(|| counted("commits"))
        .or_else(|| counted("run_transactions"))
        .unwrap_or_default();
    tps.sort_by(f64::total_cmp);
    let share = samples.level("checkpoint_age_bytes").into_iter().zip(samples.level("checkpoint_age_limit"));
    let share = share.map(|((t, age), (_, limit))| {
        (t, age.zip(limit.filter(|limit| *limit > 0.0)).map(|(age, limit)| 100.0 * age / limit))
    });
    let age = known(share.collect());
    let redo = samples.growth("redo_bytes_written");
    let hours = samples.end() / 3600.0;
    let show =
        |value: Option<f64>, text: &dyn Fn(f64) -> String| value.map_or_else(|| UNKNOWN.to_owned(), text);
    let percent = |value: f64| format!("{value:.0} %");
    vec![
        input.label.clone(),
        show(mean(&tps), &show_count),
        show(tps.first().copied(), &show_count),
        show((!tps.is_empty()).then(|| tps.iter().filter(|tps| **tps == 0.0).count() as f64), &show_count),
        show(tps.get(tps.len() / 20).copied(), &show_count),
        show(said("95").and_then(|values| mean(&values)), &|value| format!("{value:.1}")),
        show(mean(&age), &percent),
        show(age.iter().copied().max_by(f64::total_cmp), &percent),
        show((redo > 0.0 && hours > 0.0).then(|| redo / hours), &show_size),
        show(counted("fsyncs").and_then(|values| mean(&values)), &show_count),
    ]
}

/// Returns the settings that differ between directories, as far as they have settings: columns and
/// rows. `None` if fewer than two have.
pub(super) fn differences(inputs: &[Input]) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let known: Vec<_> = inputs.iter().filter(|input| !input.settings.is_empty()).collect();
    if known.len() < 2 {
        return None;
    }
    let names: BTreeSet<&String> = known.iter().flat_map(|input| input.settings.keys()).collect();
    let mut rows = Vec::new();
    for name in names {
        let values: Vec<Option<&String>> = known.iter().map(|input| input.settings.get(name)).collect();
        let state = STATE.contains(&name.to_lowercase().as_str());
        if !state && values.iter().any(|value| *value != values[0]) {
            let shown =
                values.iter().map(|value| value.map_or_else(|| UNKNOWN.to_owned(), |value| shortened(value)));
            rows.push(std::iter::once(name.clone()).chain(shown).collect());
        }
    }
    let columns = std::iter::once("setting".to_owned()).chain(known.iter().map(|input| input.label.clone()));
    Some((columns.collect(), rows))
}

fn shortened(value: &str) -> String {
    if value.chars().count() <= VALUE {
        return value.to_owned();
    }
    value.chars().take(VALUE - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::tests::input;
    use expect_test::expect;
    use output::samples::ColumnKind::Gauge;

    #[test]
    fn each_directory_has_a_row_of_figures() {
        let mut bare = input("bare", 1.0);
        bare.samples.columns.clear();
        let mut said = input("said", 2.0);
        for (name, values) in [("Sysbench_tps", [90.0, 0.0, 30.0]), ("Sysbench_p95", [3.0, 4.0, 8.0])] {
            let mut other = output::samples::Samples::new();
            for (at, value) in values.into_iter().enumerate() {
                other.push(at as f64, vec![(name.into(), WORKLOAD_UNIT, Gauge, value)]);
            }
            said.samples.columns.remove("tps");
            said.samples.columns.extend(other.columns);
        }
        let mut counted = input("counted", 1.0);
        counted.samples.columns.remove("tps");
        expect![[r#"
            directory  tps  worst  seconds at 0  95 % reach  p95   age  greatest  redo an hour  syncs/s
            said        40      0             1           0  5.0  50 %     100 %      20.1 GiB        –
            counted    100    100             0         100    –  25 %      50 %      10.1 GiB        –
            bare         –      –             –           –    –     –         –             –        –
        "#]]
        .assert_eq(&summary(&[said, counted, bare]).text());
    }

    #[test]
    fn settings_that_differ_are_listed() {
        let with = |label: &str, settings: &[(&str, &str)]| {
            let settings =
                settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Input { settings, ..input(label, 1.0) }
        };
        let long = "x".repeat(60);
        let before =
            with("before", &[("log", "96M"), ("same", "1"), ("gtid_binlog_pos", "0-1-5"), ("old", "ON")]);
        let after =
            with("after", &[("log", "1G"), ("same", "1"), ("gtid_binlog_pos", "0-1-9"), ("new", &long)]);
        let (columns, rows) = differences(&[before.clone(), input("none", 1.0), after]).unwrap();
        assert_eq!(columns, ["setting", "before", "after"]);
        assert_eq!(rows[0], ["log", "96M", "1G"]);
        assert_eq!(rows[1], ["new", UNKNOWN, &format!("{}…", "x".repeat(47))]);
        assert_eq!(rows[2], ["old", "ON", UNKNOWN]);
        assert_eq!(rows.len(), 3);
        assert_eq!(differences(&[before, input("none", 1.0)]), None);
    }
}
