//! Kills in a row: a process opens the database, works from its first millisecond, and is killed
//! with `kill -9` a moment later. The next one is started at once. None closes the database, and
//! only every tenth reads all of it before it works; so replay, the callers, scans and checkpoints
//! of one life meet what the lives before it left.

use super::lives::{LifeSettings, Lives};
use base::prng::Prng;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Plan {
    /// Kills in each directory
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    kills: u64,
    /// Databases, one after the other, with other pages, pools and logs each
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    directories: u16,
    /// The longest time from a report to the kill, in milliseconds; the mean is a third of it
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u64).range(1..))]
    longest_ms: u64,
    /// Client threads
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..1000))]
    clients: u16,
    /// The databases are made here; must not exist. Removed if nothing is found
    #[arg(long, default_value_os_t = std::env::current_dir().unwrap_or_default().join("kills"))]
    dir: PathBuf,
    /// Every other database is made here, on another file system
    #[arg(long)]
    also: Option<PathBuf>,
    /// Decides what the clients do, and when they are killed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The result.
#[derive(Debug, Default)]
pub struct Report {
    databases: u64,
    kills: u64,
    /// Reports of whole databases.
    read: u64,
    steps: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kills of {} databases, 0 refused; {} times all was read: {} steps acknowledged and found",
            self.kills, self.databases, self.read, self.steps
        )
    }
}

/// Of so many lives one reads everything before it works.
const READS_ALL: u64 = 10;

const PAGE_BYTES: [u64; 3] = [16 << 10, 4 << 10, 8 << 10];
const POOL_BYTES: [u64; 5] = [128 << 20, 16 << 20, 1 << 30, 64 << 20, 32 << 20];

/// Bytes of the log, or else the recovery target in milliseconds; zeros are the default.
const LOGS: [(u64, u64); 4] = [(0, 0), (96 << 20, 0), (0, 10_000), (32 << 20, 0)];

/// What differs from database to database.
#[derive(Clone, Copy, Debug)]
struct Shape {
    page_bytes: u64,
    pool_bytes: u64,
    redo_bytes: u64,
    recovery_target_ms: u64,
}

impl Shape {
    /// The shape of the `n`th database. The lengths of the three lists have no common factor, so
    /// all combinations come up.
    fn new(n: u16) -> Shape {
        let n = usize::from(n);
        let (redo_bytes, recovery_target_ms) = LOGS[n % LOGS.len()];
        Shape {
            page_bytes: PAGE_BYTES[n % PAGE_BYTES.len()],
            pool_bytes: POOL_BYTES[n % POOL_BYTES.len()],
            redo_bytes,
            recovery_target_ms,
        }
    }

    fn life(self, number: u64, rng: &mut Prng) -> LifeSettings {
        LifeSettings {
            number,
            work: true,
            at_once: number % READS_ALL != READS_ALL - 1,
            scanners: u16::from(!rng.one_in(3)),
            page_bytes: self.page_bytes,
            pool_bytes: self.pool_bytes,
            redo_bytes: self.redo_bytes,
            recovery_target_ms: self.recovery_target_ms,
            open_files: 0,
        }
    }
}

/// Returns how long a life works: any moment may matter, and the first milliseconds most.
fn time_to_live(rng: &mut Prng, longest_ms: u64) -> Duration {
    let us = longest_ms * 1000;
    let most = *rng.pick(&[us, us, us / 30, us / 4]);
    Duration::from_micros(rng.between(most / 30, most))
}

/// Runs all kills. An error is a finding; then the directory stays.
pub fn run(plan: &Plan) -> Result<Report, String> {
    let mut report = Report::default();
    for n in 0..plan.directories {
        let place = plan.also.as_ref().filter(|_| n % 2 == 1).unwrap_or(&plan.dir);
        let dir = place.join(n.to_string());
        kill_in_a_row(plan, n, &dir, &mut report)
            .map_err(|what| format!("{what} (database {n}, left in {})", dir.display()))?;
    }
    for place in plan.also.iter().chain([&plan.dir]) {
        let _ = std::fs::remove_dir(place);
    }
    Ok(report)
}

fn kill_in_a_row(plan: &Plan, n: u16, dir: &Path, report: &mut Report) -> Result<(), String> {
    let (seed, shape) = (plan.seed + u64::from(n), Shape::new(n));
    let mut rng = Prng::new(seed ^ 0xdead);
    let mut lives = Lives::new(dir, seed, plan.clients)?;
    let mut life = |lives: &mut Lives, settings: LifeSettings, time: Duration| -> Result<(), String> {
        let acknowledged = lives.acknowledged()?;
        let number = settings.number;
        let found = |what| format!("{what} (after {number} kills)");
        let mut process = lives.start(&settings)?;
        lives.compare(&mut process, &acknowledged, &settings, &mut || Ok(())).map_err(found)?;
        report.read += u64::from(!settings.at_once);
        process.run_for(time).map_err(found)
    };
    for number in 0..plan.kills {
        let settings = shape.life(number, &mut rng);
        life(&mut lives, settings, time_to_live(&mut rng, plan.longest_ms))?;
    }
    let last = LifeSettings { at_once: false, work: false, ..shape.life(plan.kills, &mut rng) };
    life(&mut lives, last, Duration::ZERO)?;
    report.databases += 1;
    report.kills += plan.kills;
    report.steps += lives.steps();
    println!("database {n}: {} kills, {} steps acknowledged and found; {shape:?}", plan.kills, lives.steps());
    lives.remove()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_databases_have_each_page_pool_and_log() {
        let shapes: Vec<_> = (0..10).map(Shape::new).collect();
        assert!(PAGE_BYTES.iter().all(|bytes| shapes.iter().any(|shape| shape.page_bytes == *bytes)));
        assert!(POOL_BYTES.iter().all(|bytes| shapes.iter().any(|shape| shape.pool_bytes == *bytes)));
        let logs: Vec<_> = shapes.iter().map(|shape| (shape.redo_bytes, shape.recovery_target_ms)).collect();
        assert!(LOGS.iter().all(|log| logs.contains(log)));
    }

    #[test]
    fn lives_end_at_any_moment_up_to_the_longest() {
        let mut rng = Prng::new(1);
        let times: Vec<u128> = (0..1000).map(|_| time_to_live(&mut rng, 3_000).as_millis()).collect();
        assert!(times.iter().all(|ms| *ms <= 3_000));
        let mean = times.iter().sum::<u128>() / 1000;
        assert!((700..1_100).contains(&mean), "{mean}");
        assert!(times.iter().filter(|ms| **ms < 100).count() > 100);
    }
}
