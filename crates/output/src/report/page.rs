//! The page: HTML from text, tables and plots. All text from outside is escaped, and the page
//! fetches nothing.

use super::chart::Chart;
use super::escape::escape;
use super::plot::Plot;
use super::svg::{self, Format};
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = concat!(include_str!("units.js"), include_str!("page.js"));

/// How the contents of a report were made.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The command that repeats it.
    pub command: String,
    /// All parameters with their names, including defaults.
    pub parameters: Vec<(&'static str, String)>,
    /// The machine.
    pub machine: Vec<(&'static str, String)>,
}

/// A number at the top of the page.
#[derive(Clone, Debug)]
pub struct Headline {
    /// Its name.
    pub label: String,
    /// The number.
    pub value: String,
    /// More about it, in small print.
    pub small: String,
}

/// A table: the first columns name a row, the others hold numbers.
#[derive(Clone, Debug)]
pub struct Table {
    /// The caption.
    pub caption: String,
    /// How many columns hold names.
    pub names: usize,
    /// The columns.
    pub columns: Vec<String>,
    /// The rows, with a cell for each column.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns the table as text: names to the left, numbers to the right.
    pub fn text(&self) -> String {
        let lines = || std::iter::once(&self.columns).chain(&self.rows);
        let width = |at: usize| lines().map(|cells| cells[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = String::new();
        for cells in lines() {
            let mut line = String::new();
            for (at, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                let _ = match at < self.names {
                    true => write!(line, "{cell:width$}  "),
                    false => write!(line, "{cell:>width$}  "),
                };
            }
            out += line.trim_end();
            out.push('\n');
        }
        out
    }
}

/// Returns the columns of a table.
pub fn columns(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A page that is built from top to bottom.
#[derive(Debug)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// Begins a page with a title and a first paragraph.
    pub fn new(title: &str, lead: &str) -> Page {
        let body = format!("<h1>{}</h1>\n<p class=\"lead\">{}</p>\n", escape(title), escape(lead));
        Page { title: title.to_owned(), body }
    }

    /// Adds a warning.
    pub fn warning(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p class=\"warn\">{}</p>", escape(text));
    }

    /// Adds the numbers at the top.
    pub fn headlines(&mut self, headlines: &[Headline]) {
        self.body.push_str("<dl class=\"head\">\n");
        for Headline { label, value, small } in headlines {
            let _ = writeln!(
                self.body,
                "<div><dt>{}</dt><dd>{}<small>{}</small></dd></div>",
                escape(label),
                escape(value),
                escape(small)
            );
        }
        self.body.push_str("</dl>\n");
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str) {
        let _ = writeln!(self.body, "<h2>{}</h2>", escape(title));
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p class=\"note\">{}</p>", escape(text));
    }

    /// Adds a plot over time, with a table of its numbers below.
    pub fn chart(&mut self, chart: &Chart) {
        self.begin_figure("time", chart);
        let rows = chart.series.iter().filter_map(|series| {
            let figures = series.summary()?.map(|v| chart.show(series, v));
            Some([series.label.clone()].into_iter().chain(figures).collect())
        });
        self.body.push_str("<details><summary>Figures</summary>");
        self.table(&Table {
            caption: String::new(),
            names: 1,
            columns: columns(&["", "least", "median", "mean", "greatest"]),
            rows: rows.collect(),
        });
        let _ = writeln!(
            self.body,
            "</details>\n<script type=\"application/json\">{}</script>\n</figure>",
            points_json(chart)
        );
    }

    /// Adds a plot that has no time axis.
    pub fn still(&mut self, plot: &impl Plot) {
        self.begin_figure("still", plot);
        self.body.push_str("</figure>\n");
    }

    fn begin_figure(&mut self, class: &str, plot: &impl Plot) {
        let (id, title, note) = plot.about();
        let _ = writeln!(
            self.body,
            "<figure class=\"{class}\" id=\"{id}\"><figcaption><strong>{}</strong> <span class=\"note\">{}</span></figcaption>",
            escape(title),
            escape(note)
        );
        let _ = write!(self.body, "{}{}", plot.element(Format::Wide), plot.element(Format::Narrow));
    }

    /// Adds how the report was made, and links to its other files.
    pub fn origin(&mut self, origin: &Origin, files: &[String]) {
        self.section("How it was run");
        self.command(&origin.command);
        self.facts(&origin.parameters);
        self.section("Machine");
        self.facts(&origin.machine);
        self.section("Files");
        self.files("Other files:", files);
    }

    /// Figures in columns.
    pub fn table(&mut self, table: &Table) {
        self.body.push_str("<div class=\"scroll\"><table>");
        if !table.caption.is_empty() {
            let _ = write!(self.body, "<caption>{}</caption>", escape(&table.caption));
        }
        self.body.push_str("<thead><tr>");
        let class = |i: usize| if i < table.names { " class=\"name\"" } else { "" };
        for (i, column) in table.columns.iter().enumerate() {
            let _ = write!(self.body, "<th scope=\"col\"{}>{}</th>", class(i), escape(column));
        }
        self.body.push_str("</tr></thead>\n<tbody>\n");
        for row in &table.rows {
            self.body.push_str("<tr>");
            for (i, cell) in row.iter().enumerate() {
                let (cell, class) = (escape(cell), class(i));
                let _ = if i == 0 {
                    write!(self.body, "<th scope=\"row\"{class}>{cell}</th>")
                } else {
                    write!(self.body, "<td{class}>{cell}</td>")
                };
            }
            self.body.push_str("</tr>\n");
        }
        self.body.push_str("</tbody></table></div>\n");
    }

    /// Adds facts with their names. On a terminal, blanks separate the parts of a value; on a page,
    /// a dot does.
    pub fn facts<S: AsRef<str>>(&mut self, facts: &[(S, String)]) {
        self.body.push_str("<table class=\"text\"><tbody>\n");
        for (name, value) in facts {
            let (name, value) = (escape(name.as_ref()), escape(&value.replace("   ", " · ")));
            let _ = writeln!(self.body, "<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>");
        }
        self.body.push_str("</tbody></table>\n");
    }

    /// Adds a command.
    pub fn command(&mut self, command: &str) {
        let _ = writeln!(self.body, "<pre>{}</pre>", escape(command));
    }

    /// Adds a text that is shown when its title is clicked.
    pub fn folded(&mut self, title: &str, text: &str) {
        let (title, text) = (escape(title), escape(text));
        let _ = writeln!(self.body, "<details><summary>{title}</summary><pre>{text}</pre></details>");
    }

    /// Adds links to other files of the report.
    pub fn files(&mut self, text: &str, names: &[String]) {
        let links: Vec<String> = names
            .iter()
            .map(|name| {
                let name = escape(name);
                format!("<a href=\"{name}\">{name}</a>")
            })
            .collect();
        let _ = writeln!(self.body, "<p class=\"note\">{} {}</p>", escape(text), links.join(", "));
    }

    /// Returns the complete page.
    pub fn finish(self, foot: &str) -> String {
        let title = escape(&self.title);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"generator\" content=\"millpond {}\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n\
             <style>\n{STYLE}{}</style>\n</head>\n<body>\n<main>\n{}<footer>{}</footer>\n</main>\n\
             <script>\n{SCRIPT}</script>\n</body>\n</html>\n",
            env!("CARGO_PKG_VERSION"),
            svg::STYLE,
            self.body,
            escape(foot)
        )
    }
}

/// Returns the points of a plot as JSON for the script of the page, which shows the values at the
/// pointer. Limits are left out: their value is next to their name.
pub(super) fn points_json(chart: &Chart) -> String {
    let series: Vec<serde_json::Value> = chart
        .series
        .iter()
        .filter(|series| !series.limit)
        .map(|series| {
            let real = |v: f64| round(series.real(chart.measure, v).1);
            let (t, v): (Vec<f64>, Vec<Option<f64>>) =
                series.points.iter().map(|(t, v)| (round(*t), v.map(real))).unzip();
            let unit = series.real(chart.measure, 0.0).0.script_name();
            serde_json::json!({ "n": series.label, "u": unit, "t": t, "v": v })
        })
        .collect();
    // Inside a script element only its end tag has a meaning.
    serde_json::json!({ "end": chart.end, "began": chart.clock, "series": series })
        .to_string()
        .replace('<', "\\u003c")
}

/// Rounds a value to the digits that are shown, which keeps the page small.
fn round(value: f64) -> f64 {
    if value.abs() >= 100.0 { value.round() } else { (value * 1000.0).round() / 1000.0 }
}
