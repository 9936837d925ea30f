//! The result of a run on a server: the JSON object for other programs, and the table for people.
//! Its keys are those of a run on a database, where both have the figure.

use super::figures::{Binlog, Fsyncs, Machine, Pages, ServerFigures, Waits};
use super::observer::ServerObserver;
use super::sync_trace;
use crate::driver::Driven;
use crate::figures::Level;
use crate::result::{Checked, TableLines, WorkDone, parts, ratio, to_json};
use crate::workload::Shape;
use output::units::{show_count, show_micros, show_size};
use serde::Serialize;
use serde_json::Value;

/// The parameters of the run, which are part of the result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServerRequest {
    pub(crate) target: String,
    pub(crate) server: String,
    pub(crate) engine: String,
    pub(crate) schema: String,
    pub(crate) workload: String,
    pub(crate) threads: u32,
    /// Tables, rows and keys.
    #[serde(flatten)]
    pub(crate) shape: Shape,
    pub(crate) distribution: String,
    /// `None` is the server's own level.
    pub(crate) isolation: Option<String>,
    pub(crate) rate: Option<f64>,
}

impl ServerRequest {
    /// Returns what runs where, in a sentence; `length` follows the threads.
    pub(crate) fn lead(&self, length: &str) -> String {
        format!(
            "{} threads{length} on {}, engine {} of {} ({}).",
            self.threads, self.shape.text, self.engine, self.target, self.server
        )
    }
}

/// What a run found out outside of the measured phase.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Around {
    /// How long the load took; 0 if a finished load was reused.
    pub(crate) load_seconds: f64,
    /// What `trace-fsync` found, if the user asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sync_trace: Option<Value>,
    /// What the checks have found.
    #[serde(flatten)]
    pub(crate) checked: Checked,
}

/// Redo that was written.
#[derive(Clone, Copy, Debug, Serialize)]
struct Redo {
    redo_bytes: Option<u64>,
    redo_bytes_per_row_change: Option<f64>,
}

/// Redo between the checkpoint and the end of the log.
#[derive(Clone, Debug, Serialize)]
struct CheckpointAge {
    max: Option<u64>,
    mean: Option<u64>,
    limit: Option<u64>,
}

/// The result of a run. Every number covers only the measured phase; those of the engine are
/// unknown if the server does not show them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServerResult {
    version: &'static str,
    #[serde(flatten)]
    request: ServerRequest,
    #[serde(flatten)]
    work: WorkDone,
    #[serde(flatten)]
    redo: Redo,
    #[serde(flatten)]
    pages: Pages,
    #[serde(flatten)]
    machine: Machine,
    fsyncs: Fsyncs,
    commits_per_fsync: Option<f64>,
    checkpoint_age_bytes: CheckpointAge,
    #[serde(flatten)]
    waits: Waits,
    binlog: Binlog,
    #[serde(flatten)]
    around: Around,
}

impl ServerResult {
    /// Makes the result of a run.
    pub(crate) fn new(
        request: ServerRequest,
        driven: &Driven,
        observer: &ServerObserver,
        around: Around,
    ) -> ServerResult {
        ServerResult::of(request, driven, observer.figures(), around)
    }

    fn of(request: ServerRequest, driven: &Driven, figures: ServerFigures, around: Around) -> ServerResult {
        let Driven { totals, age, .. } = driven;
        let bytes = figures.redo_bytes;
        ServerResult {
            version: env!("CARGO_PKG_VERSION"),
            request,
            work: WorkDone::of(totals),
            redo: Redo {
                redo_bytes: bytes,
                redo_bytes_per_row_change: bytes.and_then(|bytes| ratio(bytes, totals.row_changes)),
            },
            pages: figures.pages,
            machine: figures.machine,
            fsyncs: figures.fsyncs,
            commits_per_fsync: figures.fsyncs.total.and_then(|fsyncs| ratio(totals.transactions, fsyncs)),
            checkpoint_age_bytes: CheckpointAge {
                max: known(age, Level::max),
                mean: known(age, Level::mean),
                limit: figures.checkpoint_age_limit,
            },
            waits: figures.waits,
            binlog: figures.binlog,
            around,
        }
    }

    /// Returns the JSON object.
    pub(crate) fn json(&self) -> String {
        to_json(self)
    }

    /// Returns what the clients did.
    pub(crate) fn work(&self) -> &WorkDone {
        &self.work
    }

    /// Returns what is wrong with the tables, if anything is.
    pub(crate) fn fault(&self) -> Option<String> {
        self.around.checked.fault()
    }

    /// Returns how many commits shared a sync, and how many syncs there were, if that is known.
    pub(crate) fn commits_per_fsync(&self) -> Option<(f64, u64)> {
        self.commits_per_fsync.zip(self.fsyncs.total)
    }

