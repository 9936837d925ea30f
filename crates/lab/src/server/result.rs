//! The result of a run on a server: the JSON object for other programs, and the table for people.
//! Its keys are those of a run on a database, where both have the figure.

use super::figures::ServerFigures;
use super::observer::ServerObserver;
use crate::driver::Driven;
use crate::figures::Level;
use crate::result::{Latency, TableLines, parts, ratio, rounded, steadiness, to_json};
use output::units::{show_count, show_micros, show_size};
use serde::Serialize;
use std::collections::BTreeMap;

/// The parameters of the run, which are part of the result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServerRequest {
    pub(crate) target: String,
    pub(crate) server: String,
    pub(crate) engine: String,
    pub(crate) schema: String,
    pub(crate) workload: String,
    pub(crate) threads: u32,
    pub(crate) tables: u32,
    pub(crate) rows: u32,
    /// Tables, rows and keys, for people.
    #[serde(skip)]
    pub(crate) shape: String,
    pub(crate) distribution: String,
    /// `None` is the server's own level.
    pub(crate) isolation: Option<String>,
    pub(crate) rate: Option<f64>,
}

/// What a run found out outside of the measured phase.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    /// How long the load took; 0 if a finished load was reused.
    pub(crate) load_seconds: f64,
    /// "ok", or what is wrong with the tables.
    pub(crate) check: String,
}

/// Pages written.
#[derive(Clone, Debug, Serialize)]
struct PagesWritten {
    total: Option<u64>,
    by_force: BTreeMap<String, u64>,
}

/// Syncs of the engine's files.
#[derive(Clone, Debug, Serialize)]
struct Fsyncs {
    total: Option<u64>,
    log: Option<u64>,
}

/// Redo between the checkpoint and the end of the log.
#[derive(Clone, Debug, Serialize)]
struct CheckpointAge {
    max: Option<u64>,
    mean: Option<u64>,
    limit: Option<u64>,
}

/// The binary log.
#[derive(Clone, Debug, Serialize)]
struct Binlog {
    commits: Option<u64>,
    group_commits: Option<u64>,
    bytes: Option<u64>,
}

