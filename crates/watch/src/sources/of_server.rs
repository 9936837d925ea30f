//! From what a server answered to the figures of the schema: a pure mapping, the same for every
//! version. What a version does not have is named, with the reason.

use super::figures::{FIGURES, Figure, Origin, TextFigure, is_of_host, kind_of_status};
use super::host;
use super::limits::{Limits, LogSettings, limits};
use super::status_text::LogSection;
use client::Version;
use output::samples::{ColumnKind, Values};
use std::collections::BTreeMap;

/// What a server answered at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answers {
    /// Status variables, and `INNODB_METRICS` with `metric.` before the name, in lower case.
    pub(crate) values: BTreeMap<String, f64>,
    /// The section LOG of `SHOW ENGINE INNODB STATUS`, if it was asked for.
    pub(crate) log: Option<LogSection>,
}

/// What of a server does not change while it runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Facts {
    /// Whose server, and which version.
    pub(crate) version: Version,
    /// `SHOW GLOBAL VARIABLES`, in lower case.
    pub(crate) variables: BTreeMap<String, String>,
    /// Every metric of `INNODB_METRICS`, switched on or not, and whether it is a level.
    pub(crate) metrics: BTreeMap<String, MetricFact>,
    /// Why something could not be read, such as a missing privilege.
    pub(crate) refusals: Vec<String>,
}

/// What is known of a metric of `INNODB_METRICS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MetricFact {
    /// It counts now.
    pub(crate) enabled: bool,
    /// Level or counter.
    pub(crate) kind: ColumnKind,
}

impl Facts {
    fn number(&self, name: &str) -> Option<u64> {
        self.variables.get(name)?.parse().ok()
    }

    /// Returns the size of the redo log and of its files.
    fn log_size(&self, answers: &Answers) -> Option<(u64, u64)> {
        if let Some(bytes) = answers.values.get("innodb_redo_log_capacity_resized") {
            return Some((*bytes as u64, 32));
        }
        if self.version.from((8, 0, 30)) && !self.version.is_mariadb() {
            return Some((self.number("innodb_redo_log_capacity")?, 32));
        }
        let files = self.number("innodb_log_files_in_group").unwrap_or(1).max(1);
        Some((self.number("innodb_log_file_size")?.saturating_mul(files), files))
    }

    fn limits(&self, answers: &Answers) -> Option<Limits> {
        let measured = |name: &str| answers.values.get(name).map(|value| *value as u64);
        let soft = measured("metric.log_max_modified_age_async");
        if let Some((soft, limit)) = soft.zip(measured("metric.log_max_modified_age_sync")) {
            return Some(Limits { soft, limit, how: "INNODB_METRICS" });
        }
        let (log_bytes, files) = self.log_size(answers)?;
        Some(limits(&LogSettings {
            version: self.version,
            log_bytes,
            files,
            page_bytes: self.number("innodb_page_size").unwrap_or(16384),
            thread_concurrency: self.number("innodb_thread_concurrency").unwrap_or(0),
            max_age: measured("innodb_checkpoint_max_age"),
        }))
    }
}

/// Whether `SHOW ENGINE INNODB STATUS` is needed, because the server shows the checkpoint nowhere
/// else.
pub(crate) fn needs_status_text(answers: &Answers) -> bool {
    let has = |name: &str| answers.values.contains_key(name);
    !(has("innodb_redo_log_checkpoint_lsn")
        || has("innodb_checkpoint_age")
        || has("metric.log_lsn_checkpoint_age"))
}

/// Where a figure came from, or why it is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Provenance {
    /// The figure.
    pub(crate) name: &'static str,
    /// The source, or the reason.
    pub(crate) source: Result<String, String>,
}

/// Returns the figures of the schema, then the server's own values by their own names.
pub(crate) fn values(facts: &Facts, answers: &Answers) -> Values {
    let mut out: Values = FIGURES
        .iter()
        .filter_map(|figure| {
            let (value, _) = find(figure, facts, answers)?;
            Some((figure.name.to_owned(), figure.unit, figure.kind, value))
        })
        .collect();
    let of_schema = |name: &str| FIGURES.iter().any(|figure| figure.name == name);
    let own = answers.values.iter().filter(|(name, _)| !of_schema(name) && !name.starts_with(host::PREFIX));
    out.extend(own.map(|(name, value)| {
        let metric = name.strip_prefix("metric.").and_then(|name| facts.metrics.get(name));
        let kind = metric.map_or_else(|| kind_of_status(name), |metric| metric.kind);
        (name.clone(), "", kind, *value)
    }));
    out
}

/// Returns for each figure of the schema where it comes from, or why the server does not have it.
pub(crate) fn provenance(facts: &Facts, answers: &Answers) -> Vec<Provenance> {
    FIGURES
        .iter()
        .map(|figure| {
            let source = find(figure, facts, answers).map(|(_, source)| source);
            Provenance { name: figure.name, source: source.ok_or_else(|| absence(figure, facts)) }
        })
        .collect()
}

