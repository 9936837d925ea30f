//! The result of a run: the JSON object for other programs, and the table for people.

use crate::by_transaction::ByTransaction;
use crate::driver::Measured;
use crate::measurements::Totals;
use crate::steadiness::Steadiness;
use crate::workload::Shape;
use crate::workload::tpcc::Condition;
use output::units::{show_count, show_micros, show_size};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Latency in microseconds, from the begin to the return of the commit, including retries.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl Latency {
    /// Takes the percentiles of all threads together.
    pub(crate) fn of(totals: &Totals) -> Latency {
        Latency {
            p50: totals.latency_us(50.0),
            p95: totals.latency_us(95.0),
            p99: totals.latency_us(99.0),
            p999: totals.latency_us(99.9),
            max: totals.latency_max_us(),
        }
    }

    /// Returns the percentiles for people.
    pub(crate) fn show(&self) -> String {
        format!(
            "p50 {}   p95 {}   p99 {}   p99.9 {}   max {}",
            show_micros(self.p50),
            show_micros(self.p95),
            show_micros(self.p99),
            show_micros(self.p999),
            show_micros(self.max)
        )
    }
}

/// Pages written in place.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PagesWritten {
    pub(crate) total: u64,
    pub(crate) foreground: u64,
    pub(crate) by_force: BTreeMap<String, u64>,
}

/// Syncs of all files.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fsyncs {
    pub(crate) total: u64,
    pub(crate) by_reason: BTreeMap<String, u64>,
    pub(crate) by_file: BTreeMap<String, u64>,
}

/// Redo between the checkpoint and the end of the log.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CheckpointAge {
    pub(crate) max: u64,
    pub(crate) mean: u64,
    pub(crate) limit: u64,
}

/// The parameters of the run, which are part of the result.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Request {
    pub(crate) workload: String,
    pub(crate) threads: u32,
    /// Tables, rows and keys.
    #[serde(flatten)]
    pub(crate) shape: Shape,
    pub(crate) distribution: String,
    pub(crate) durability: String,
    /// In memory: no commit is durable, whatever `durability` says.
    pub(crate) ephemeral: bool,
    pub(crate) isolation: String,
    pub(crate) page_bytes: u32,
    pub(crate) pool_bytes: u64,
    pub(crate) law: String,
    pub(crate) rate: Option<f64>,
}

impl Request {
    /// Returns the durability of the commits, for people.
    pub(crate) fn commits(&self) -> String {
        format!("{} commits{}", self.durability, if self.ephemeral { " in memory" } else { "" })
    }
}

/// What the threads of a run did.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WorkDone {
    pub(crate) seconds: f64,
    pub(crate) transactions: u64,
    pub(crate) tps: f64,
    pub(crate) tps_per_second: Vec<u64>,
    pub(crate) latency_us: Latency,
    pub(crate) retries: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) row_changes: u64,
    #[serde(flatten)]
    pub(crate) by_transaction: ByTransaction,
}

impl WorkDone {
    /// Takes what all threads measured.
    pub(crate) fn of(totals: &Totals) -> WorkDone {
        let tps = if totals.seconds > 0.0 { totals.transactions as f64 / totals.seconds } else { 0.0 };
        WorkDone {
            seconds: totals.seconds,
            transactions: totals.transactions,
            tps: rounded(tps, 2),
            tps_per_second: totals.per_second.clone(),
            latency_us: Latency::of(totals),
            retries: totals.retries,
            errors: totals.errors.iter().map(|(kind, n)| ((*kind).to_owned(), *n)).collect(),
            row_changes: totals.row_changes,
            by_transaction: ByTransaction::of(totals),
        }
    }

    /// Adds its lines to a table.
    pub(crate) fn add_to(&self, out: &mut TableLines) {
        out.line(
            "transactions",
            format!(
                "{}   {} a second   {} retries   {}",
                show_count(self.transactions as f64),
                show_count(self.tps),
                show_count(self.retries as f64),
                parts(&self.errors)
            ),
        );
        if let Some(steady) = show_steadiness(&self.tps_per_second) {
            out.line("steadiness", steady);
        }
        out.line("latency", self.latency_us.show());
        if let Some(tpmc) = self.by_transaction.tpmc {
            out.line("tpmC", format!("{} new orders committed a minute", show_count(tpmc)));
        }
        for (name, one) in &self.by_transaction.all {
            out.line(name, one.show());
        }
        let rate = if self.seconds > 0.0 { self.row_changes as f64 / self.seconds } else { 0.0 };
        let changes = show_count(self.row_changes as f64);
        out.line("row changes", format!("{changes}   {} a second", show_count(rate)));
    }
}