/// The result of a run. Every number covers only the measured phase; those of the engine are
/// unknown if the server does not show them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ServerResult {
    version: &'static str,
    #[serde(flatten)]
    pub(crate) request: ServerRequest,
    pub(crate) seconds: f64,
    pub(crate) transactions: u64,
    pub(crate) tps: f64,
    pub(crate) tps_per_second: Vec<u64>,
    pub(crate) latency_us: Latency,
    retries: u64,
    errors: BTreeMap<String, u64>,
    row_changes: u64,
    redo_bytes: Option<u64>,
    redo_bytes_per_row_change: Option<f64>,
    pages_read: Option<u64>,
    pages_written: PagesWritten,
    doublewrite_pages: Option<u64>,
    device_write_bytes: Option<u64>,
    fsyncs: Fsyncs,
    commits_per_fsync: Option<f64>,
    checkpoint_age_bytes: CheckpointAge,
    throttled_us_total: Option<u64>,
    hard_waits: Option<u64>,
    free_frame_waits: Option<u64>,
    lock_waits: Option<u64>,
    deadlocks: Option<u64>,
    binlog: Binlog,
    load_seconds: f64,
    pub(crate) check: String,
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
        let tps = if totals.seconds > 0.0 { totals.transactions as f64 / totals.seconds } else { 0.0 };
        let redo_bytes_per_row_change = figures.redo_bytes.and_then(|bytes| ratio(bytes, totals.row_changes));
        ServerResult {
            version: env!("CARGO_PKG_VERSION"),
            request,
            seconds: totals.seconds,
            transactions: totals.transactions,
            tps: rounded(tps, 2),
            tps_per_second: totals.per_second.clone(),
            latency_us: Latency::of(totals),
            retries: totals.retries,
            errors: totals.errors.iter().map(|(kind, n)| ((*kind).to_owned(), *n)).collect(),
            row_changes: totals.row_changes,
            redo_bytes: figures.redo_bytes,
            redo_bytes_per_row_change,
            pages_read: figures.pages_read,
            pages_written: PagesWritten {
                total: figures.pages_written,
                by_force: figures.pages_written_by_force,
            },
            doublewrite_pages: figures.doublewrite_pages,
            device_write_bytes: figures.device_write_bytes,
            commits_per_fsync: figures.fsyncs.and_then(|fsyncs| ratio(totals.transactions, fsyncs)),
            fsyncs: Fsyncs { total: figures.fsyncs, log: figures.log_fsyncs },
            checkpoint_age_bytes: CheckpointAge {
                max: known(age, Level::max),
                mean: known(age, Level::mean),
                limit: figures.checkpoint_age_limit,
            },
            throttled_us_total: figures.throttled_us_total,
            hard_waits: figures.hard_waits,
            free_frame_waits: figures.free_frame_waits,
            lock_waits: figures.lock_waits,
            deadlocks: figures.deadlocks,
            binlog: Binlog {
                commits: figures.binlog_commits,
                group_commits: figures.binlog_group_commits,
                bytes: figures.binlog_bytes,
            },
            load_seconds: rounded(around.load_seconds, 3),
            check: around.check,
        }
    }

    /// Returns the JSON object.
    pub(crate) fn json(&self) -> String {
        to_json(self)
    }

    /// Returns the final table.
    pub(crate) fn table(&self) -> String {
        let mut out = TableLines::default();
        self.add_setup(&mut out);
        self.add_transactions(&mut out);
        self.add_writes(&mut out);
        self.add_waits(&mut out);
        out.line("check", self.check.clone());
        out.text()
    }

    fn add_setup(&self, out: &mut TableLines) {
        let request = &self.request;
        out.line("target", format!("{}   {}   engine {}", request.target, request.server, request.engine));
        let workload = format!("{}, {} threads, {}", request.workload, request.threads, request.shape);
        out.line("workload", workload);
        let load = match self.load_seconds {
            0.0 => String::new(),
            seconds => format!(" after a load of {seconds:.1} s"),
        };
        out.line("measured", format!("{:.2} s{load}", self.seconds));
    }

    fn add_transactions(&self, out: &mut TableLines) {
        let (transactions, tps) = (show_count(self.transactions as f64), show_count(self.tps));
        let retries = show_count(self.retries as f64);
        out.line(
            "transactions",
            format!("{transactions}   {tps} a second   {retries} retries   {}", parts(&self.errors)),
        );
        if let Some(steady) = steadiness(&self.tps_per_second) {
            out.line("steadiness", steady);
        }
        out.line("latency", self.latency_us.show());
        let rate = if self.seconds > 0.0 { self.row_changes as f64 / self.seconds } else { 0.0 };
        let changes = show_count(self.row_changes as f64);
        out.line("row changes", format!("{changes}   {} a second", show_count(rate)));
    }

    fn add_writes(&self, out: &mut TableLines) {
        if let Some(bytes) = self.redo_bytes {
            let each = self.redo_bytes_per_row_change;
            let each = each.map_or(String::new(), |each| format!("   {each:.0} bytes a row change"));
            out.line("redo", format!("{}{each}", show_size(bytes as f64)));
        }
        if let Some(total) = self.fsyncs.total {
            let of_log =
                self.fsyncs.log.map_or(String::new(), |n| format!("   log {}", show_count(n as f64)));
            let each = self.commits_per_fsync.map_or(String::new(), |n| format!("   {n:.1} commits each"));
            out.line("fsyncs", format!("{}{of_log}{each}", show_count(total as f64)));
        }
        if let Some(commits) = self.binlog.commits {
            let groups = self.binlog.group_commits.unwrap_or(0);
            let each = ratio(commits, groups).map_or(String::new(), |n| format!("   {n:.1} commits each"));
            let bytes = show_size(self.binlog.bytes.unwrap_or(0) as f64);
            out.line("binary log", format!("{bytes}   {} groups{each}", show_count(groups as f64)));
        }
        if let Some(pages) = self.pages_written.total {
            let copies = self
                .doublewrite_pages
                .map_or(String::new(), |pages| format!("   doublewrite {}", show_count(pages as f64)));
            let forces = parts(&self.pages_written.by_force);
            out.line("pages written", format!("{}{copies}   {forces}", show_count(pages as f64)));
        }
        if let Some(bytes) = self.device_write_bytes {
            out.line("device writes", show_size(bytes as f64));
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
            ("hard waits", self.hard_waits),
            ("free-frame waits", self.free_frame_waits),
            ("lock waits", self.lock_waits),
            ("deadlocks", self.deadlocks),
        ];
        let mut waits: Vec<String> = counts
            .iter()
            .filter_map(|(name, n)| n.map(|n| format!("{name} {}", show_count(n as f64))))
            .collect();
        if let Some(us) = self.throttled_us_total {
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
