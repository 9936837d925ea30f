//! The workloads: what runs, with how many clients, and which ratio is asked for.

/// What a workload does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A script of sysbench over all tables, keys drawn uniformly.
    Sysbench { script: &'static str },
    /// A script of sysbench beside many idle connections with open transactions.
    Idle { script: &'static str },
    /// Updates of the only row of a table, each a transaction of its own.
    HotRow,
    /// ALTER TABLE to the engine, from a third one.
    Alter,
    /// DROP DATABASE of many tables.
    Drop,
    /// Statements that lock all rows of a table.
    Locking,
    /// The space of the sysbench tables as they were made.
    Space,
    /// The processor time of the plugin for a row, the engine left out.
    Cpu,
}

impl Kind {
    /// Tells whether it needs the sysbench tables of both engines.
    pub(super) fn uses_tables(&self) -> bool {
        !matches!(self, Kind::HotRow | Kind::Alter | Kind::Drop | Kind::Locking)
    }
}

/// One workload.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) clients: u32,
    /// Pairs of runs in a full measurement.
    pub(super) pairs: usize,
    /// The ratio to InnoDB that must be reached, and the one that is aimed at.
    pub(super) must: f64,
    pub(super) aim: f64,
    /// An engine that shows the server's own cost.
    pub(super) beside: Option<&'static str>,
    /// Whether each transaction writes, so that the wait for the log is a part of it.
    pub(super) durable_writes: bool,
}

const PAIRS: usize = 5;
/// Pairs of the workloads whose difference is small.
const PAIRS_OF_READS: usize = 9;

const fn writes(name: &'static str, script: &'static str, clients: u32) -> Workload {
    let kind = Kind::Sysbench { script };
    Workload { name, kind, clients, pairs: PAIRS, must: 1.5, aim: 2.5, beside: None, durable_writes: true }
}

const fn beside(engine: &'static str, workload: Workload) -> Workload {
    Workload { beside: Some(engine), ..workload }
}

const fn reads(name: &'static str, script: &'static str) -> Workload {
    let kind = Kind::Sysbench { script };
    Workload {
        name,
        kind,
        clients: 16,
        pairs: PAIRS_OF_READS,
        must: 0.97,
        aim: 1.15,
        beside: None,
        durable_writes: false,
    }
}

const fn hot_row(name: &'static str, clients: u32) -> Workload {
    Workload {
        name,
        kind: Kind::HotRow,
        clients,
        pairs: PAIRS,
        must: 1.0,
        aim: 3.0,
        beside: None,
        durable_writes: false,
    }
}

/// All workloads, in the order in which they run: the tables grow only at the end.
pub(super) const ALL: &[Workload] = &[
    Workload {
        name: "space",
        kind: Kind::Space,
        clients: 0,
        pairs: 1,
        must: 1.0,
        aim: 0.8,
        beside: None,
        durable_writes: false,
    },
    beside("MEMORY", reads("point-select", "oltp_point_select")),
    reads("read-only", "oltp_read_only"),
    Workload {
        pairs: PAIRS,
        must: 1.2,
        aim: 1.6,
        durable_writes: true,
        ..reads("read-write", "oltp_read_write")
    },
    writes("update-index-16", "oltp_update_index", 16),
    writes("update-index-64", "oltp_update_index", 64),
    beside("MEMORY", writes("update-non-index-16", "oltp_update_non_index", 16)),
    writes("update-non-index-64", "oltp_update_non_index", 64),
    writes("write-only-16", "oltp_write_only", 16),
    writes("write-only-64", "oltp_write_only", 64),
    hot_row("hot-row-16", 16),
    hot_row("hot-row-256", 256),
    Workload {
        name: "idle",
        kind: Kind::Idle { script: "oltp_write_only" },
        clients: 16,
        pairs: 4,
        must: 0.9,
        aim: 1.0,
        beside: None,
        durable_writes: false,
    },
    Workload {
        name: "cpu",
        kind: Kind::Cpu,
        clients: 8,
        pairs: 1,
        must: 1.5,
        aim: 0.7,
        beside: None,
        durable_writes: false,
    },
    Workload { must: 1.0, aim: 1.4, ..writes("insert-1", "oltp_insert", 1) },
    beside("BLACKHOLE", writes("insert-16", "oltp_insert", 16)),
    beside("BLACKHOLE", writes("insert-64", "oltp_insert", 64)),
    Workload {
        name: "alter",
        kind: Kind::Alter,
        clients: 1,
        pairs: 3,
        must: 1.2,
        aim: 2.0,
        beside: None,
        durable_writes: false,
    },
    Workload {
        name: "drop-database",
        kind: Kind::Drop,
        clients: 1,
        pairs: 3,
        // A fifth of InnoDB's time. The engines beside show what the server alone takes.
        must: 5.0,
        aim: 10.0,
        beside: None,
        durable_writes: false,
    },
    Workload {
        name: "locking",
        kind: Kind::Locking,
        clients: 1,
        pairs: PAIRS,
        // At most one and a half times InnoDB's processor time.
        must: 0.67,
        aim: 1.0,
        beside: None,
        durable_writes: false,
    },
];

/// Returns the workloads of these names, or all if there is no name. A name may be the beginning
/// of several.
pub(super) fn named(names: &[String]) -> Result<Vec<&'static Workload>, String> {
    let fits = |name: &str, workload: &Workload| {
        workload.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    for name in names {
        if !ALL.iter().any(|workload| fits(name, workload)) {
            let all: Vec<&str> = ALL.iter().map(|workload| workload.name).collect();
            return Err(format!("there is no workload {name}; there are: {}", all.join(", ")));
        }
    }
    let wanted = |workload: &&Workload| names.is_empty() || names.iter().any(|name| fits(name, workload));
    Ok(ALL.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_selects_its_workload_or_all_that_it_begins() {
        let names = |wanted: &str| -> Vec<&str> {
            named(&[wanted.to_owned()]).unwrap().iter().map(|workload| workload.name).collect()
        };
        assert_eq!(names("insert-64"), ["insert-64"]);
        assert_eq!(names("insert"), ["insert-1", "insert-16", "insert-64"]);
        assert_eq!(names("hot-row"), ["hot-row-16", "hot-row-256"]);
        assert_eq!(names("read-only"), ["read-only"]);
        assert!(named(&["inser".to_owned()]).is_err());
        assert_eq!(named(&[]).unwrap().len(), ALL.len());
    }
}
