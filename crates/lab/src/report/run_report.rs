//! The report of `millpond run`: its plots, tables and texts.

use super::histogram::Histogram;
use super::work::{WorkReport, headline};
use crate::driver::Measured;
use crate::result::RunResult;
use output::report::axis::Measure;
use output::report::chart::{Chart, ChartStyle, Series};
use output::report::page::{Headline, Origin, Page, Table, columns};
use output::report::plot::Plot;
use output::report::{PAGE, svg};
use output::samples::{Point, Samples};
use output::units::{show_count, show_micros, show_size};

/// How many members of a family a plot shows; all others are added up as one more.
const MEMBERS: usize = svg::LOOKS - 1;

/// The data of a run report.
#[derive(Debug)]
pub(crate) struct RunReport<'a> {
    /// What was measured.
    pub(crate) measured: &'a Measured,
    /// The result of `--json`.
    pub(crate) result: &'a RunResult,
    /// How the report was made.
    pub(crate) origin: Origin,
}

impl RunReport<'_> {
    /// Returns the files of the report by name. The page is the last one, so it names only files
    /// that exist.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let charts = self.charts();
        let histogram = self.work().histogram();
        let mut files: Vec<(String, String)> = charts.iter().map(Plot::file).collect();
        files.push(histogram.file());
        files.push(("samples.json".to_owned(), self.measured.samples.json()));
        files.push(("samples.csv".to_owned(), self.measured.samples.csv()));
        let page =
            self.page(&charts, &histogram, &files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
        files.push((PAGE.to_owned(), page));
        files
    }

    fn page(&self, charts: &[Chart], histogram: &Histogram, files: &[String]) -> String {
        let (request, result) = (&self.result.request, self.result);
        let lead = format!(
            "{} threads for {:.0} s on {}, {}.",
            request.threads,
            result.work.seconds,
            request.shape.text,
            request.commits()
        );
        let mut page = Page::new(&format!("Millpond, {}", request.workload), &lead);
        if let Some(fault) = result.checked.fault() {
            page.warning(&format!("The check after the run found damage: {fault}"));
        }
        if request.ephemeral {
            page.warning("The database was in the process's own memory: nothing was durable, and it ended with the run.");
        } else if !result.durable_device {
            page.warning(
                "The database was on a memory file system: a sync costs nothing there, and nothing survives a power cut.",
            );
        }
        page.headlines(&self.headlines());
        page.section("Over time");
        page.paragraph(
            "One sample a second. All plots share the time axis; each value is shown at the end of its second.",
        );
        for chart in charts {
            page.chart(chart);
            if chart.id == "latency" {
                page.still(histogram);
            }
        }
        page.section("Syncs by reason and file");
        page.table(&self.fsync_table());
        page.section("Page writes by cause");
        page.table(&self.page_write_table());
        page.section("Summary");
        page.facts(&result.lines());
        page.origin(&self.origin, files);
        page.finish(&format!(
            "Millpond {}. Every number covers only the measured phase.",
            env!("CARGO_PKG_VERSION")
        ))
    }

    fn headlines(&self) -> Vec<Headline> {
        let result = self.result;
        let mut out = self.work().headlines();
        if let Some(commits) = result.commits_per_fsync {
            let rate = rate(result.fsyncs.total as f64, result.work.seconds);
            out.push(headline(
                "commits per fsync",
                format!("{commits:.1}"),
                format!("{} fsyncs/s", show_count(rate)),
            ));
        }
        if let Some(bytes) = result.redo_bytes_per_row_change {
            let rate = rate(result.redo_bytes as f64, result.work.seconds);
            out.push(headline(
                "redo per row change",
                format!("{bytes:.0} bytes"),
                format!("{}/s", show_size(rate)),
            ));
        }
        let share = rate(
            result.throttled_us_total as f64,
            result.work.seconds * 1e4 * f64::from(result.request.threads),
        );
        out.push(headline(
            "writers delayed",
            if share > 0.0 && share < 0.1 { "under 0.1 %".to_owned() } else { format!("{share:.1} %") },
            format!("of their time; {} hard waits", result.hard_waits),
        ));
        out
    }

    fn charts(&self) -> Vec<Chart> {
        let charts = [
            self.work().throughput(),
            self.work().latency(),
            self.checkpoint_age(),
            self.buffer_pool(),
            self.redo(),
            self.stack(
                "page-writes",
                "Page writes",
                "pages/s",
                "pages_written_by_force",
                self.page_write_note(),
            ),
            self.stack("fsyncs", "Syncs", "fsyncs/s", "fsyncs_by_reason", self.fsync_note()),
            self.commits_per_fsync(),
            self.throttling(),
            self.device_writes(),
        ];
        charts.into_iter().map(|chart| chart.thinned(svg::POINTS)).collect()
    }

    fn samples(&self) -> &Samples {
        &self.measured.samples
    }

    fn work(&self) -> WorkReport<'_> {
        WorkReport { work: &self.result.work, totals: &self.measured.totals, samples: &self.measured.samples }
    }

    fn chart(&self, id: &'static str, title: &str, measure: Measure, series: Vec<Series>) -> Chart {
        self.work().chart(id, title, measure, series)
    }

    fn checkpoint_age(&self) -> Chart {
        let level = |name| self.samples().level(name);
        let series = vec![
            Series::new("checkpoint age", level("checkpoint_age_bytes")),
            Series::limit("target", level("checkpoint_age_target")),
            Series::limit("soft limit", level("checkpoint_age_soft")),
            Series::limit("limit", level("checkpoint_age_limit")),
            Series::limit("capacity", level("redo_capacity_bytes")),
        ];
        let greatest = series[0].greatest().unwrap_or(0.0);
        let note = format!(
            "Redo that recovery would read after a crash: at most {}. The cleaner aims at the target. Above the soft limit, new row operations are delayed; at the limit writers wait.",
            show_size(greatest)
        );
        Chart { note, ..self.chart("checkpoint-age", "Checkpoint age", Measure::Bytes, series) }
            .without_far_limits()
    }

    fn buffer_pool(&self) -> Chart {
        let level = |name| self.samples().level(name);
        let (frames, dirty) = (level("buffer_frames"), level("dirty_pages"));
        // The metrics are not read at the same instant, so the free frames are limited to those
        // that are not dirty.
        let rest: Vec<Point> = frames.iter().zip(&dirty).map(|(all, dirty)| minus(*all, *dirty)).collect();
        let free: Vec<Point> = rest
            .iter()
            .zip(level("free_frames"))
            .map(|(rest, free)| (rest.0, rest.1.zip(free.1).map(|(rest, free)| free.min(rest))))
            .collect();
        let clean = rest.iter().zip(&free).map(|(rest, free)| minus(*rest, *free)).collect();
        let series =
            vec![Series::new("dirty", dirty), Series::new("clean", clean), Series::new("free", free)];
        let waits = self.result.free_frame_waits;
        let note = match waits {
            0 => "Frames of the pool by their contents; no thread waited for a free one.".to_owned(),
            n => format!(
                "Frames of the pool by their contents; {} waits for a free one.",
                show_count(n as f64)
            ),
        };
        Chart {
            style: ChartStyle::Stacked,
            note,
            ..self.chart("buffer-pool", "Buffer pool", Measure::Count("pages"), series)
        }
    }

    fn redo(&self) -> Chart {
        let rate = |label, name| Series::new(label, self.samples().rate(name));
        let series = vec![rate("records", "redo_bytes_written"), rate("pads", "redo_pad_bytes")];
        let note = match self.result.redo_bytes_per_row_change {
            Some(bytes) => format!(
                "{bytes:.0} bytes of records for each row change. Pads fill blocks, so no two flushes write the same block."
            ),
            None => "Pads fill blocks, so no two flushes write the same block.".to_owned(),
        };
        Chart { note, ..self.chart("redo", "Redo written", Measure::BytesPerSecond, series) }
    }

    /// Makes a stacked plot of the members of a family that grew; the largest is at the bottom.
    fn stack(&self, id: &'static str, title: &str, unit: &'static str, family: &str, note: String) -> Chart {
        let mut series: Vec<Series> = Vec::new();
        for (label, _) in self.samples().moved(family) {
            let points = self.samples().rate(&format!("{family}.{label}"));
            match series.get_mut(MEMBERS) {
                None => series.push(Series::new(label.replace('_', " "), points)),
                Some(rest) => {
                    "others".clone_into(&mut rest.label);
                    for (sum, part) in rest.points.iter_mut().zip(points) {
                        sum.1 = sum.1.zip(part.1).map(|(sum, part)| sum + part);
                    }
                }
            }
        }
        if series.is_empty() {
            let first = self.samples().rate(if id == "fsyncs" { "fsyncs" } else { "pages_written" });
            series.push(Series::new("none", first));
        }
        Chart { style: ChartStyle::Stacked, note, ..self.chart(id, title, Measure::Count(unit), series) }
    }

    fn page_write_note(&self) -> String {
        let result = self.result;
        match result.pages_written.total {
            0 => "No page was written.".to_owned(),
            total => format!(
                "By cause: {} pages in {} I/Os, {} of them by callers' threads.",
                show_count(total as f64),
                show_count(result.page_writes_io as f64),
                show_count(result.pages_written.foreground as f64)
            ),
        }
    }

    fn fsync_note(&self) -> String {
        match self.result.fsyncs.total {
            0 => "Nothing was synced.".to_owned(),
            total => format!("By reason: {} in all.", show_count(total as f64)),
        }
    }

    fn commits_per_fsync(&self) -> Chart {
        let points = self.samples().ratio("run_transactions", Some("fsyncs"));
        let note = match self.result.commits_per_fsync {
            Some(mean) => {
                format!("How many transactions shared a sync: {mean:.1} over the whole run; all syncs count.")
            }
            None => "Nothing was synced.".to_owned(),
        };
        let series = vec![Series::new("commits", points)];
        Chart {
            note,
            ..self.chart("commits-per-fsync", "Commits per fsync", Measure::Count("commits/fsync"), series)
        }
    }

    fn throttling(&self) -> Chart {
        let series = vec![Series::new("delay", self.samples().rate("throttled_us_total"))];
        let total = self.result.throttled_us_total;
        let note = match total {
            0 => "No writer was delayed.".to_owned(),
            _ => format!(
                "How long writers were delayed, all {} threads together: {} over the whole run; {} hard waits.",
                self.result.request.threads,
                show_micros(total as f64),
                self.result.hard_waits
            ),
        };
        Chart { note, ..self.chart("throttling", "Delay of writers", Measure::MicrosPerSecond, series) }
    }

    fn device_writes(&self) -> Chart {
        let series = vec![
            Series::new("device", self.samples().rate("device_write_bytes")),
            Series::new("redo records", self.samples().rate("redo_bytes_written")),
        ];
        let total = self.result.device_write_bytes;
        let note = match total {
            Some(bytes) => format!(
                "Everything that this process sent to the device, as the kernel counts it: {}.",
                show_size(bytes as f64)
            ),
            None => "The kernel does not count what this process sent to the device.".to_owned(),
        };
        Chart { note, ..self.chart("device-writes", "Device writes", Measure::BytesPerSecond, series) }
    }

    fn fsync_table(&self) -> Table {
        let mut rows: Vec<_> = self.measured.figures.fsync_rows.iter().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.took.count()));
        let rows = rows.into_iter().map(|row| {
            let count = row.took.count();
            vec![
                row.reason.label().replace('_', " "),
                row.file.label().to_owned(),
                show_count(count as f64),
                format!("{:.1}", rate(count as f64, self.result.work.seconds)),
                show_micros(row.took.sum_us() as f64 / count.max(1) as f64),
                show_micros(row.took.quantile(0.99) as f64),
                show_micros(row.took.max_us() as f64),
                show_count(row.waiters as f64),
                format!("{:.1}", row.waiters as f64 / count.max(1) as f64),
            ]
        });
        Table {
            caption: "Waiters are the threads that waited for a sync, in all and for each sync.".to_owned(),
            names: 2,
            columns: columns(&[
                "reason", "file", "count", "a second", "mean", "p99", "longest", "waiters", "each",
            ]),
            rows: rows.collect(),
        }
    }

    fn page_write_table(&self) -> Table {
        let figures = &self.measured.figures;
        let mut causes: Vec<_> = figures.pages_written_by_force.iter().collect();
        causes.sort_by_key(|(_, pages)| std::cmp::Reverse(**pages));
        let row = |name: String, pages: u64, ios: u64| {
            vec![
                name,
                show_count(pages as f64),
                show_count(ios as f64),
                format!("{:.1}", pages as f64 / ios.max(1) as f64),
            ]
        };
        let mut rows: Vec<_> = causes
            .into_iter()
            .map(|(force, pages)| {
                let ios = figures.page_writes_io_by_force.get(force).copied().unwrap_or(0);
                row(force.replace('_', " "), *pages, ios)
            })
            .collect();
        rows.push(row("all".to_owned(), figures.pages_written, figures.page_writes_io));
        Table {
            caption: format!(
                "Pages written in place; {} page images were first written to the doublewrite.",
                show_count(figures.doublewrite_pages as f64)
            ),
            names: 1,
            columns: columns(&["cause", "pages", "I/Os", "pages per I/O"]),
            rows,
        }
    }
}

/// Subtracts a value from another; the result is at least 0.
fn minus((t, whole): Point, (_, part): Point) -> Point {
    (t, whole.zip(part).map(|(whole, part)| (whole - part).max(0.0)))
}

fn rate(amount: f64, over: f64) -> f64 {
    if over > 0.0 { amount / over } else { 0.0 }
}
