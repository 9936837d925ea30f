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
mod life;
mod recipe;
mod resources;

pub use life::{LifeOptions, run_life};

use base::prng::Prng;
use filler::DiskFiller;
use recipe::{ClientDigest, ClientModel, HOT_ROWS, Recipe};
use resources::{ResourceUse, what_grows};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A life that prints nothing for so long hangs, and so does one that commits nothing although the
/// disk has free space.
const HANGS: Duration = Duration::from_secs(600);

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

/// The running child process. Dropping it kills the process.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    if plan.dir.exists() {
        return Err(format!("{} is there already", plan.dir.display()));
    }
    std::fs::create_dir_all(&plan.dir).map_err(|e| format!("{}: {e}", plan.dir.display()))?;
    let mut soak = Soak {
        plan,
        recipe: Recipe { seed: plan.seed },
        models: vec![ClientModel::default(); usize::from(plan.clients)],
        filler: if plan.fill { Some(DiskFiller::new(&plan.dir)?) } else { None },
        rng: Prng::new(plan.seed ^ 0x50a1),
        report: Report::default(),
    };
    let zeros = vec![0; usize::from(plan.clients) * 8];
    std::fs::write(soak.ledger(), zeros).map_err(|e| format!("{}: {e}", soak.ledger().display()))?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(plan.seconds) {
        soak.life(true)?;
    }
    soak.empty()?;
    soak.life(false)?;
    if let Some(what) = what_grows(&soak.report.rests) {
        return Err(format!("{what}\n{}", soak.report));
    }
    let report = soak.report;
    std::fs::remove_dir_all(&plan.dir).map_err(|e| format!("{}: {e}", plan.dir.display()))?;
    Ok(report)
}

struct Soak<'p> {
    plan: &'p Plan,
    recipe: Recipe,
    models: Vec<ClientModel>,
    filler: Option<DiskFiller>,
    rng: Prng,
    report: Report,
}