/// The result of a run. Every number covers only the measured phase.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunResult {
    pub(crate) version: &'static str,
    #[serde(flatten)]
    pub(crate) request: Request,
    #[serde(flatten)]
    pub(crate) work: WorkDone,
    pub(crate) redo_bytes: u64,
    pub(crate) redo_pad_bytes: u64,
    pub(crate) redo_bytes_per_row_change: Option<f64>,
    pub(crate) pages_written: PagesWritten,
    pub(crate) page_writes_io: u64,
    pub(crate) doublewrite_pages: u64,
    pub(crate) device_write_bytes: Option<u64>,
    pub(crate) fsyncs: Fsyncs,
    pub(crate) commits_per_fsync: Option<f64>,
    pub(crate) checkpoint_age_bytes: CheckpointAge,
    pub(crate) throttled_us_total: u64,
    pub(crate) hard_waits: u64,
    pub(crate) free_frame_waits: u64,
    pub(crate) recovery_ms: u64,
    pub(crate) load_seconds: f64,
    pub(crate) durable_device: bool,
    pub(crate) direct_io: bool,
    pub(crate) io_uring: bool,
    #[serde(flatten)]
    pub(crate) checked: Checked,
}

/// What the checks after a run have found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Checked {
    /// "ok", or what is wrong with the database.
    pub(crate) check: String,
    /// The conditions of the workload, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) consistency: Option<Vec<Condition>>,
}

impl Checked {
    /// Returns what is wrong first; `None` if all is well.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.check != "ok" {
            return Some(self.check.clone());
        }
        broken(self.consistency.as_deref().unwrap_or_default())
    }

    /// Adds its lines to a table.
    pub(crate) fn add_to(&self, out: &mut TableLines) {
        out.line("check", self.check.clone());
        if let Some(conditions) = &self.consistency {
            let all = || format!("all {} conditions of clause 3.3.2 hold", conditions.len());
            out.line("consistency", broken(conditions).unwrap_or_else(all));
        }
    }
}

/// Names all conditions that do not hold, each with its first violation; `None` if all hold.
pub(crate) fn broken(conditions: &[Condition]) -> Option<String> {
    let broken = conditions.iter().filter(|condition| !condition.ok);
    let texts: Vec<String> = broken
        .map(|one| format!("condition {}: {}", one.condition, one.found.as_deref().unwrap_or("broken")))
        .collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// What a run found out outside of the measured phase.
#[derive(Clone, Debug)]
pub(crate) struct RunContext {
    /// How long the load took; 0 if a finished load was reused.
    pub(crate) load_seconds: f64,
    /// The directory is on a disk.
    pub(crate) durable_device: bool,
    /// What the checks have found.
    pub(crate) checked: Checked,
}

/// Returns a quotient with two places; `None` if the divisor is 0.
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| rounded(part as f64 / whole as f64, 2))
}

/// Returns a value with so many places.
pub(crate) fn rounded(value: f64, places: i32) -> f64 {
    let factor = 10f64.powi(places);
    (value * factor).round() / factor
}

impl RunResult {
    /// Makes the result from its parts.
    pub(crate) fn new(request: Request, measured: &Measured, around: RunContext) -> RunResult {
        let Measured { totals, figures, age, .. } = measured;
        RunResult {
            version: env!("CARGO_PKG_VERSION"),
            request,
            work: WorkDone::of(totals),
            redo_bytes: figures.redo_bytes,
            redo_pad_bytes: figures.redo_pad_bytes,
            redo_bytes_per_row_change: ratio(figures.redo_bytes, totals.row_changes),
            pages_written: PagesWritten {
                total: figures.pages_written,
                foreground: figures.pages_written_foreground,
                by_force: figures.pages_written_by_force.clone(),
            },
            page_writes_io: figures.page_writes_io,
            doublewrite_pages: figures.doublewrite_pages,
            device_write_bytes: figures.device_write_bytes,
            commits_per_fsync: ratio(totals.transactions, figures.fsyncs),
            fsyncs: Fsyncs {
                total: figures.fsyncs,
                by_reason: figures.fsyncs_by_reason.clone(),
                by_file: figures.fsyncs_by_file.clone(),
            },
            checkpoint_age_bytes: CheckpointAge {
                max: age.max(),
                mean: age.mean(),
                limit: figures.checkpoint_age_limit,
            },
            throttled_us_total: figures.throttled_us_total,
            hard_waits: figures.hard_waits,
            free_frame_waits: figures.free_frame_waits,
            recovery_ms: figures.recovery_ms,
            load_seconds: rounded(around.load_seconds, 3),
            durable_device: around.durable_device,
            direct_io: figures.direct_io,
            io_uring: figures.io_uring,
            checked: around.checked,
        }
    }

