//! What a server counted of an engine during the measured phase: the differences of two samples. A
//! figure that the server does not have is unknown.

use output::samples::Values;
use std::collections::BTreeMap;

/// All figures at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading(pub(super) Values);

/// Which figures are those of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EngineFigures {
    /// Those of InnoDB, under the names of the schema.
    InnoDb,
    /// The status variables `Millpond_…`.
    Millpond,
    /// The engine shows none that this program knows.
    None,
}

impl EngineFigures {
    /// Returns which figures an engine of this name has.
    pub(super) fn of(engine: &str) -> EngineFigures {
        match engine.to_lowercase().as_str() {
            "innodb" => EngineFigures::InnoDb,
            "millpond" => EngineFigures::Millpond,
            _ => EngineFigures::None,
        }
    }

    /// Returns the names under which the engine's figure `name` may stand.
    fn names(self, name: &str) -> Vec<String> {
        match self {
            EngineFigures::InnoDb => vec![name.to_owned()],
            EngineFigures::Millpond => vec![format!("millpond_{name}")],
            EngineFigures::None => Vec::new(),
        }
    }
}

impl Reading {
    /// Returns a value by its name in the sample.
    fn value(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|value| value.0 == name).map(|value| value.3)
    }

    /// Returns a figure of the engine.
    pub(super) fn of(&self, engine: EngineFigures, name: &str) -> Option<u64> {
        engine.names(name).iter().find_map(|name| self.value(name)).map(|value| value.max(0.0) as u64)
    }
}

/// The differences between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ServerFigures {
    pub(super) redo_bytes: Option<u64>,
    pub(super) pages_read: Option<u64>,
    pub(super) pages_written: Option<u64>,
    pub(super) pages_written_by_force: BTreeMap<String, u64>,
    pub(super) doublewrite_pages: Option<u64>,
    pub(super) device_write_bytes: Option<u64>,
    pub(super) fsyncs: Option<u64>,
    pub(super) log_fsyncs: Option<u64>,
    pub(super) checkpoint_age_limit: Option<u64>,
    pub(super) throttled_us_total: Option<u64>,
    pub(super) hard_waits: Option<u64>,
    pub(super) free_frame_waits: Option<u64>,
    pub(super) lock_waits: Option<u64>,
    pub(super) deadlocks: Option<u64>,
    /// Transactions in the binary log; `None` if there is none.
    pub(super) binlog_commits: Option<u64>,
    /// The groups in which they were written: each is a sync, if the server syncs its binary log.
    pub(super) binlog_group_commits: Option<u64>,
    pub(super) binlog_bytes: Option<u64>,
}

const FORCES: &str = "pages_written_by_force.";

impl ServerFigures {
    /// Computes the differences.
    pub(super) fn between(before: &Reading, after: &Reading, engine: EngineFigures) -> ServerFigures {
        let grown = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        let of = |name: &str| grown(before.of(engine, name), after.of(engine, name));
        let server = |name: &str| {
            let value = |reading: &Reading| reading.value(name).map(|value| value as u64);
            grown(value(before), value(after))
        };
        let binlog_bytes = server("binlog_bytes_written");
        ServerFigures {
            redo_bytes: of("redo_bytes_written"),
            pages_read: of("pages_read"),
            pages_written: of("pages_written"),
            pages_written_by_force: by_force(before, after, engine),
            doublewrite_pages: of("doublewrite_pages"),
            device_write_bytes: of("device_bytes_written"),
            fsyncs: of("fsyncs"),
            log_fsyncs: of("log_fsyncs"),
            checkpoint_age_limit: after.of(engine, "checkpoint_age_limit"),
            throttled_us_total: of("throttled_us_total"),
            hard_waits: of("hard_waits"),
            free_frame_waits: of("free_frame_waits"),
            lock_waits: of("lock_waits"),
            deadlocks: of("deadlocks"),
            binlog_commits: server("binlog_commits").filter(|n| *n > 0),
            binlog_group_commits: server("binlog_group_commits").filter(|n| *n > 0),
            binlog_bytes: binlog_bytes.filter(|n| *n > 0),
        }
    }
}

/// Returns the pages that each force has written, if more than none.
fn by_force(before: &Reading, after: &Reading, engine: EngineFigures) -> BTreeMap<String, u64> {
    let prefixes = engine.names(FORCES);
    let force = |name: &str| prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).map(str::to_owned);
    let written = |(name, _, _, value): &(String, _, _, f64)| {
        let pages = (*value - before.value(name).unwrap_or(0.0)).max(0.0) as u64;
        Some((force(name)?, pages)).filter(|(_, pages)| *pages > 0)
    };
    after.0.iter().filter_map(written).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use output::samples::ColumnKind::Counter;

    fn reading(values: &[(&str, f64)]) -> Reading {
        Reading(values.iter().map(|(name, value)| ((*name).to_owned(), "", Counter, *value)).collect())
    }

    #[test]
    fn figures_are_those_of_the_engine_that_works() {
        let before = reading(&[
            ("fsyncs", 10.0),
            ("millpond_fsyncs", 100.0),
            ("pages_written_by_force.lru", 1.0),
            ("binlog_commits", 5.0),
        ]);
        let after = reading(&[
            ("fsyncs", 30.0),
            ("millpond_fsyncs", 105.0),
            ("pages_written_by_force.lru", 4.0),
            ("pages_written_by_force.sync", 0.0),
            ("binlog_commits", 5.0),
        ]);
        let of = |engine| ServerFigures::between(&before, &after, EngineFigures::of(engine));
        assert_eq!(of("InnoDB").fsyncs, Some(20));
        assert_eq!(of("InnoDB").pages_written_by_force, BTreeMap::from([("lru".to_owned(), 3)]));
        assert_eq!(of("MILLPOND").fsyncs, Some(5));
        assert_eq!(of("Aria"), ServerFigures::default(), "it has none of its own, and no binary log grew");
    }
}