impl Soak<'_> {
    fn ledger(&self) -> PathBuf {
        self.plan.dir.join("ledger")
    }

    /// Returns the acknowledged steps of each client.
    fn acknowledged(&self) -> Result<Vec<u64>, String> {
        let bytes = std::fs::read(self.ledger()).map_err(|e| format!("{}: {e}", self.ledger().display()))?;
        Ok(bytes.chunks_exact(8).map(client::number).collect())
    }

    /// Runs one life until it is killed or comes to rest.
    fn life(&mut self, work: bool) -> Result<(), String> {
        let number = self.report.lives;
        let acknowledged = self.acknowledged()?;
        let mut process = self.start(number, work)?;
        self.compare(&mut process, &acknowledged)?;
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

    /// Starts a new process with random sizes of pool, log and open files.
    fn start(&mut self, number: u64, work: bool) -> Result<Process, String> {
        let cannot = |e: std::io::Error| format!("cannot start a life: {e}");
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command.arg("soak-life").arg("--dir").arg(self.plan.dir.join("db"));
        command.arg("--ledger").arg(self.ledger());
        let pool = *self.rng.pick(&[8u64, 16, 64]) << 20;
        let redo = *self.rng.pick(&[0u64, 16, 16, 64]) << 20;
        let files = *self.rng.pick(&[0u64, 0, 256]);
        let numbers = [
            ("seed", self.plan.seed),
            ("life", number),
            ("clients", self.plan.clients.into()),
            ("pool-bytes", pool),
            ("redo-bytes", redo),
            ("open-files", files),
        ];
        for (name, value) in numbers {
            command.arg(format!("--{name}={value}"));
        }
        if work {
            command.arg("--work");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(cannot)?;
        let out = child.stdout.take().ok_or("a life has no output")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        Ok(Process { child, lines })
    }

    /// Compares the report of a life with what was acknowledged. Each client may have done one more
    /// step.
    fn compare(&mut self, process: &mut Process, acknowledged: &[u64]) -> Result<(), String> {
        let opened = Instant::now();
        let mut hot = None;
        loop {
            let line = self.next_line(process, opened)?;
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match word {
                "ready" => break,
                "hot" => hot = Some(rest.to_owned()),
                "found" | "account" => {
                    let (client, rest) = rest.split_once(' ').ok_or("a life printed half a line")?;
                    let client: u16 = client.parse().map_err(|_| "a life named no client")?;
                    let acknowledged =
                        acknowledged.get(usize::from(client)).ok_or("a life named an unknown client")?;
                    if word == "found" {
                        let steps = rest.parse().map_err(|_| "a life counted no steps")?;
                        compare_steps(client, *acknowledged, steps)?;
                    } else {
                        self.compare_digest(client, rest)?;
                    }
                }
                _ => return Err(format!("a life printed: {line}")),
            }
        }
        let mut sums = [0; HOT_ROWS];
        for model in &self.models {
            sums.iter_mut().zip(model.digest().hot).for_each(|(sum, hot)| *sum += hot);
        }
        let sums = sums.map(|n| n.to_string()).join(" ");
        if hot.as_deref() != Some(&sums) {
            return Err(format!("the hot rows hold {hot:?}, not {sums}"));
        }
        self.report.steps = self.models.iter().map(|model| model.steps).sum();
        Ok(())
    }

    fn compare_digest(&mut self, client: u16, line: &str) -> Result<(), String> {
        let model = &mut self.models[usize::from(client)];
        let found = ClientDigest::parse(line).ok_or("a life printed no digest")?;
        model.advance(self.recipe, client, found.steps);
        let expected = model.digest();
        // All clients share the hot rows, so a life does not report them by client.
        let found = ClientDigest { hot: expected.hot, ..found };
        if found == expected {
            return Ok(());
        }
        Err(format!("client {client} has {found:?}, must have {expected:?}"))
    }

    /// Lets a life work for some time, and fills and empties the disk meanwhile.
    fn watch(&mut self, process: &mut Process, time: Duration) -> Result<LifeProgress, String> {
        let start = Instant::now();
        let (mut last, mut moved) = (LifeProgress::default(), start);
        let mut change_at = start + self.until_change(time);
        while start.elapsed() < time {
            let line = self.next_line(process, moved)?;
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

    /// Waits for the next line. If it takes long, it empties the disk: a new life may need space
    /// before it is ready.
    fn next_line(&mut self, process: &mut Process, since: Instant) -> Result<String, String> {
        loop {
            match process.lines.recv_timeout(Duration::from_secs(5)) {
                Ok(line) if since.elapsed() < HANGS => return Ok(line),
                Ok(_) => return Err(format!("no step was done for {} s", HANGS.as_secs())),
                Err(RecvTimeoutError::Timeout) if since.elapsed() < HANGS => self.empty()?,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("a life printed nothing for {} s", HANGS.as_secs()));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = process.child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
                    return Err(format!("a life ended by itself: {status}"));
                }
            }
        }
    }

    fn bring_to_rest(&mut self, mut process: Process) -> Result<LifeProgress, String> {
        let asked = Instant::now();
        // The end of its input asks it to come to rest.
        drop(process.child.stdin.take());
        loop {
            let line = self.next_line(&mut process, asked)?;
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

fn compare_steps(client: u16, acknowledged: u64, steps: u64) -> Result<(), String> {
    if steps < acknowledged {
        return Err(format!("client {client} has {steps} steps, but {acknowledged} were acknowledged"));
    }
    if steps > acknowledged + 1 {
        return Err(format!("client {client} has {steps} steps, but only {acknowledged} were acknowledged"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_steps_and_extra_steps_are_found() {
        assert_eq!((compare_steps(0, 7, 7), compare_steps(0, 7, 8)), (Ok(()), Ok(())));
        assert!(compare_steps(0, 7, 6).is_err() && compare_steps(0, 7, 9).is_err());
    }
}
