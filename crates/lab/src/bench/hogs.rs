//! `millpond bench hogs`: a committing thread that shares cores with spinning threads, compared
//! with the bare device.

use super::device::Device;
use super::random::next;
use super::{figure, median, p99, rows, scratch, sorted};
use crate::own_process;
use millpond::{Db, Table};
use output::failure::{Failure, Outcome};
use output::units::parse_time;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROWS: u64 = 200_000;
const VALUE_BYTES: usize = 200;
const POOL_BYTES: u64 = 16 << 20;
const REDO_BYTES: u64 = 32 << 20;

const NOTES: &str = "\
All threads are pinned to a few cores, so the hogs, which only spin, the committer and the
database's own threads share them. The committer puts or deletes one random row in each durable
transaction. Pool and log are so small that the cleaner and purge work all the time. The bare loop
overwrites a 4 KiB block and syncs it. It also waits for a core after every sync, so the rate that
it keeps under the hogs is the limit for a committer. The four measurements of a round are short and
follow each other, because other load on a device changes with time. Shows medians over the rounds,
and medians of the ratios within a round.";

/// A committing thread that shares cores with spinning threads, against the bare device
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(crate) struct Hogs {
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// How long each of the four measurements of a round takes
    #[arg(long, value_name = "S", default_value = "0.5", value_parser = parse_time)]
    seconds: Duration,
    /// Cores that all threads share
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    cores: u16,
    /// Spinning threads
    #[arg(long, value_name = "N", default_value_t = 2)]
    hogs: u16,
}

/// Pins this thread, and all that it starts, to the first `cores` of its cores.
fn pin(cores: usize) -> Outcome {
    let failed = |e| Failure::failed(format!("cannot pin the threads to {cores} cores: {e}"));
    let may = sched_getaffinity(None).map_err(failed)?;
    let mut set = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|&cpu| may.is_set(cpu)).take(cores).for_each(|cpu| set.set(cpu));
    sched_setaffinity(None, &set).map_err(failed)
}

/// Steps a second, and their 99th percentile in microseconds.
type Rate = [f64; 2];

/// Runs `step` again and again.
fn rate(time: Duration, mut step: impl FnMut(u64) -> Outcome) -> Outcome<Rate> {
    let (start, mut took) = (Instant::now(), Vec::new());
    while start.elapsed() < time {
        let from = Instant::now();
        step(took.len() as u64)?;
        took.push(from.elapsed().as_secs_f64() * 1e6);
    }
    let a_second = took.len() as f64 / start.elapsed().as_secs_f64();
    Ok([a_second, p99(&sorted(took)).unwrap_or(f64::INFINITY)])
}

struct Bench {
    device: Device,
    db: Db,
    table: Table,
    time: Duration,
}

impl Bench {
    fn new(dir: &Path, time: Duration) -> Outcome<Bench> {
        let device = Device::new(&dir.join("device"))?;
        let options = own_process::options().buffer_pool_bytes(POOL_BYTES).redo_capacity_bytes(REDO_BYTES);
        let db = options.open(dir.join("db"))?;
        let table = rows(&db, ROWS, VALUE_BYTES)?;
        Ok(Bench { device, db, table, time })
    }

    /// Measures durable writes of one block.
    fn device(&mut self) -> Outcome<Rate> {
        rate(self.time, |n| self.device.write(n))
    }

    /// Measures durable changes of one row.
    fn commits(&self, mut state: u64) -> Outcome<Rate> {
        rate(self.time, |n| {
            let key = (next(&mut state) % ROWS).to_be_bytes();
            let mut tx = self.db.begin()?;
            // Deletes give purge work.
            if n % 4 == 0 {
                tx.delete(&self.table, &key)?;
            } else {
                tx.put(&self.table, &key, &[n as u8; VALUE_BYTES])?;
            }
            tx.commit()?;
            Ok(())
        })
    }

    /// Measures the device and the committer beside so many spinning threads.
    fn beside(&mut self, hogs: u16, seed: u64) -> Outcome<[Rate; 2]> {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..hogs {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let measured = self.device().and_then(|device| Ok([device, self.commits(seed)?]));
            stop.store(true, Ordering::Relaxed);
            measured
        })
    }
}

impl Hogs {
    /// Runs the benchmark.
    pub(crate) fn run(self) -> Outcome {
        pin(usize::from(self.cores))?;
        let dir = scratch()?;
        let mut bench = Bench::new(dir.dir(), self.seconds)?;
        // Device alone, committer alone, device with hogs, committer with hogs.
        let mut found: [Vec<Rate>; 4] = Default::default();
        for round in 0..self.rounds {
            for (with_hogs, hogs) in [0, self.hogs].into_iter().enumerate() {
                let [device, commits] = bench.beside(hogs, round + 1)?;
                found[with_hogs * 2].push(device);
                found[with_hogs * 2 + 1].push(commits);
            }
        }
        self.print(&found);
        let figure = |name| figure(&bench.db, name);
        say!("pages written {:.0}, rows purged {:.0}", figure("pages_written"), figure("purge_rows"));
        Ok(())
    }

    fn print(&self, found: &[Vec<Rate>; 4]) {
        let ratio = |a: &[Rate], b: &[Rate]| median(a.iter().zip(b).map(|(a, b)| a[0] / b[0]).collect());
        say!("{:>30} {:>10} {:>10} {:>16}", "", "a second", "p99, us", "of the device's");
        for (at, name) in
            ["device", "committer", "device with hogs", "committer with hogs"].iter().enumerate()
        {
            let of = |which: usize| median(found[at].iter().map(|figures| figures[which]).collect());
            let ratio = ratio(&found[at], &found[at / 2 * 2]);
            say!("{name:>30} {:>10.0} {:>10.0} {ratio:>16.2}", of(0), of(1));
        }
        say!(
            "with {} hogs the device's loop keeps {:.2} of its rate, the committer {:.2}",
            self.hogs,
            ratio(&found[2], &found[0]),
            ratio(&found[3], &found[1])
        );
    }
}
