//! From what a target gave to the facts: pure.

use super::facts::{
    BinlogFacts, Facts, LogFacts, Missing, PondFacts, PondLog, PondPages, PoolFacts, WriteFacts,
};
use super::seen::{MILLPOND, Seen};
use super::settings::Settings;
use crate::sources::switched_off;
use client::Version;
use output::samples::{Point, Samples};

/// From this part of the limit on the age is at its limit: between two samples it may be above.
const AT_LIMIT: f64 = 0.99;
/// An age that has grown by less than this part of its limit stands.
const GROWTH: f64 = 0.1;

/// Returns the facts.
pub(super) fn facts(seen: &Seen) -> Facts {
    let settings = Settings::new(seen.settings.clone());
    let samples = &seen.samples;
    let first = samples.seconds.first().copied().unwrap_or(0.0);
    let series = |prefix| Series { samples, prefix, seconds: samples.end() - first };
    let own = series("");
    let is_server = seen.version != "Millpond";
    let in_server = series(MILLPOND);
    let pond = match is_server {
        false => Some(pond(&own)),
        true => in_server.has("checkpoint_age_limit").then(|| pond(&in_server)),
    };
    let off = seen.absent.values().filter_map(|why| switched_off(why)).map(str::to_owned);
    let age = seen.absent.get("checkpoint_age_bytes").filter(|_| is_server);
    let mut facts = Facts {
        version: is_server.then(|| version(&seen.version, &settings)),
        seconds: own.seconds,
        samples: samples.seconds.len(),
        settings,
        missing: Missing { switched_off: off.collect(), age: age.cloned() },
        place: seen.place.clone(),
        pond,
        ..Facts::default()
    };
    if is_server {
        (facts.log, facts.writes) = (log(&own), writes(&own));
        (facts.pool, facts.binlog) = (pool(&own), binlog(&own));
    }
    facts
}

/// Reads a version: of the settings, or else of what a collection says, such as `MySQL 8.4.1`.
fn version(shown: &str, settings: &Settings) -> Version {
    if let Some(version) = settings.text("version") {
        return Version::parse(version, settings.text("version_comment").unwrap_or(shown));
    }
    let (maker, number) = shown.rsplit_once(' ').unwrap_or(("", shown));
    Version::parse(number, maker)
}

/// The figures of a target whose names begin with a prefix.
struct Series<'s> {
    samples: &'s Samples,
    prefix: &'static str,
    seconds: f64,
}

impl Series<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn has(&self, name: &str) -> bool {
        self.levels(name).next().is_some()
    }

    fn levels(&self, name: &str) -> impl Iterator<Item = f64> + use<> {
        known(self.samples.level(&self.name(name)))
    }

    fn peak(&self, name: &str) -> Option<f64> {
        self.levels(name).max_by(f64::total_cmp)
    }

    fn last(&self, name: &str) -> Option<f64> {
        self.levels(name).last()
    }

    fn mean(&self, name: &str) -> Option<f64> {
        let levels: Vec<f64> = self.levels(name).collect();
        (!levels.is_empty()).then(|| levels.iter().sum::<f64>() / levels.len() as f64)
    }

    /// Returns how much a counter grew; where it began again, from there.
    fn grew(&self, name: &str) -> Option<f64> {
        (self.levels(name).count() > 1).then(|| self.samples.growth(&self.name(name)))
    }

    /// Returns how much it grew a second.
    fn rate(&self, name: &str) -> Option<f64> {
        self.grew(name).filter(|_| self.seconds > 0.0).map(|grew| grew / self.seconds)
    }

    /// Returns how much it grew in the second with the greatest growth.
    fn rate_peak(&self, name: &str) -> Option<f64> {
        known(self.samples.rate(&self.name(name))).max_by(f64::total_cmp)
    }

    /// Returns by how much the age grew a second, if it was still growing at the end: the peak is
    /// among the last samples, and the growth is a part of the limit. An age that goes up and down
    /// like a saw may look so, too.
    fn age_growth(&self) -> Option<f64> {
        let ages: Vec<f64> = self.levels("checkpoint_age_bytes").collect();
        let peak = self.peak("checkpoint_age_bytes")?;
        let limit = self.last("checkpoint_age_limit").filter(|limit| *limit > 0.0)?;
        let end = &ages[ages.len() - ages.len().div_ceil(10)..];
        let grew = ages.last()? - ages.first()?;
        let grows = end.contains(&peak) && grew >= GROWTH * limit && self.seconds > 0.0;
        grows.then(|| grew / self.seconds)
    }

    /// Returns the share of the samples in which the age is at least a part of another figure.
    fn age_reaches(&self, part: f64, of: &str) -> Option<f64> {
        let ages = self.samples.level(&self.name("checkpoint_age_bytes"));
        let limits = self.samples.level(&self.name(of));
        let both = ages.iter().zip(&limits).filter_map(|(age, limit)| age.1.zip(limit.1));
        let reached: Vec<bool> =
            both.filter(|(_, limit)| *limit > 0.0).map(|(age, limit)| age >= part * limit).collect();
        let count = reached.iter().filter(|reached| **reached).count();
        (!reached.is_empty()).then(|| count as f64 / reached.len() as f64)
    }
}