    /// Returns the title of a report.
    pub(crate) fn title(&self) -> String {
        format!("{}, {}", self.request.engine, self.request.workload)
    }

    /// Returns what ran where, in a sentence.
    pub(crate) fn lead(&self) -> String {
        let length = format!(" for {:.0} s", self.work.seconds);
        self.request.lead(&length)
    }

    /// Returns the final table.
    pub(crate) fn table(&self) -> String {
        self.lines_of_table().text()
    }

    /// Returns the lines of the final table, each with its label.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        self.lines_of_table().0
    }

    fn lines_of_table(&self) -> TableLines {
        let mut out = TableLines::default();
        self.add_setup(&mut out);
        self.work.add_to(&mut out);
        self.add_writes(&mut out);
        self.add_waits(&mut out);
        self.around.checked.add_to(&mut out);
        out
    }

    fn add_setup(&self, out: &mut TableLines) {
        let request = &self.request;
        out.line("target", format!("{}   {}   engine {}", request.target, request.server, request.engine));
        let workload = format!("{}, {} threads, {}", request.workload, request.threads, request.shape.text);
        out.line("workload", workload);
        let load = match self.around.load_seconds {
            0.0 => String::new(),
            seconds => format!(" after a load of {seconds:.1} s"),
        };
        out.line("measured", format!("{:.2} s{load}", self.work.seconds));
    }

    fn add_writes(&self, out: &mut TableLines) {
        if let Some(bytes) = self.redo.redo_bytes {
            let each = self.redo.redo_bytes_per_row_change;
            let each = each.map_or(String::new(), |each| format!("   {each:.0} bytes a row change"));
            out.line("redo", format!("{}{each}", show_size(bytes as f64)));
        }
        if let Some(total) = self.fsyncs.total {
            let of_log =
                self.fsyncs.log.map_or(String::new(), |n| format!("   log {}", show_count(n as f64)));
            let each = self.commits_per_fsync.map_or(String::new(), |n| format!("   {n:.1} commits each"));
            out.line("fsyncs", format!("{}{of_log}{each}", show_count(total as f64)));
        }
        if let Some(trace) = &self.around.sync_trace {
            out.line("syncs traced", sync_trace::line(trace));
        }
        if let Some(commits) = self.binlog.commits {
            let groups = self.binlog.group_commits.unwrap_or(0);
            let each = ratio(commits, groups).map_or(String::new(), |n| format!("   {n:.1} commits each"));
            let bytes = show_size(self.binlog.bytes.unwrap_or(0) as f64);
            out.line("binary log", format!("{bytes}   {} groups{each}", show_count(groups as f64)));
        }
        if let Some(pages) = self.pages.pages_written.total {
            let copies = self
                .pages
                .doublewrite_pages
                .map_or(String::new(), |pages| format!("   doublewrite {}", show_count(pages as f64)));
            let forces = parts(&self.pages.pages_written.by_force);
            out.line("pages written", format!("{}{copies}   {forces}", show_count(pages as f64)));
        }
        if let Some(bytes) = self.machine.device_write_bytes {
            out.line("device writes", show_size(bytes as f64));
        }
        if let Some(us) = self.machine.processor_us {
            let busy = us as f64 / 1e6 / self.work.seconds.max(0.001);
            out.line("processors", format!("{busy:.2} busy with the server's process"));
        }
    }

    fn add_waits(&self, out: &mut TableLines) {
        let age = &self.checkpoint_age_bytes;
        if let Some((max, mean)) = age.max.zip(age.mean) {
            let limit =
                age.limit.map_or(String::new(), |limit| format!("   limit {}", show_size(limit as f64)));
            out.line(
                "checkpoint age",
                format!("max {}   mean {}{limit}", show_size(max as f64), show_size(mean as f64)),
            );
        }
        let counts = [
            ("hard waits", self.waits.hard_waits),
            ("free-frame waits", self.waits.free_frame_waits),
            ("lock waits", self.waits.lock_waits),
            ("deadlocks", self.waits.deadlocks),
        ];
        let mut waits: Vec<String> = counts
            .iter()
            .filter_map(|(name, n)| n.map(|n| format!("{name} {}", show_count(n as f64))))
            .collect();
        if let Some(us) = self.waits.throttled_us_total {
            waits.insert(0, format!("throttled {}", show_micros(us as f64)));
        }
        if !waits.is_empty() {
            out.line("delays", waits.join("   "));
        }
    }
}

/// Returns a figure of the samples, if there are any.
fn known(level: &Level, of: impl Fn(&Level) -> u64) -> Option<u64> {
    (!level.is_empty()).then(|| of(level))
}

#[cfg(test)]
mod tests;
