//! A soak test: everything at once, for hours. A child process works on a database until it is
//! killed, and the next one continues. Sometimes a child comes to rest and closes the database
//! instead. The disk is filled and emptied. Each new process reports what it finds, which must be
//! exactly what was acknowledged. Memory, disk space and open files at rest must not grow.
//!
//! What clients do follows from a seed, so the parent can compute every row from the number of
//! steps. A kill loses nothing that was given to the operating system; the simulator tests lost
//! writes.

mod client;
mod filler;
pub mod kills;
mod life;
mod lives;
mod recipe;
mod resources;
mod shared;

pub use life::{LifeOptions, run_life};

use base::prng::Prng;
use filler::DiskFiller;
use lives::{LifeSettings, Lives, Process};
use resources::{ResourceUse, what_grows};
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Plan {
    /// How long to run, in seconds
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// Seconds between two kills, about; every fourth life comes to rest instead
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    kill_every: u64,
    /// Client threads
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..1000))]
    clients: u16,
    /// Directory of the database; must not exist. Removed if nothing is found
    #[arg(long, default_value_os_t = std::env::current_dir().unwrap_or_default().join("soak"))]
    dir: PathBuf,
    /// Sometimes fill the file system of --dir, which must be a small one
    #[arg(long)]
    fill: bool,
    /// Decides what the clients do
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The result of a soak.
#[derive(Debug, Default)]
pub struct Report {
    lives: u64,
    kills: u64,
    steps: u64,
    refused: u64,
    retried: u64,
    scans: u64,
    fillings: u64,
    rests: Vec<ResourceUse>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} lives, {} kills, the disk filled {} times: {} steps acknowledged and found, {} scans",
            self.lives, self.kills, self.fillings, self.steps, self.scans
        )?;
        writeln!(f, "tried again: {} after a conflict, {} on a full disk", self.retried, self.refused)?;
        write!(f, "at rest (memory, open files, disk, free part of it):")?;
        self.rests.iter().try_for_each(|rest| {
            write!(
                f,
                " ({} MiB, {}, {} MiB, {} MiB)",
                rest.memory >> 20,
                rest.open_files,
                rest.disk >> 20,
                rest.free >> 20
            )
        })
    }
}

/// The numbers of a line `alive` or `rest`.
#[derive(Clone, Copy, Debug, Default)]
struct LifeProgress {
    acknowledged: u64,
    refused: u64,
    retried: u64,
    scans: u64,
    resources: ResourceUse,
}

impl LifeProgress {
    fn parse(numbers: &str) -> Option<LifeProgress> {
        let numbers: Vec<u64> = numbers.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [acknowledged, refused, retried, scans, memory, open_files, disk, free] = numbers[..] else {
            return None;
        };
        let resources = ResourceUse { memory, open_files, disk, free };
        Some(LifeProgress { acknowledged, refused, retried, scans, resources })
    }
}

/// Runs the soak. An error is a finding; then the directory stays.
pub fn run(plan: &Plan) -> Result<Report, String> {
    let mut soak = Soak {
        plan,
        lives: Lives::new(&plan.dir, plan.seed, plan.clients)?,
        filler: if plan.fill { Some(DiskFiller::new(&plan.dir)?) } else { None },
        rng: Prng::new(plan.seed ^ 0x50a1),
        report: Report::default(),
    };
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(plan.seconds) {
        soak.life(true)?;
    }
    soak.empty()?;
    soak.life(false)?;
    if let Some(what) = what_grows(&soak.report.rests) {
        return Err(format!("{what}\n{}", soak.report));
    }
    soak.lives.remove()?;
    Ok(soak.report)
}

struct Soak<'p> {
    plan: &'p Plan,
    lives: Lives,
    filler: Option<DiskFiller>,
    rng: Prng,
    report: Report,
}

