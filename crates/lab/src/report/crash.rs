//! The report of `millpond crash`: the run before the kill, and the recovery.

use super::timeline::Timeline;
use output::report::axis::Measure;
use output::report::chart::{Chart, Series};
use output::report::page::{Headline, Origin, Page};
use output::report::plot::Plot;
use output::report::{PAGE, svg};
use output::samples::Samples;
use output::units::{show_count, show_micros, show_size};

/// The data of a crash report.
#[derive(Debug)]
pub(crate) struct CrashReport<'a> {
    /// What the victim reported each second: `acknowledged`, `checkpoint_age_bytes`.
    pub(crate) samples: &'a Samples,
    /// Redo at the kill.
    pub(crate) redo_bytes: u64,
    /// Milliseconds from the start of the new process until the database was open.
    pub(crate) opened_ms: f64,
    /// Milliseconds until its first commit was durable.
    pub(crate) first_transaction_ms: f64,
    /// Milliseconds until recovery was complete.
    pub(crate) full_recovery_ms: f64,
    /// Acknowledged transactions.
    pub(crate) acknowledged: u64,
    /// Acknowledged transactions that were not found.
    pub(crate) lost: u64,
    /// Values that no transaction wrote.
    pub(crate) extra: u64,
    /// The directory was on a disk.
    pub(crate) durable_device: bool,
    /// "ok", or what is wrong.
    pub(crate) check: &'a str,
    /// The final table.
    pub(crate) lines: Vec<(&'static str, String)>,
    /// How the report was made.
    pub(crate) origin: Origin,
}

impl CrashReport<'_> {
    /// Returns the files of the report by name; the page is the last one.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let charts = [self.throughput(), self.redo()].map(|chart| chart.thinned(svg::POINTS));
        let recovery = self.recovery();
        let mut files: Vec<(String, String)> = charts.iter().map(Plot::file).collect();
        files.push(recovery.file());
        files.push(("samples.json".to_owned(), self.samples.json()));
        files.push(("samples.csv".to_owned(), self.samples.csv()));
        let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
        files.push((PAGE.to_owned(), self.page(&charts, &recovery, &names)));
        files
    }

    fn page(&self, charts: &[Chart], recovery: &Timeline, files: &[String]) -> String {
        let lead = format!(
            "A process was killed with {} of redo since its checkpoint. Another one opened the database, and every row \
             was compared with the acknowledged transactions.",
            show_size(self.redo_bytes as f64)
        );
        let mut page = Page::new("Millpond, crash and recovery", &lead);
        if self.lost > 0 || self.extra > 0 {
            page.warning(&format!(
                "{} acknowledged transactions were lost; {} values were extra.",
                self.lost, self.extra
            ));
        }
        if self.check != "ok" {
            page.warning(&format!("The check after the recovery found damage: {}", self.check));
        }
        if !self.durable_device {
            page.warning("The database lay on a memory file system: nothing there survives a power cut.");
        }
        page.headlines(&self.headlines());
        page.section("Recovery");
        page.still(recovery);
        page.section("Before the kill");
        for chart in charts {
            page.chart(chart);
        }
        page.section("Summary");
        page.facts(&self.lines);
        page.origin(&self.origin, files);
        page.finish(concat!("Millpond ", env!("CARGO_PKG_VERSION"), "."))
    }

    fn headlines(&self) -> Vec<Headline> {
        let headline =
            |label: &str, value: String, small: String| Headline { label: label.into(), value, small };
        let rate = self.redo_bytes as f64 / (self.full_recovery_ms / 1000.0).max(1e-6);
        vec![
            headline("redo at the kill", show_size(self.redo_bytes as f64), "since the checkpoint".into()),
            headline(
                "first commit after",
                show_micros(self.first_transaction_ms * 1000.0),
                format!("open after {}", show_micros(self.opened_ms * 1000.0)),
            ),
            headline(
                "recovered after",
                show_micros(self.full_recovery_ms * 1000.0),
                format!("{}/s of redo", show_size(rate)),
            ),
            headline(
                "acknowledged",
                show_count(self.acknowledged as f64),
                "transactions before the kill".into(),
            ),
            headline("lost", show_count(self.lost as f64), "acknowledged and not found".into()),
            headline("extra", show_count(self.extra as f64), "values that were never written".into()),
        ]
    }

    fn chart(
        &self,
        id: &'static str,
        title: &str,
        measure: Measure,
        series: Vec<Series>,
        note: String,
    ) -> Chart {
        Chart { note, ..Chart::lines(id, title, measure, series, self.samples.end()) }
    }

    fn throughput(&self) -> Chart {
        let series = vec![Series::new("acknowledged", self.samples.rate("acknowledged"))];
        let note = format!("{} commits acknowledged until the kill.", show_count(self.acknowledged as f64));
        self.chart("crash-throughput", "Commits a second", Measure::Count("commits/s"), series, note)
    }

    fn redo(&self) -> Chart {
        let series = vec![Series::new("redo", self.samples.level("checkpoint_age_bytes"))];
        let note = format!("Cleaning was held back until the kill at {}.", show_size(self.redo_bytes as f64));
        self.chart("crash-redo", "Redo since the checkpoint", Measure::Bytes, series, note)
    }

    fn recovery(&self) -> Timeline {
        Timeline {
            id: "recovery",
            title: "Recovery".to_owned(),
            note: "From the start of the new process.".to_owned(),
            phases: vec![
                ("until the database was open", self.opened_ms * 1000.0),
                ("to the first durable commit", self.first_transaction_ms * 1000.0),
                ("to the end of redo and reverts", self.full_recovery_ms * 1000.0),
            ],
        }
    }
}
