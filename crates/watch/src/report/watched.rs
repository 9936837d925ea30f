//! The report of `millpond plot`: views of collections and recordings, or a comparison of them.

use super::views::{self, Drawn};
use super::{chosen, compared};
use crate::plot::Input;
use output::report::chart::{ChartStyle, Series};
use output::report::page::{Headline, Page, Table, columns};
use output::report::plot::Plot;
use output::report::{PAGE, svg};
use output::units::{show_count, show_date, show_size};

/// The data of a report.
#[derive(Debug)]
pub struct WatchedReport<'a> {
    /// What is drawn.
    pub inputs: &'a [Input],
    /// Only these figures, each in a plot of its own; none for the views.
    pub figures: &'a [String],
    /// All in one plot.
    pub single: bool,
    /// Average, deviation and sum in each plot too.
    pub averages: bool,
    /// The command that repeats it.
    pub command: String,
}

/// A report that is drawn.
#[derive(Debug)]
pub struct Drawing {
    /// The files by name; the page is the last one.
    pub files: Vec<(String, String)>,
    /// Average, deviation and sum of each line, as text.
    pub(crate) averages: String,
    /// A row of figures for each input, and the settings that differ, as text.
    pub(crate) summary: String,
}

impl WatchedReport<'_> {
    /// Draws the report. An error names a figure that no input has.
    pub fn draw(&self) -> Result<Drawing, String> {
        let mut plots = match self.figures {
            [] => views::views(self.inputs),
            figures => chosen::chosen(self.inputs, figures)?,
        };
        if plots.is_empty() {
            return Err("none of the inputs has a figure of any view".to_owned());
        }
        let averages = averages(&plots);
        if self.single {
            plots = vec![chosen::single(&plots, self.inputs.len() > 1)];
        }
        if self.averages {
            plots.iter_mut().for_each(add_averages);
        }
        let charts: Vec<_> = plots.into_iter().map(|drawn| drawn.chart.thinned(svg::POINTS)).collect();
        let mut files: Vec<(String, String)> = charts.iter().map(Plot::file).collect();
        let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
        let title = match self.inputs {
            [input] => input.target.clone(),
            inputs => inputs.iter().map(|input| input.label.as_str()).collect::<Vec<_>>().join(", "),
        };
        let mut page = Page::new(&title, &self.lead());
        self.warnings(&mut page);
        if let [input] = self.inputs {
            page.headlines(&headlines(input));
        }
        let summary = self.compare(&mut page);
        page.section("Over time");
        charts.iter().for_each(|chart| page.chart(chart));
        page.section("Averages");
        page.table(&averages);
        self.events(&mut page);
        self.absent(&mut page);
        page.section("How it was made");
        page.command(&self.command);
        page.facts(&self.facts());
        page.section("Files");
        page.files("Other files:", &names);
        let foot = concat!("Millpond ", env!("CARGO_PKG_VERSION"), ".");
        files.push((PAGE.to_owned(), page.finish(foot)));
        Ok(Drawing { files, averages: averages.text(), summary })
    }

    fn lead(&self) -> String {
        match self.inputs {
            [input] => format!(
                "{}: {} samples in {}{}.",
                input.version,
                show_count(input.samples.seconds.len() as f64),
                length(input.samples.end()),
                began(input).map_or(String::new(), |began| format!(", from {began}"))
            ),
            inputs => format!("A comparison of {}; each begins at 0.", inputs.len()),
        }
    }

    /// Adds a row of figures for each input, and the settings that differ. Returns them as text.
    fn compare(&self, page: &mut Page) -> String {
        let summary = compared::summary(self.inputs);
        page.section("In figures");
        page.table(&summary);
        let mut text = summary.text();
        match compared::differences(self.inputs) {
            None => {}
            Some((_, rows)) if rows.is_empty() => {
                page.paragraph("The settings of the collections are the same.");
                text += "the settings are the same\n";
            }
            Some((columns, rows)) => {
                page.section("Settings that differ");
                let table = Table { caption: String::new(), names: columns.len(), columns, rows };
                page.table(&table);
                text = format!("{text}\n{}", table.text());
            }
        }
        text
    }

    fn warnings(&self, page: &mut Page) {
        for input in self.inputs {
            let (late, most) = input.late;
            if late > 0 {
                page.warning(&format!("{}: {late} samples were late, by up to {most} ms.", input.label));
            }
            for (event, what) in [("gone", "the target was gone"), ("refused", "the target refused a sample")]
            {
                let times = input.events.iter().filter(|(_, other, _)| other == event).count();
                if times > 0 {
                    page.warning(&format!(
                        "{}: {what} {times} times; the lines have gaps there.",
                        input.label
                    ));
                }
            }
        }
    }

    fn events(&self, page: &mut Page) {
        let rows: Vec<Vec<String>> = self
            .inputs
            .iter()
            .flat_map(|input| input.events.iter().map(move |event| (input, event)))
            .map(|(input, (at, event, why))| {
                let clock = views::began(input)
                    .map_or_else(String::new, |began| show_date(((began + at) * 1e6) as u64));
                vec![input.label.clone(), clock, length(*at), event.clone(), why.clone()]
            })
            .collect();
        if !rows.is_empty() {
            page.section("What happened");
            let columns = columns(&["input", "when", "after", "what", "why"]);
            page.table(&Table { caption: String::new(), names: 5, columns, rows });
        }
    }

    fn absent(&self, page: &mut Page) {
        for input in self.inputs.iter().filter(|input| !input.absent.is_empty()) {
            page.section(&format!("What {} does not have", input.label));
            let facts: Vec<(&str, String)> =
                input.absent.iter().map(|(name, why)| (name.as_str(), why.clone())).collect();
            page.facts(&facts);
        }
    }

    fn facts(&self) -> Vec<(String, String)> {
        let fact = |input: &Input| {
            let began = began(input).map_or(String::new(), |began| format!(", from {began}"));
            let text = format!("{}, {} ({}){began}", input.path, input.target, input.version);
            (input.label.clone(), text)
        };
        self.inputs.iter().map(fact).collect()
    }
}

