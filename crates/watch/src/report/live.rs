//! The views for a live page: the same list as that of `millpond plot`, with the value that
//! each line has at one moment. A browser draws them.

use super::views::{Lines, NamedLine, Term, VIEWS, View};
use output::report::chart::ChartStyle;
use std::borrow::Cow;

/// A view.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LiveView {
    /// Its id on the page.
    pub(crate) id: &'static str,
    /// The title.
    pub(crate) title: &'static str,
    /// An explanation, in a sentence.
    pub(crate) note: &'static str,
    /// The name of the quantity in scripts, such as `bytes`.
    pub(crate) unit: &'static str,
    /// Its lines are stacked areas.
    pub(crate) stacked: bool,
    /// The lines; stacked from the bottom up.
    pub(crate) lines: Vec<LiveLine>,
}

/// A line of a view.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LiveLine {
    /// Its name.
    pub(crate) label: String,
    /// It is a limit, not a measured value.
    pub(crate) limit: bool,
    term: Term,
}

impl LiveLine {
    /// Returns the value at one moment, from functions that return a figure's level and its growth
    /// a second.
    pub(crate) fn at(
        &self,
        level: impl Fn(&str) -> Option<f64>,
        rate: impl Fn(&str) -> Option<f64>,
    ) -> Option<f64> {
        self.term.at(level, rate)
    }
}

/// Returns the views for a target with these names of figures. What a workload says of itself is
/// only in collections.
pub(crate) fn live_views<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Vec<LiveView> {
    VIEWS.iter().filter_map(|view| of(view, names.clone())).collect()
}

fn of<'n>(view: &View, names: impl Iterator<Item = &'n str>) -> Option<LiveView> {
    let named =
        |(label, term): &NamedLine| LiveLine { label: (*label).to_owned(), limit: false, term: term() };
    let mut lines: Vec<LiveLine> = match view.lines {
        Lines::Named(lines) => lines.iter().map(named).collect(),
        Lines::Family(family) => {
            let member = |name: &str| {
                let label = name.strip_prefix(family)?.strip_prefix('.')?.replace('_', " ");
                Some(LiveLine { label, limit: false, term: Term::Rate(Cow::Owned(name.to_owned())) })
            };
            let mut members: Vec<LiveLine> = names.filter_map(member).collect();
            members.sort_by(|a, b| a.label.cmp(&b.label));
            members
        }
        Lines::Workload => return None,
    };
    lines.extend(view.limits.iter().map(|(label, name)| LiveLine {
        label: (*label).to_owned(),
        limit: true,
        term: Term::Level(Cow::Borrowed(*name)),
    }));
    Some(LiveView {
        id: view.id,
        title: view.title,
        note: view.note,
        unit: view.measure.script_name(),
        stacked: view.style == ChartStyle::Stacked,
        lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::tests::input;
    use crate::report::views::tests::ids;

    #[test]
    fn a_live_line_has_the_value_that_a_plot_has() {
        let samples = input("a", 1.0).samples;
        let names: Vec<&str> = samples.columns.keys().map(String::as_str).collect();
        let (mut compared, last) = (0, |points: Vec<(f64, Option<f64>)>| points.last().and_then(|p| p.1));
        for line in live_views(names.iter().copied()).iter().flat_map(|view| &view.lines) {
            let now = line.at(|name| last(samples.level(name)), |name| last(samples.rate(name)));
            assert_eq!(now, last(line.term.points(&samples)), "{line:?}");
            compared += usize::from(now.is_some());
        }
        assert!(compared >= 10, "{compared}");
    }

    #[test]
    fn all_views_move_but_that_of_a_workload() {
        let live = live_views(["pages_written_by_force.sync"].into_iter());
        let wanted: Vec<&str> = ids().filter(|id| *id != "workload").collect();
        assert_eq!(live.iter().map(|view| view.id).collect::<Vec<_>>(), wanted);
        let forces = live.iter().find(|view| view.id == "flushing-by-force").unwrap();
        assert_eq!(forces.lines.iter().map(|line| line.label.as_str()).collect::<Vec<_>>(), ["sync"]);
    }
}
