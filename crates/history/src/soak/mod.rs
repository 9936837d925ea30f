//! A soak: everything at once, for hours. A child process works on one database; it is killed and another one goes on, now and then it
//! comes to rest and closes; the disk fills and is emptied. Each new process tells what it found, and that must be exactly what was
//! acknowledged. Memory, disk and open files at rest must stay as they are.
//!
//! What clients do follows from a seed, so the parent knows from the number of steps what every row must be. A kill
//! loses nothing that was handed to the operating system; lost writes are the simulator's business.

mod client;
mod filler;
mod life;
mod recipe;
mod vitals;

pub use life::{Way, lead};

use base::prng::Prng;
use filler::Filler;
use recipe::{Account, HOT_ROWS, Model, Recipe};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use vitals::{Vitals, what_grows};

/// A life that says nothing, or commits nothing though the disk has room, for so long hangs.
const HANGS: Duration = Duration::from_secs(180);

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Plan {
    /// For so many seconds
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// A kill about every so many seconds; each fourth life comes to rest instead
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    kill_every: u64,
    /// Clients at once
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..1000))]
    clients: u16,
    /// Where; must not exist. Removed if nothing is found
    #[arg(long, default_value_os_t = std::env::current_dir().unwrap_or_default().join("soak"))]
    dir: PathBuf,
    /// Fill the file system of --dir now and then; it must be a small one
    #[arg(long)]
    fill: bool,
    /// What the clients do
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What a soak came to.
#[derive(Debug, Default)]
pub struct Report {
    lives: u64,
    kills: u64,
    steps: u64,
    refused: u64,
    retried: u64,
    scans: u64,
    fillings: u64,
    rests: Vec<Vitals>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} lives, {} kills, the disk filled {} times: {} steps acknowledged and found, {} scans",
            self.lives, self.kills, self.fillings, self.steps, self.scans
        )?;
        writeln!(f, "tried again: {} after a conflict, {} on a full disk", self.retried, self.refused)?;
        write!(f, "at rest (memory, open files, disk):")?;
        self.rests.iter().try_for_each(|rest| {
            write!(f, " ({} MiB, {}, {} MiB)", rest.memory >> 20, rest.open_files, rest.disk >> 20)
        })
    }
}

/// The running child. It does not outlive its use.
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

/// What the last `alive` or `rest` of a life said.
#[derive(Clone, Copy, Debug, Default)]
struct Alive {
    acknowledged: u64,
    refused: u64,
    retried: u64,
    scans: u64,
    vitals: Vitals,
}

impl Alive {
    fn parse(numbers: &str) -> Option<Alive> {
        let numbers: Vec<u64> = numbers.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let [acknowledged, refused, retried, scans, memory, open_files, disk] = numbers[..] else {
            return None;
        };
        let vitals = Vitals { memory, open_files, disk };
        Some(Alive { acknowledged, refused, retried, scans, vitals })
    }
}

