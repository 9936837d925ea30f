//! `millpond bench replay-cost`: what replay costs by itself, without callers beside it.

use super::super::device::Device;
use super::super::filled_database;
use super::{CAPACITY_MIN, LoadSizes, PAGE_BYTES, killed, log_files};
use crate::bench::{median, scratch};
use crate::crash::EngineSizes;
use output::failure::{Failure, Outcome};
use output::units::{parse_seconds, parse_size, show_size};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const NOTES: &str = "\
A process loads a new database, runs the load of `after-kill`, and is killed with SIGKILL when the log
has so much redo since its checkpoint. This process then opens a copy of the database, several times,
each time so that all redo is applied before the database is open. The files are not in the page cache.

redo: the length of the redo. device: how long the bare device takes to read so much of the log, in
seconds. open: how long the open took, seconds. cores: the time of the cores that it took, seconds. A
machine with n cores needs an nth of that at least. GiB/s: how fast the redo was applied. The last line
has the medians.";

/// How long does replay take by itself, and how much time of the cores?
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct ReplayCost {
    /// Redo since the checkpoint at which the process is killed
    #[arg(long, value_name = "SIZE", default_value = "2000MiB", value_parser = parse_size)]
    redo: u64,
    /// How often the database is opened
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Time that the load goes before the checkpoint
    #[arg(long, value_name = "S", default_value = "5", value_parser = parse_seconds)]
    warmup: Duration,
    /// Buffer pool
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    pool: u64,
    #[command(flatten)]
    load: LoadSizes,
}

/// What an open took, seconds: by the clock, and of the cores.
#[derive(Clone, Copy, Debug)]
struct Cost {
    open_s: f64,
    cores_s: f64,
}

impl ReplayCost {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        if self.redo == 0 {
            return Err(Failure::misuse("--redo 0 would kill before the first commit"));
        }
        let dir = scratch()?;
        let image = dir.dir().join("killed");
        let capacity = Some(self.redo.saturating_mul(2).max(CAPACITY_MIN));
        let engine = EngineSizes { pool: self.pool, capacity, recovery_target: None, page: PAGE_BYTES };
        let (told, redo_bytes) = killed(engine, self.load, self.redo, self.warmup, &image)?;
        drop(told);
        say!("{:>8} {:>7} {:>7} {:>7} {:>7}", "redo", "device", "open", "cores", "GiB/s");
        let mut costs = Vec::new();
        for _ in 0..self.rounds {
            let files = dir.dir().join("db");
            copy(&image, &files)?;
            let device = Device::reads_files(&log_files(&files)?, redo_bytes)?;
            let cost = open(engine, &files)?;
            say!("{}", line(redo_bytes, Some(device.as_secs_f64()), cost));
            costs.push(cost);
            fs::remove_dir_all(&files).map_err(|e| failed(&files, e))?;
        }
        let of = |figure: fn(&Cost) -> f64| median(costs.iter().map(figure).collect());
        let middle = Cost { open_s: of(|cost| cost.open_s), cores_s: of(|cost| cost.cores_s) };
        say!("{}", line(redo_bytes, None, middle));
        Ok(())
    }
}

fn line(redo_bytes: u64, device_s: Option<f64>, cost: Cost) -> String {
    let device = device_s.map_or("median".to_owned(), |s| format!("{s:.2}"));
    let rate = redo_bytes as f64 / cost.open_s / f64::from(1 << 30);
    let redo = show_size(redo_bytes as f64);
    format!("{redo:>8} {device:>7} {:>7.2} {:>7.2} {rate:>7.2}", cost.open_s, cost.cores_s)
}

/// Opens a database with all its redo, checks it and closes it.
fn open(engine: EngineSizes, files: &Path) -> Outcome<Cost> {
    let (begun, before_s) = (Instant::now(), used_s());
    let db = engine.options().eager_recovery(true).open(files)?;
    let cost = Cost { open_s: begun.elapsed().as_secs_f64(), cores_s: used_s() - before_s };
    filled_database::check_and_close(&db, "the kill")?;
    Ok(cost)
}

/// Returns the time of the cores that this process has used, seconds.
fn used_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn failed(path: &Path, e: std::io::Error) -> Failure {
    Failure::failed(format!("{}: {e}", path.display()))
}

/// Copies a directory of files. The copies are on the device, and not in the page cache.
fn copy(from: &Path, to: &Path) -> Outcome {
    fs::create_dir(to).map_err(|e| failed(to, e))?;
    for entry in fs::read_dir(from).map_err(|e| failed(from, e))? {
        let entry = entry.map_err(|e| failed(from, e))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &target)?;
            continue;
        }
        fs::copy(&source, &target).map_err(|e| failed(&target, e))?;
        let file = fs::File::open(&target).map_err(|e| failed(&target, e))?;
        file.sync_all().map_err(|e| failed(&target, e))?;
        let forgotten = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        forgotten.map_err(|e| failed(&target, e.into()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_rate() {
        let cost = Cost { open_s: 4.0, cores_s: 7.125 };
        assert_eq!(line(2 << 30, Some(1.5), cost), "   2 GiB    1.50    4.00    7.12    0.50");
        assert_eq!(line(2 << 30, None, cost), "   2 GiB  median    4.00    7.12    0.50");
    }
}