/// Returns average, deviation and sum of each line.
fn averages(plots: &[Drawn]) -> Table {
    let mut rows = Vec::new();
    for drawn in plots {
        for (series, sum) in measured(drawn) {
            let Some((mean, deviation, zero)) = statistics(series) else { continue };
            let show = |value| drawn.chart.show(series, value);
            rows.push(vec![
                drawn.chart.title.clone(),
                series.label.clone(),
                show(mean),
                show(deviation),
                sum.map_or_else(String::new, |sum| sum_of(drawn, series, sum)),
                show_count(zero as f64),
            ]);
        }
    }
    Table {
        caption: "Sum is how much a counter grew in all.".to_owned(),
        names: 2,
        columns: columns(&["plot", "line", "average", "deviation", "sum", "samples at 0"]),
        rows,
    }
}

/// Returns the lines of a plot that are no limits, with their sums.
fn measured(drawn: &Drawn) -> impl Iterator<Item = (&Series, Option<f64>)> {
    drawn.chart.series.iter().filter(|series| !series.limit).zip(drawn.sums.iter().copied())
}

fn sum_of(drawn: &Drawn, series: &Series, sum: f64) -> String {
    let bytes = series.real(drawn.chart.measure, 0.0).0.script_name().starts_with("bytes");
    if bytes { show_size(sum) } else { show_count(sum) }
}

/// Writes average, deviation and sum of each line into the note of a plot, and draws the average of
/// a single line.
fn add_averages(drawn: &mut Drawn) {
    let (mut texts, mut means) = (Vec::new(), Vec::new());
    for (series, sum) in measured(drawn) {
        let Some((mean, deviation, _)) = statistics(series) else { continue };
        let show = |value| drawn.chart.show(series, value);
        let sum = sum.map_or_else(String::new, |sum| format!(", sum {}", sum_of(drawn, series, sum)));
        texts.push(format!("{}: average {}, deviation {}{sum}.", series.label, show(mean), show(deviation)));
        means.push(mean);
    }
    let chart = &mut drawn.chart;
    chart.note = format!("{} {}", chart.note, texts.join(" ")).trim().to_owned();
    if let [mean] = means[..]
        && chart.style == ChartStyle::Lines
    {
        chart.series.push(Series::limit("average", vec![(0.0, Some(mean)), (chart.end, Some(mean))]));
    }
}

