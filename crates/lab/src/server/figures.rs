//! What a server counted of an engine during the measured phase: the differences of two samples. A
//! figure that the server does not have is unknown.

use output::samples::{ColumnKind, Values};
use serde::Serialize;
use std::collections::BTreeMap;

/// All figures at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading(pub(super) Values);

/// What stands before the names of Millpond's figures in a sample of a server.
const PREFIX: &str = "millpond_";

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
            EngineFigures::Millpond => vec![format!("{PREFIX}{name}")],
            EngineFigures::None => Vec::new(),
        }
    }
}

impl Reading {
    /// Returns a value by its name in the sample.
    fn value(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|value| value.0 == name).map(|value| value.3)
    }

    /// Returns all figures with those of the engine under the names of the schema, whichever
    /// engine it is. An engine whose figures are not known has none.
    pub(super) fn values(&self, engine: EngineFigures) -> Values {
        let own = |value: &(String, _, _, _)| value.0.starts_with(PREFIX);
        match engine {
            EngineFigures::InnoDb => self.0.clone(),
            EngineFigures::None => self.of_host().cloned().collect(),
            EngineFigures::Millpond => {
                let plain = |value: &(String, &'static str, ColumnKind, f64)| {
                    (value.0[PREFIX.len()..].to_owned(), value.1, value.2, value.3)
                };
                let own = self.0.iter().filter(|value| own(value)).map(plain);
                own.chain(self.of_host().cloned()).collect()
            }
        }
    }

    /// Returns the figures of the machine.
    fn of_host(&self) -> impl Iterator<Item = &(String, &'static str, ColumnKind, f64)> {
        self.0.iter().filter(|value| watch::is_of_host(&value.0))
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
    pub(super) pages: Pages,
    pub(super) machine: Machine,
    pub(super) fsyncs: Fsyncs,
    pub(super) checkpoint_age_limit: Option<u64>,
    pub(super) waits: Waits,
    pub(super) binlog: Binlog,
}

/// What the machine did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Machine {
    /// For all files of the engine.
    pub(super) device_write_bytes: Option<u64>,
    /// Of the server's process, if it runs on this machine.
    pub(super) processor_us: Option<u64>,
}

/// Pages read and written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Pages {
    pub(super) pages_read: Option<u64>,
    pub(super) pages_written: PagesWritten,
    pub(super) doublewrite_pages: Option<u64>,
}

/// Pages written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct PagesWritten {
    pub(super) total: Option<u64>,
    pub(super) by_force: BTreeMap<String, u64>,
}

/// Syncs of the engine's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Fsyncs {
    pub(super) total: Option<u64>,
    pub(super) log: Option<u64>,
}

/// What made transactions wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Waits {
    pub(super) throttled_us_total: Option<u64>,
    pub(super) hard_waits: Option<u64>,
    pub(super) free_frame_waits: Option<u64>,
    pub(super) lock_waits: Option<u64>,
    pub(super) deadlocks: Option<u64>,
}

/// The binary log; nothing is known if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Binlog {
    /// Transactions in it.
    pub(super) commits: Option<u64>,
    /// The groups in which they were written: each is a sync, if the server syncs its binary log.
    pub(super) group_commits: Option<u64>,
    pub(super) bytes: Option<u64>,
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
        let binlog = |name: &str| server(name).filter(|n| *n > 0);
        ServerFigures {
            redo_bytes: of("redo_bytes_written"),
            pages: Pages {
                pages_read: of("pages_read"),
                pages_written: PagesWritten {
                    total: of("pages_written"),
                    by_force: by_force(before, after, engine),
                },
                doublewrite_pages: of("doublewrite_pages"),
            },
            machine: Machine {
                device_write_bytes: of("device_bytes_written"),
                processor_us: server("processor_us_total"),
            },
            fsyncs: Fsyncs { total: of("fsyncs"), log: of("log_fsyncs") },
            checkpoint_age_limit: after.of(engine, "checkpoint_age_limit"),
            waits: Waits {
                throttled_us_total: of("throttled_us_total"),
                hard_waits: of("hard_waits"),
                free_frame_waits: of("free_frame_waits"),
                lock_waits: of("lock_waits"),
                deadlocks: of("deadlocks"),
            },
            binlog: Binlog {
                commits: binlog("binlog_commits"),
                group_commits: binlog("binlog_group_commits"),
                bytes: binlog("binlog_bytes_written"),
            },
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
            ("processor_us_total", 7.0),
        ]);
        let of = |engine| ServerFigures::between(&before, &after, EngineFigures::of(engine));
        assert_eq!(of("InnoDB").fsyncs.total, Some(20));
        assert_eq!(of("InnoDB").pages.pages_written.by_force, BTreeMap::from([("lru".to_owned(), 3)]));
        assert_eq!(of("MILLPOND").fsyncs.total, Some(5));
        assert_eq!(of("Aria"), ServerFigures::default(), "it has none of its own, and no binary log grew");
        let names = |engine: &str| -> Vec<String> {
            after.values(EngineFigures::of(engine)).into_iter().map(|value| value.0).collect()
        };
        assert_eq!(
            names("millpond"),
            ["fsyncs", "processor_us_total"],
            "the plots know the names of the schema"
        );
        assert_eq!(names("InnoDB").len(), after.0.len());
        assert_eq!(names("Aria"), ["processor_us_total"], "InnoDB's figures say nothing of Aria");
    }
}
