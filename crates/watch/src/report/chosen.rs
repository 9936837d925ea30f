//! Plots of figures that `millpond plot -o` names, and all lines in one plot (`-1`).

use super::views::{Drawn, Term, began, id_of};
use crate::plot::Input;
use output::report::axis::Measure;
use output::report::chart::{Chart, ChartStyle, Series};
use output::samples::ColumnKind;
use std::borrow::Cow;

/// Finds a figure by its name, in any case. `Checkpoint_age` is the name that scripts know.
fn find<'i>(name: &str, input: &'i Input) -> Option<(&'i String, ColumnKind, &'i str)> {
    let name = if name.eq_ignore_ascii_case("checkpoint_age") { "checkpoint_age_bytes" } else { name };
    let (found, column) = input.samples.columns.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some((found, column.kind, &column.unit))
}

/// Returns a plot for each of some figures. An error names a figure that no input has.
pub(super) fn chosen(inputs: &[Input], names: &[String]) -> Result<Vec<Drawn>, String> {
    let end = inputs.iter().map(|input| input.samples.end()).fold(0.0, f64::max);
    let clock = if let [input] = inputs { began(input) } else { None };
    let drawn = |name: &String| {
        let (mut series, mut sums, mut known) = (Vec::new(), Vec::new(), None);
        for input in inputs {
            let Some((figure, kind, unit)) = find(name, input) else { continue };
            let term = match kind {
                ColumnKind::Counter => Term::Rate(Cow::Owned(figure.clone())),
                ColumnKind::Gauge => Term::Level(Cow::Owned(figure.clone())),
            };
            known = known.or(Some((figure.clone(), kind, unit.to_owned())));
            let label = if inputs.len() == 1 { figure } else { &input.label };
            series.push(Series::new(label, term.points(&input.samples)));
            sums.push(term.sum(&input.samples));
        }
        let (figure, kind, unit) = known.ok_or_else(|| absence(name, inputs))?;
        let note = if kind == ColumnKind::Counter { "Growth a second." } else { "" }.to_owned();
        let (id, measure) = (Cow::Owned(id_of(&figure)), measure_of(kind, &unit));
        let (title, style, marks) = (figure, ChartStyle::Lines, Vec::new());
        let chart = Chart { id, title, note, measure, style, series, marks, moment: None, end, clock };
        Ok(Drawn { chart, sums })
    };
    names.iter().map(drawn).collect()
}

fn absence(name: &str, inputs: &[Input]) -> String {
    let why = inputs.iter().find_map(|input| input.absent.get(name));
    match why {
        Some(why) => format!("there is no figure {name}: {why}"),
        None => {
            format!("there is no figure {name}; docs/lab.md and figures.txt of a collection have the names")
        }
    }
}

fn measure_of(kind: ColumnKind, unit: &str) -> Measure {
    match (unit, kind) {
        ("bytes", ColumnKind::Gauge) => Measure::Bytes,
        ("bytes", ColumnKind::Counter) => Measure::BytesPerSecond,
        ("µs", ColumnKind::Gauge) => Measure::Micros,
        ("µs", ColumnKind::Counter) => Measure::MicrosPerSecond,
        ("pages", ColumnKind::Gauge) => Measure::Count("pages"),
        ("pages", ColumnKind::Counter) => Measure::Count("pages/s"),
        ("%", _) => Measure::Count("%"),
        (_, ColumnKind::Counter) => Measure::Count("a second"),
        (_, ColumnKind::Gauge) => Measure::Count(""),
    }
}

/// Joins plots into one: each line in percent of its greatest value. With several inputs a plot has
/// a line for each, and these have one scale: else the lines of a large and a small log look alike.
pub(super) fn single(plots: &[Drawn], several_inputs: bool) -> Drawn {
    let end = plots.iter().map(|drawn| drawn.chart.end).fold(0.0, f64::max);
    let several = |drawn: &Drawn| drawn.chart.series.iter().filter(|series| !series.limit).count() > 1;
    let (mut series, mut sums, mut greatests) = (Vec::new(), Vec::new(), Vec::<String>::new());
    for drawn in plots {
        let lines = drawn.chart.series.iter().filter(|series| !series.limit);
        for (line, sum) in lines.clone().zip(&drawn.sums) {
            let of_all = lines.clone().filter_map(Series::greatest).fold(0.0, f64::max);
            let greatest = if several_inputs { of_all } else { line.greatest().unwrap_or(0.0) };
            let name = if several(drawn) {
                let plot = if several_inputs { &drawn.chart.title } else { &*drawn.chart.id };
                format!("{plot} {}", line.label)
            } else {
                line.label.clone()
            };
            greatests.push(format!("{name} {}", drawn.chart.measure.short(greatest)));
            series.push(Series { label: name, ..line.in_percent(drawn.chart.measure, greatest) });
            sums.push(*sum);
        }
    }
    let chart = Chart {
        id: Cow::Borrowed("all"),
        title: "All figures in one".to_owned(),
        note: format!("Each line in percent of its greatest value: {}.", greatests.join(", ")),
        measure: Measure::Count("%"),
        style: ChartStyle::Lines,
        series,
        marks: Vec::new(),
        moment: None,
        end,
        clock: plots.first().and_then(|drawn| drawn.chart.clock),
    };
    Drawn { chart, sums }
}

#[cfg(test)]
mod tests {
    use super::super::views::tests::show;
    use super::*;
    use crate::plot::tests::input;
    use expect_test::expect;

    #[test]
    fn chosen_figures_and_all_in_one() {
        let inputs = [input("one", 1.0)];
        let names = ["Checkpoint_age", "COMMITS", "tps"].map(str::to_owned);
        let plots = chosen(&inputs, &names).unwrap();
        let text = show(&plots) + &show(&[single(&plots, false)]);
        expect![[r#"
            checkpoint_age_bytes (checkpoint-age-bytes)
              checkpoint_age_bytes: 1.9 MiB
            commits (commits)
              commits: 100, sum 200
            tps (tps)
              tps: 7
            All figures in one (all)
              checkpoint_age_bytes: 100
              commits: 100, sum 200
              tps: 100
        "#]]
        .assert_eq(&text);
        // Two directories have one scale.
        let two = [input("small", 1.0), input("large", 4.0)];
        expect![[r#"
            All figures in one (all)
              checkpoint_age_bytes small: 25
              checkpoint_age_bytes large: 100
              commits small: 25, sum 200
              commits large: 100, sum 800
              tps small: 25
              tps large: 100
        "#]]
        .assert_eq(&show(&[single(&chosen(&two, &names).unwrap(), true)]));
        assert!(chosen(&inputs, &["x".to_owned()]).unwrap_err().contains("there is no figure x"));
        let why = chosen(&inputs, &["log_fsyncs".to_owned()]).unwrap_err();
        assert_eq!(why, "there is no figure log_fsyncs: not shown");
    }
}