/// Returns mean, standard deviation, and how many values are 0.
fn statistics(series: &Series) -> Option<(f64, f64, usize)> {
    let values: Vec<f64> = series.known().collect();
    let count = values.len() as f64;
    if values.is_empty() {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    Some((mean, square.sqrt(), values.iter().filter(|value| **value == 0.0).count()))
}

fn headlines(input: &Input) -> Vec<Headline> {
    let samples = &input.samples;
    let level = |name: &str| Series::new("", samples.level(name));
    let mut out = Vec::new();
    let mut add = |label: &str, value: String, small: String| {
        out.push(Headline { label: label.to_owned(), value, small });
    };
    let commits = Series::new("", samples.rate("commits"));
    if let Some((mean, _, zero)) = statistics(&commits) {
        add("commits a second", show_count(mean), format!("average; {zero} seconds without commits"));
    }
    let age = level("checkpoint_age_bytes");
    if let Some(greatest) = age.greatest() {
        let limit = level("checkpoint_age_limit").known().last().filter(|limit| *limit > 0.0);
        let small = limit.map_or_else(
            || "the greatest".to_owned(),
            |limit| format!("the greatest; {:.0} % of the limit", 100.0 * greatest / limit),
        );
        add("checkpoint age", show_size(greatest), small);
    }
    if let Some((mean, ..)) = statistics(&level("dirty_percent")) {
        let greatest = level("dirty_percent").greatest().unwrap_or(mean);
        add("dirty pages", format!("{mean:.1} %"), format!("average; at most {greatest:.1} %"));
    }
    let written = samples.growth("redo_bytes_written");
    if written > 0.0 && samples.end() > 0.0 {
        add(
            "redo an hour",
            show_size(written / samples.end() * 3600.0),
            format!("{} in all", show_size(written)),
        );
    }
    if let Some((mean, ..)) = statistics(&Series::new("", samples.rate("pages_written"))) {
        add("pages written a second", show_count(mean), "average".to_owned());
    }
    if let Some((mean, ..)) = statistics(&Series::new("", samples.rate("fsyncs"))) {
        add("syncs a second", show_count(mean), "average".to_owned());
    }
    out
}

fn length(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

fn began(input: &Input) -> Option<String> {
    views::began(input).map(|began| show_date((began * 1e6) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::tests::input;
    use crate::scratch::Scratch;
    use expect_test::expect;

    fn report(inputs: &[Input]) -> WatchedReport<'_> {
        let command = "millpond plot one --out out".to_owned();
        WatchedReport { inputs, figures: &[], single: false, averages: false, command }
    }

    fn page(inputs: &[Input]) -> String {
        let files = report(inputs).draw().unwrap().files;
        assert!(files.iter().all(|(name, _)| name.ends_with(".svg") || name == PAGE));
        files.last().unwrap().1.clone()
    }

    #[test]
    fn the_page_says_what_was_seen_and_what_was_not() {
        let mut one = input("one", 1.0);
        one.late = (3, 250);
        one.events.push((1.0, "gone".into(), "no answer <b>".into()));
        let page = page(&[one]);
        for text in [
            "MariaDB 10.11.19: 3 samples in 2 s.",
            "3 samples were late, by up to 250 ms",
            "no answer &lt;b&gt;",
            "What one does not have",
            "log_fsyncs",
            "<td>100</td><td>0</td><td>200</td><td>0</td>",
            "millpond plot one --out out",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!page.contains("src=") && !page.contains("href=\"http"), "the page fetches nothing");
    }

    /// A report of another command takes the place of one with all views.
    #[test]
    fn the_plots_belong_to_reports() {
        for id in views::tests::ids().chain(["all"]) {
            let scratch = Scratch::new("claimed");
            std::fs::write(scratch.0.join(format!("{id}.svg")), "foreign").unwrap();
            assert!(output::report::claim(&scratch.0, None).is_err(), "{id}");
        }
    }

    #[test]
    fn a_comparison_has_a_line_for_each_input() {
        let page = page(&[input("before", 1.0), input("after", 2.0)]);
        assert!(page.contains("A comparison of 2") && page.contains("<title>before, after</title>"));
        assert!(!page.contains("<dl"), "no headlines that hold for one of them only");
    }

    #[test]
    fn averages_deviations_and_sums_stand_in_the_plots_and_as_text() {
        let inputs = [input("one", 2.0)];
        let figures = ["commits", "dirty_pages", "redo_bytes_written"].map(str::to_owned);
        let drawing = WatchedReport { figures: &figures, averages: true, ..report(&inputs) }.draw().unwrap();
        expect![[r#"
            plot                line                  average  deviation       sum  samples at 0
            commits             commits                   200          0       400             0
            dirty_pages         dirty_pages                20       16.3                       1
            redo_bytes_written  redo_bytes_written  5.7 MiB/s      0 B/s  11.4 MiB             0
        "#]]
        .assert_eq(&drawing.averages);
        for (file, text) in [
            ("commits.svg", "commits: average 200, deviation 0, sum 400."),
            ("dirty-pages.svg", "dirty_pages: average 20, deviation"),
        ] {
            let (_, svg) = drawing.files.iter().find(|(name, _)| name == file).unwrap();
            // A long note has several lines.
            let svg = svg.replace("</tspan>", " ");
            assert!(svg.contains(text) && svg.contains(">average "), "{text}: {svg}");
        }
        let without = report(&inputs).draw().unwrap().files;
        assert!(without.iter().all(|(name, text)| name == PAGE || !text.contains("deviation")));
    }

    /// The averages of lines in one plot were percents of their greatest value, and their names
    /// were cut, in the table too.
    #[test]
    fn all_lines_in_one_plot_have_real_averages_and_whole_names() {
        let mut one = input("one", 2.0);
        let column = one.samples.columns.remove("dirty_pages").unwrap();
        one.samples.columns.insert("innodb_buffer_pool_pages_dirty".to_owned(), column);
        one.began = 1_795_528_977.0;
        let inputs = [one];
        let figures = ["Checkpoint_age", "tps", "Innodb_buffer_pool_pages_dirty"].map(str::to_owned);
        let drawing = WatchedReport { figures: &figures, single: true, averages: true, ..report(&inputs) }
            .draw()
            .unwrap();
        expect![[r#"
            plot                            line                            average  deviation  sum  samples at 0
            checkpoint_age_bytes            checkpoint_age_bytes            1.9 MiB    1.6 MiB                  1
            tps                             tps                                  14          0                  0
            innodb_buffer_pool_pages_dirty  innodb_buffer_pool_pages_dirty       20       16.3                  1
        "#]]
        .assert_eq(&drawing.averages);
        let [(name, svg), (_, page)] = &drawing.files[..] else { panic!("one plot") };
        assert_eq!(name, "all.svg");
        for text in [
            "innodb_buffer_pool_pages_dirty: average 20, deviation 16.3.",
            ">innodb_buffer_pool_pages_dirty</text>",
            "UTC, 2026-11-24",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        // The table below the plot, and what the script shows at the pointer.
        for text in
            ["<td>0</td><td>20</td><td>20</td><td>40</td>", "\"u\":\"bytes\",\"v\":[0.0,2000000.0,4000000.0]"]
        {
            assert!(page.contains(text), "{text}: {page}");
        }
    }

    #[test]
    fn inputs_without_any_figure_are_said_to_have_none() {
        let mut bare = input("bare", 1.0);
        bare.samples.columns.clear();
        let report = WatchedReport { inputs: &[bare], ..report(&[]) };
        assert!(report.draw().unwrap_err().contains("none of the inputs"));
    }
}