impl Soak<'_> {
    /// Returns random sizes of pool, log and open files.
    fn settings(&mut self, work: bool) -> LifeSettings {
        LifeSettings {
            number: self.report.lives,
            work,
            at_once: false,
            scanners: 2,
            page_bytes: 4096,
            pool_bytes: *self.rng.pick(&[8u64, 16, 64]) << 20,
            redo_bytes: *self.rng.pick(&[0u64, 16, 16, 64]) << 20,
            recovery_target_ms: 0,
            open_files: *self.rng.pick(&[0u64, 0, 256]),
        }
    }

    /// Runs one life until it is killed or comes to rest.
    fn life(&mut self, work: bool) -> Result<(), String> {
        let number = self.report.lives;
        let acknowledged = self.lives.acknowledged()?;
        let settings = self.settings(work);
        let mut process = self.lives.start(&settings)?;
        let filler = &mut self.filler;
        // A new life may need space before it is ready.
        let mut idle = || filler.as_mut().map_or(Ok(()), DiskFiller::empty);
        self.lives.compare(&mut process, &acknowledged, &settings, &mut idle)?;
        self.report.steps = self.lives.steps();
        let rests = !work || number % 4 == 3;
        let seconds = self.plan.kill_every as f64 * (0.5 + self.rng.below(1000) as f64 / 1000.0);
        let alive = if work {
            self.watch(&mut process, Duration::from_secs_f64(seconds))?
        } else {
            LifeProgress::default()
        };
        let alive = if rests {
            self.empty()?;
            self.bring_to_rest(process)?
        } else {
            self.report.kills += 1;
            drop(process);
            alive
        };
        println!(
            "life {number}: {} steps, {} refused, {} tried again, {} scans; {} MiB of memory, {} files, {} MiB of disk{}",
            alive.acknowledged,
            alive.refused,
            alive.retried,
            alive.scans,
            alive.resources.memory >> 20,
            alive.resources.open_files,
            alive.resources.disk >> 20,
            if rests { ", at rest" } else { "" }
        );
        let report = &mut self.report;
        report.lives += 1;
        report.refused += alive.refused;
        report.retried += alive.retried;
        report.scans += alive.scans;
        report.rests.extend(rests.then_some(alive.resources));
        Ok(())
    }

    /// Lets a life work for some time, and fills and empties the disk meanwhile.
    fn watch(&mut self, process: &mut Process, time: Duration) -> Result<LifeProgress, String> {
        let start = Instant::now();
        let (mut last, mut moved) = (LifeProgress::default(), start);
        let mut change_at = start + self.until_change(time);
        while start.elapsed() < time {
            let line = process.next_line(moved, &mut || self.empty())?;
            let alive = line.strip_prefix("alive ").and_then(LifeProgress::parse);
            let alive = alive.ok_or_else(|| format!("a life printed: {line}"))?;
            if alive.acknowledged > last.acknowledged || self.filler.as_ref().is_some_and(DiskFiller::is_full)
            {
                moved = Instant::now();
            }
            last = alive;
            if Instant::now() > change_at {
                self.fill_or_empty()?;
                change_at = Instant::now() + self.until_change(time);
            }
        }
        Ok(last)
    }

    /// Returns the time until the disk is next filled or emptied. It is full for seconds, and not
    /// full for a large part of a life.
    fn until_change(&mut self, time: Duration) -> Duration {
        let full = self.filler.as_ref().is_some_and(DiskFiller::is_full);
        let most = if full { time.min(Duration::from_secs(8)) } else { time };
        most * (200 + self.rng.below(800) as u32) / 1000
    }

    fn fill_or_empty(&mut self) -> Result<(), String> {
        let Some(filler) = &mut self.filler else { return Ok(()) };
        if filler.is_full() {
            return filler.empty();
        }
        self.report.fillings += 1;
        filler.fill()
    }

    fn empty(&mut self) -> Result<(), String> {
        self.filler.as_mut().map_or(Ok(()), DiskFiller::empty)
    }

    fn bring_to_rest(&mut self, mut process: Process) -> Result<LifeProgress, String> {
        let asked = Instant::now();
        // The end of its input asks it to come to rest.
        drop(process.child.stdin.take());
        loop {
            let line = process.next_line(asked, &mut || self.empty())?;
            if let Some(alive) = line.strip_prefix("rest ").and_then(LifeProgress::parse) {
                let status = process.child.wait().map_err(|e| format!("cannot wait for a life: {e}"))?;
                return if status.success() {
                    Ok(alive)
                } else {
                    Err(format!("a life closed with {status}"))
                };
            }
        }
    }
}