fn known(points: Vec<Point>) -> impl Iterator<Item = f64> {
    points.into_iter().filter_map(|(_, value)| value)
}

fn log(own: &Series<'_>) -> LogFacts {
    LogFacts {
        age_peak: own.peak("checkpoint_age_bytes"),
        age_growth: own.age_growth(),
        soft: own.last("checkpoint_age_soft").filter(|soft| *soft > 0.0),
        limit: own.last("checkpoint_age_limit").filter(|limit| *limit > 0.0),
        above_soft: own.age_reaches(1.0, "checkpoint_age_soft"),
        at_limit: own.age_reaches(AT_LIMIT, "checkpoint_age_limit"),
        capacity: own.last("redo_capacity_bytes"),
        redo_rate: own.rate("redo_bytes_written"),
        hour: own.rate("log_bytes_written").map(|rate| rate * 3600.0),
        hard_waits: own.grew("hard_waits"),
        buffer_waits: own.grew("log_buffer_waits"),
    }
}

fn writes(own: &Series<'_>) -> WriteFacts {
    WriteFacts {
        pages: own.rate("pages_written"),
        pages_peak: own.rate_peak("pages_written"),
        sync_pages: own.rate("pages_written_by_force.sync"),
        neighbours: own.rate("pages_written_as_neighbours"),
        doublewrite: own.rate("doublewrite_pages"),
        device_bytes: own.rate("device_bytes_written"),
        dirty_pages: own.mean("dirty_pages"),
        dirty_percent: own.mean("dirty_percent"),
        syncs: own.rate("fsyncs"),
        syncs_in_flight: own.mean("pending_fsyncs"),
    }
}

fn pool(own: &Series<'_>) -> PoolFacts {
    let single = ["num_scan", "scanned"].map(|end| format!("metric.buffer_lru_single_flush_{end}"));
    PoolFacts {
        free_waits: own.grew("free_frame_waits"),
        lru_pages: own.rate("pages_flushed_lru"),
        single_flushes: single.iter().find_map(|name| own.grew(name)),
        reads: own.rate("pages_read"),
        threads: own.peak("threads_running"),
    }
}

fn binlog(own: &Series<'_>) -> BinlogFacts {
    BinlogFacts { commits: own.grew("binlog_commits"), groups: own.grew("binlog_group_commits") }
}

fn pond(of: &Series<'_>) -> PondFacts {
    PondFacts {
        log: PondLog {
            age_peak: of.peak("checkpoint_age_bytes"),
            soft: of.last("checkpoint_age_soft").filter(|soft| *soft > 0.0),
            limit: of.last("checkpoint_age_limit").filter(|limit| *limit > 0.0),
            capacity: of.last("redo_capacity_bytes"),
            helpful: of.last("redo_helpful_bytes").filter(|helpful| *helpful > 0.0),
            replay_rate: of.last("replay_rate").filter(|rate| *rate > 0.0),
            redo_rate: of.rate("redo_bytes_written"),
            delayed_us: of.rate("throttled_us_total"),
            hard_waits: of.grew("hard_waits"),
        },
        pages: PondPages {
            pool_bytes: of.last("buffer_pool_bytes").filter(|bytes| *bytes > 0.0),
            free_waits: of.grew("free_frame_waits"),
            written: of.rate("pages_written"),
            for_frames: of.rate("pages_written_by_force.free_frames"),
            reads: of.rate("pages_read"),
        },
        poisoned: of.last("poisoned") == Some(1.0),
        in_memory: of.last("durable") == Some(0.0),
        doublewrite_off: of.last("doublewrite_off") == Some(1.0),
    }
}