/// Runs it. `Err` says what must not be; the directory stays then.
pub fn run(plan: &Plan) -> Result<Report, String> {
    if plan.dir.exists() {
        return Err(format!("{} is there already", plan.dir.display()));
    }
    std::fs::create_dir_all(&plan.dir).map_err(|e| format!("{}: {e}", plan.dir.display()))?;
    let mut soak = Soak {
        plan,
        recipe: Recipe { seed: plan.seed },
        models: vec![Model::default(); usize::from(plan.clients)],
        filler: if plan.fill { Some(Filler::new(&plan.dir)?) } else { None },
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
    models: Vec<Model>,
    filler: Option<Filler>,
    rng: Prng,
    report: Report,
}

impl Soak<'_> {
    fn ledger(&self) -> PathBuf {
        self.plan.dir.join("ledger")
    }

    /// Steps that clients were told are done, by client.
    fn acknowledged(&self) -> Result<Vec<u64>, String> {
        let bytes = std::fs::read(self.ledger()).map_err(|e| format!("{}: {e}", self.ledger().display()))?;
        Ok(bytes.chunks_exact(8).map(client::number).collect())
    }

    /// One life, from what the last one left to a kill or to rest.
    fn life(&mut self, work: bool) -> Result<(), String> {
        let number = self.report.lives;
        let acknowledged = self.acknowledged()?;
        let mut process = self.start(number, work)?;
        self.compare(&mut process, &acknowledged)?;
        let rests = !work || number % 4 == 3;
        let seconds = self.plan.kill_every as f64 * (0.5 + self.rng.below(1000) as f64 / 1000.0);
        let alive =
            if work { self.watch(&mut process, Duration::from_secs_f64(seconds))? } else { Alive::default() };
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
            alive.vitals.memory >> 20,
            alive.vitals.open_files,
            alive.vitals.disk >> 20,
            if rests { ", at rest" } else { "" }
        );
        let report = &mut self.report;
        report.lives += 1;
        report.refused += alive.refused;
        report.retried += alive.retried;
        report.scans += alive.scans;
        report.rests.extend(rests.then_some(alive.vitals));
        Ok(())
    }

    /// A new process, led another way each time.
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
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines.take_while(|line| tell.send(line.clone()).is_ok()).for_each(drop);
        });
        Ok(Process { child, lines })
    }

    /// What a life found must be what was acknowledged, and at most one step of each client more.
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
                    let (client, rest) = rest.split_once(' ').ok_or("a life said half a line")?;
                    let client: u16 = client.parse().map_err(|_| "a life named no client")?;
                    let told =
                        acknowledged.get(usize::from(client)).ok_or("a life named an unknown client")?;
                    if word == "found" {
                        found(client, *told, rest.parse().map_err(|_| "a life counted no steps")?)?;
                    } else {
                        self.compare_account(client, rest)?;
                    }
                }
                _ => return Err(format!("a life said: {line}")),
            }
        }
        let mut sums = [0; HOT_ROWS];
        for model in &self.models {
            sums.iter_mut().zip(model.account().hot).for_each(|(sum, hot)| *sum += hot);
        }
        let sums = sums.map(|n| n.to_string()).join(" ");
        if hot.as_deref() != Some(&sums) {
            return Err(format!("the hot rows hold {hot:?}, not {sums}"));
        }
        self.report.steps = self.models.iter().map(|model| model.steps).sum();
        Ok(())
    }

    fn compare_account(&mut self, client: u16, line: &str) -> Result<(), String> {
        let model = &mut self.models[usize::from(client)];
        let told = Account::parse(line).ok_or("a life gave no account")?;
        model.advance(self.recipe, client, told.steps);
        let must = model.account();
        // Hot rows belong to all, so a life cannot tell them by client.
        let told = Account { hot: must.hot, ..told };
        if told == must { Ok(()) } else { Err(format!("client {client} has {told:?}, must have {must:?}")) }
    }

    /// Lets it work, and fills and empties the disk meanwhile.
    fn watch(&mut self, process: &mut Process, time: Duration) -> Result<Alive, String> {
        let start = Instant::now();
        let (mut last, mut moved) = (Alive::default(), start);
        let mut change_at = start + self.until_change(time);
        while start.elapsed() < time {
            let heard = self.next_line(process, moved)?;
            let alive = heard.strip_prefix("alive ").and_then(Alive::parse);
            let alive = alive.ok_or_else(|| format!("a life said: {heard}"))?;
            if alive.acknowledged > last.acknowledged || self.filler.as_ref().is_some_and(Filler::is_full) {
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

    /// When the disk fills or is emptied next: full for seconds, with room for a good part of a life.
    fn until_change(&mut self, time: Duration) -> Duration {
        let full = self.filler.as_ref().is_some_and(Filler::is_full);
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
        self.filler.as_mut().map_or(Ok(()), Filler::empty)
    }

    /// The next line, while waiting for which a full disk is emptied: a new life may need room before it is ready.
    fn next_line(&mut self, process: &mut Process, since: Instant) -> Result<String, String> {
        loop {
            match process.lines.recv_timeout(Duration::from_secs(5)) {
                Ok(line) if since.elapsed() < HANGS => return Ok(line),
                Ok(_) => return Err(format!("no step was done for {} s", HANGS.as_secs())),
                Err(RecvTimeoutError::Timeout) if since.elapsed() < HANGS => self.empty()?,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("a life said nothing for {} s", HANGS.as_secs()));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = process.child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
                    return Err(format!("a life ended by itself: {status}"));
                }
            }
        }
    }

    fn bring_to_rest(&mut self, mut process: Process) -> Result<Alive, String> {
        let asked = Instant::now();
        // Its input ends: it comes to rest.
        drop(process.child.stdin.take());
        loop {
            let line = self.next_line(&mut process, asked)?;
            if let Some(alive) = line.strip_prefix("rest ").and_then(Alive::parse) {
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

fn found(client: u16, told: u64, steps: u64) -> Result<(), String> {
    if steps < told {
        return Err(format!("client {client} was told that {told} steps are done, {steps} are"));
    }
    if steps > told + 1 {
        return Err(format!("client {client} had done {told} steps or one more, {steps} are there"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_step_and_one_that_nobody_did_are_found() {
        assert_eq!((found(0, 7, 7), found(0, 7, 8)), (Ok(()), Ok(())));
        assert!(found(0, 7, 6).is_err() && found(0, 7, 9).is_err());
    }
}
