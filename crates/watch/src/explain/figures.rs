//! Millpond's own figures as entries: the catalog of metrics has their meaning.

use super::entry::Entry;
use metrics::MetricKind;
use metrics::catalog::CATALOG;
use metrics::{FileKind, Force, Latency, SyncReason};

/// A family of figures: its name, and what the part behind the dot says.
struct Family {
    name: &'static str,
    does: &'static str,
    members: Vec<(&'static str, &'static str)>,
}

/// Returns the names of all figures; a family's name stands for its members.
pub(crate) fn names() -> impl Iterator<Item = String> {
    let plain = CATALOG.iter().map(|entry| entry.name.to_owned());
    let sums = SUMS.iter().map(|(name, _)| (*name).to_owned());
    let families = families().into_iter().map(|family| family.name.to_owned());
    plain.chain(sums).chain(families).chain(Latency::ALL.iter().map(|what| what.label().to_owned()))
}

const SUMS: [(&str, &str); 3] = [
    ("fsyncs", "Syncs of all files."),
    ("fsync_us_total", "Time that all syncs took, microseconds."),
    ("fsync_waiters", "Callers that waited for a sync, summed over all syncs."),
];

fn families() -> Vec<Family> {
    vec![
        Family {
            name: "fsyncs_by_file",
            does: "Syncs of one kind of file.",
            members: FileKind::ALL.iter().map(|file| (file.label(), file.help())).collect(),
        },
        Family {
            name: "fsyncs_by_reason",
            does: "Syncs for one reason.",
            members: SyncReason::ALL.iter().map(|reason| (reason.label(), reason.help())).collect(),
        },
        Family {
            name: "pages_written_by_force",
            does: "Pages written in place, by what forced the write.",
            members: forces(),
        },
        Family {
            name: "page_writes_io_by_force",
            does: "In-place page writes given to the device, by what forced them.",
            members: forces(),
        },
    ]
}

fn forces() -> Vec<(&'static str, &'static str)> {
    Force::ALL.iter().map(|force| (force.label(), force.help())).collect()
}

/// Finds a figure by its name in lower case, also with `millpond_` before it, and with the dot of a
/// family or an underline in its place, as the server shows it.
pub(crate) fn find(name: &str) -> Option<Entry> {
    let name = name.strip_prefix("millpond_").unwrap_or(name);
    plain(name).or_else(|| sum(name)).or_else(|| member(name)).or_else(|| latency(name))
}

fn entry(name: &str, is: &str, does: String) -> Entry {
    let own = "millpond run shows it, and millpond inspect DIR recorder --figures has its history; in \
               MariaDB it is a status variable with Millpond_ before its name.";
    let facts = [("is", is), ("does", &does), ("millpond", own)];
    Entry { names: vec![name.to_owned()], facts: facts.map(|(k, t)| (k.to_owned(), t.to_owned())).into() }
}

fn plain(name: &str) -> Option<Entry> {
    let found = CATALOG.iter().find(|entry| entry.name == name)?;
    let kind = match found.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "level",
    };
    let is = format!("figure of Millpond; a {kind}, in {}", found.unit.label());
    Some(entry(name, &is, found.help.to_owned()))
}

fn sum(name: &str) -> Option<Entry> {
    let (_, does) = SUMS.iter().find(|(sum, _)| *sum == name)?;
    Some(entry(name, "figure of Millpond; a counter", (*does).to_owned()))
}

fn member(name: &str) -> Option<Entry> {
    let family = families().into_iter().find(|family| name.starts_with(family.name))?;
    let rest = name[family.name.len()..].trim_start_matches(['.', '_']);
    let is = "figure of Millpond; a counter";
    if rest.is_empty() {
        let members: Vec<String> =
            family.members.iter().map(|(label, help)| format!(".{label}: {help}")).collect();
        return Some(entry(name, is, format!("{} {}", family.does, members.join(" "))));
    }
    let (label, help) = family.members.iter().find(|(label, _)| *label == rest)?;
    Some(entry(&format!("{}.{label}", family.name), is, format!("{} {help}", family.does)))
}

fn latency(name: &str) -> Option<Entry> {
    let what = Latency::ALL.iter().find(|what| name.starts_with(what.label()))?;
    let part = name[what.label().len()..].trim_start_matches(['.', '_']);
    let parts = ["", "count", "mean", "p50", "p95", "p99", "max"];
    if !parts.contains(&part) {
        return None;
    }
    let does = format!("{} The parts are .count, .mean, .p50, .p95, .p99 and .max.", what.help());
    Some(entry(name, "figure of Millpond; a distribution, in microseconds", does))
}