    /// Returns the JSON object.
    pub(crate) fn json(&self) -> String {
        to_json(self)
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
        self.add_flow_control(&mut out);
        self.checked.add_to(&mut out);
        out
    }

    fn add_setup(&self, out: &mut TableLines) {
        let request = &self.request;
        out.line(
            "workload",
            format!(
                "{}, {} threads, {}, {}",
                request.workload,
                request.threads,
                request.shape.text,
                request.commits()
            ),
        );
        if request.ephemeral {
            out.line(
                "device",
                "the process's own memory: nothing is durable, and all of it is gone by now".into(),
            );
        } else if !self.durable_device {
            out.line("device", "a memory file system: nothing here survives a power cut".into());
        }
        if !self.direct_io {
            out.line("files", "buffered, because this file system refuses direct I/O".into());
        }
        if !self.io_uring && !request.ephemeral {
            out.line("batches", "by threads, because io_uring is not to be had here".into());
        }
        let load = match self.load_seconds {
            0.0 => String::new(),
            seconds => format!(" after a load of {seconds:.1} s"),
        };
        out.line("measured", format!("{:.2} s{load}", self.work.seconds));
    }

    fn add_writes(&self, out: &mut TableLines) {
        let per_change =
            self.redo_bytes_per_row_change.map_or(String::new(), |b| format!("   {b:.0} bytes a row change"));
        out.line(
            "redo",
            format!(
                "{}{per_change}   pads {}",
                show_size(self.redo_bytes as f64),
                show_size(self.redo_pad_bytes as f64)
            ),
        );
        let per_sync = self.commits_per_fsync.map_or(String::new(), |n| format!("   {n:.1} commits each"));
        out.line(
            "fsyncs",
            format!("{}{per_sync}   {}", show_count(self.fsyncs.total as f64), parts(&self.fsyncs.by_reason)),
        );
        out.line(
            "pages written",
            format!(
                "{} in {} I/Os   {} by callers' threads   doublewrite {}   {}",
                show_count(self.pages_written.total as f64),
                show_count(self.page_writes_io as f64),
                show_count(self.pages_written.foreground as f64),
                show_count(self.doublewrite_pages as f64),
                parts(&self.pages_written.by_force)
            ),
        );
        if let Some(bytes) = self.device_write_bytes {
            out.line("device writes", show_size(bytes as f64));
        }
    }

    fn add_flow_control(&self, out: &mut TableLines) {
        if self.request.law != "millpond" {
            out.line("law", self.request.law.clone());
        }
        let age = &self.checkpoint_age_bytes;
        out.line(
            "checkpoint age",
            format!(
                "max {}   mean {}   limit {}",
                show_size(age.max as f64),
                show_size(age.mean as f64),
                show_size(age.limit as f64)
            ),
        );
        out.line(
            "delays",
            format!(
                "throttled {}   hard waits {}   free-frame waits {}",
                show_micros(self.throttled_us_total as f64),
                self.hard_waits,
                self.free_frame_waits
            ),
        );
        if self.recovery_ms > 0 {
            out.line("recovery", format!("{} ms when this run opened the database", self.recovery_ms));
        }
    }
}

/// Compares the worst second with the median one.
fn show_steadiness(per_second: &[u64]) -> Option<String> {
    let steady = Steadiness::of(per_second).filter(|steady| steady.seconds > 1)?;
    Some(format!(
        "worst second {} of median {} ({:.0} %)   seconds without commits {}",
        show_count(steady.worst as f64),
        show_count(steady.median as f64),
        steady.percent()?,
        steady.zero
    ))
}

/// Returns the members of a family, for people.
pub(crate) fn parts(members: &BTreeMap<String, u64>) -> String {
    let shown: Vec<_> =
        members.iter().map(|(label, n)| format!("{label} {}", show_count(*n as f64))).collect();
    if shown.is_empty() { String::new() } else { format!("({})", shown.join(", ")) }
}

/// Lines with a label each.
#[derive(Default)]
pub(crate) struct TableLines(pub(crate) Vec<(&'static str, String)>);

impl TableLines {
    /// Adds a line.
    pub(crate) fn line(&mut self, label: &'static str, text: String) {
        self.0.push((label, text.trim_end().to_owned()));
    }

    /// Returns the lines as text, `label   text`.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        for (label, text) in &self.0 {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{label:<15} {text}");
        }
        out
    }
}

/// Returns a result as JSON text for a file.
pub(crate) fn to_json(result: &impl Serialize) -> String {
    // Maps have string keys and numbers are finite, so this cannot fail.
    serde_json::to_string_pretty(result).unwrap_or_else(|e| format!("{{\"error\": \"{e}\"}}")) + "\n"
}

#[cfg(test)]
mod tests;