/// Returns a figure's value and source.
fn find(figure: &Figure, facts: &Facts, answers: &Answers) -> Option<(f64, String)> {
    figure.origins.iter().find_map(|origin| {
        let of = |name: &str| answers.values.get(name).copied();
        match origin {
            Origin::Of(name) => Some((of(name)?, (*name).to_owned())),
            Origin::Times(name, factor) => Some((of(name)? * factor, format!("{name} x {factor}"))),
            Origin::Sum(names) => {
                let sum = names.iter().map(|name| of(name)).sum::<Option<f64>>()?;
                Some((sum, names.join(" + ")))
            }
            Origin::Less(a, b) => Some(((of(a)? - of(b)?).max(0.0), format!("{a} - {b}"))),
            Origin::StatusText(which) => {
                let log = answers.log?;
                let lsn = match which {
                    TextFigure::Current => log.current,
                    TextFigure::Flushed => log.flushed,
                    TextFigure::Checkpoint => log.checkpoint,
                };
                Some((lsn? as f64, "SHOW ENGINE INNODB STATUS".to_owned()))
            }
            Origin::Computed => computed(figure.name, facts, answers),
        }
    })
}

fn computed(name: &str, facts: &Facts, answers: &Answers) -> Option<(f64, String)> {
    let of = |name: &str| answers.values.get(name).copied();
    match name {
        "commits" => numbered_transactions(facts.version, of("innodb_max_trx_id")?),
        // There the log's files are none of those that Innodb_data_written counts.
        "device_bytes_written" if facts.version.is_mariadb() && facts.version.from((10, 8, 0)) => {
            let both = of("innodb_data_written")? + of("innodb_os_log_written")?;
            Some((both, "innodb_data_written + innodb_os_log_written".to_owned()))
        }
        "checkpoint_age_bytes" => {
            let log = answers.log?;
            let age = log.current?.saturating_sub(log.checkpoint?);
            Some((age as f64, "SHOW ENGINE INNODB STATUS".to_owned()))
        }
        "checkpoint_age_soft" => facts.limits(answers).map(|found| (found.soft as f64, found.how.to_owned())),
        "checkpoint_age_limit" => {
            facts.limits(answers).map(|found| (found.limit as f64, found.how.to_owned()))
        }
        "io_capacity_max" => {
            let setting = "innodb_io_capacity_max";
            facts.number(setting).map(|pages| (pages as f64, format!("the setting {setting}")))
        }
        "redo_capacity_bytes" => {
            facts.log_size(answers).map(|(bytes, _)| (bytes as f64, "the log's settings".to_owned()))
        }
        "dirty_percent" => {
            let [dirty, data, free] =
                ["dirty", "data", "free"].map(|part| of(&format!("innodb_buffer_pool_pages_{part}")));
            let source = "100 x dirty / (1 + data + free) pages".to_owned();
            Some((dirty_percent(dirty?, data?, free?), source))
        }
        _ => None,
    }
}

/// Returns how many transactions with changes a server has ended, by the numbers that it has given
/// out: one at a transaction's first lock or change, one when a transaction with changes ends.
/// MySQL, Percona Server and MariaDB before 10.3 give the second only where rows were updated or
/// deleted, so the half would be too low there.
fn numbered_transactions(version: Version, next_number: f64) -> Option<(f64, String)> {
    let two_each = version.is_mariadb() && version.from((10, 3, 0));
    two_each.then(|| ((next_number / 2.0).floor(), "innodb_max_trx_id / 2".to_owned()))
}

/// Returns the share of dirty pages as InnoDB computes it.
pub(crate) fn dirty_percent(dirty: f64, data: f64, free: f64) -> f64 {
    100.0 * dirty / (1.0 + data + free)
}

/// Says why a figure is not there.
fn absence(figure: &Figure, facts: &Facts) -> String {
    if is_of_host(figure.name) {
        return NOT_HERE.to_owned();
    }
    let of_innodb = figure.origins.is_empty() || figure.origins.iter().any(is_of_innodb);
    if of_innodb && !facts.variables.keys().any(|name| name.starts_with("innodb_")) {
        // It would refuse the setting, too.
        return "the server runs without InnoDB".to_owned();
    }
    let off = figure.origins.iter().find_map(|origin| match origin {
        Origin::Of(name) => name.strip_prefix("metric.").filter(|name| facts.metrics.contains_key(*name)),
        _ => None,
    });
    if let Some(metric) = off {
        return format!("{OFF}; SET GLOBAL innodb_monitor_enable = '{metric}' switches it on");
    }
    let text = figure
        .origins
        .iter()
        .any(|origin| matches!(origin, Origin::StatusText(_)) || figure.name == "checkpoint_age_bytes");
    match facts.refusals.first() {
        Some(refusal) if text || figure.origins.iter().any(is_metric) => refusal.clone(),
        _ if figure.origins.is_empty() => "InnoDB has nothing like it".to_owned(),
        _ => format!("{} does not show it", facts.version),
    }
}

/// Why a figure of the machine is not there.
const NOT_HERE: &str = "the server does not run on this machine, or the machine does not count it";

fn is_metric(origin: &Origin) -> bool {
    matches!(origin, Origin::Of(name) if name.starts_with("metric."))
}

/// Returns whether an origin is a figure of InnoDB.
fn is_of_innodb(origin: &Origin) -> bool {
    let of = |name: &str| name.starts_with("metric.") || name.starts_with("innodb_");
    match origin {
        Origin::Of(name) | Origin::Times(name, _) | Origin::Less(name, _) => of(name),
        Origin::Sum(names) => names.iter().any(|name| of(name)),
        Origin::StatusText(_) | Origin::Computed => true,
    }
}

/// How the reason begins why a figure is not there that a setting switches on.
const OFF: &str = "switched off";

/// Returns the metric that would give a figure, of the reason why the figure is not there.
pub(crate) fn switched_off(reason: &str) -> Option<&str> {
    reason.strip_prefix(OFF)?.split('\'').nth(1)
}
