//! The simulator's command line. `--help` lists it.

use base::sync::Mutex;
use base::sync::atomic::Ordering;
use clap::{Parser, ValueEnum};
use millpond::planted::Bug;
use sim::budget::{Budget, Summary};
use sim::explore::Plan;
use sim::flips::{ByteRange, Ending, Outcome, SmallDatabase};
use sim::jobs;
use sim::workloads::{self, Workload};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "\
sim [--seconds N] [--seed S] [--workload W] [--jobs J]
       explores: runs workloads, cuts the power, judges what recovery makes of it
   sim --seed S --workload W [--step N [--choice C]]
       replays: only the run without --step; all choices without --choice
   sim planted [--seconds N] [--seed S] [--workload W] [--jobs J] [--bug B]
       plants each mistake (or only B) in the engine and shows how soon it is found
   sim flips [--stride N] [--end E] [--jobs J]
       flips one bit of every byte of a small database: the damage is named, or changes nothing
   sim flips --end E --file F --at N
       replays one flip
   sim list
       lists the workloads";

/// Runs the engine's threads in simulated worlds and cuts the power anywhere.
///
/// Exit status 0 if nothing was found, 1 if something was, 2 for wrong arguments.
#[derive(Debug, Parser)]
// A child process gets its parent's arguments and then its own: the last one counts.
#[command(name = "sim", override_usage = USAGE, term_width = 0, args_override_self = true)]
struct Args {
    /// Explore or replay if there is none
    #[arg(value_enum)]
    command: Option<Command>,
    /// Seconds to explore, or to search for each planted mistake [default: 60]
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Only this workload
    #[arg(long, value_name = "W", value_parser = workload)]
    workload: Option<&'static Workload>,
    /// Processes at once
    #[arg(long, value_name = "J", default_value_t = 2)]
    jobs: u64,
    /// Cut the power before this operation of the disk
    #[arg(long, value_name = "N")]
    step: Option<u64>,
    /// What survives the cut: 0 nothing, 1 everything, from 2 on a random subset
    #[arg(long, value_name = "C")]
    choice: Option<u64>,
    /// Plant only this mistake
    #[arg(long, value_name = "B", value_parser = bug)]
    bug: Option<Bug>,
    /// Flip every N-th byte
    #[arg(long, value_name = "N", default_value_t = 1)]
    stride: u64,
    /// How the damaged database was left: just-opened, running or closed [default: all three]
    #[arg(long, value_name = "E", value_parser = ending)]
    end: Option<Ending>,
    /// The file to damage
    #[arg(long, value_name = "F")]
    file: Option<PathBuf>,
    /// The byte to damage
    #[arg(long, value_name = "N")]
    at: Option<u64>,
    /// The share of the work that this process does, of `--jobs` shares
    #[arg(long, hide = true)]
    share: Option<u64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Command {
    /// Plant each known mistake and show how soon it is found
    Planted,
    /// Flip one bit of every byte of small databases
    Flips,
    /// List the workloads
    List,
}

fn workload(name: &str) -> Result<&'static Workload, String> {
    workloads::find(name).ok_or_else(|| "`sim list` lists the workloads".to_owned())
}

fn bug(name: &str) -> Result<Bug, String> {
    let names: Vec<_> = Bug::ALL.iter().map(|bug| format!("{bug:?}")).collect();
    let found = names.iter().position(|known| known == name).map(|n| Bug::ALL[n]);
    found.ok_or_else(|| format!("it is one of {}", names.join(", ")))
}

fn ending(name: &str) -> Result<Ending, String> {
    let found = Ending::ALL.iter().find(|(known, _)| *known == name).map(|(_, ending)| *ending);
    found.ok_or_else(|| "it is one of just-opened, running, closed".to_owned())
}

impl Args {
    fn jobs(&self) -> u64 {
        self.jobs.max(1)
    }
}

fn main() -> ExitCode {
    let args = match args::parse::<Args>("sim") {
        Ok(args) => args,
        Err(status) => return status,
    };
    let result = match args.command {
        Some(Command::List) => {
            for w in workloads::ALL {
                println!("{:16} {}", w.name, w.about);
            }
            return ExitCode::SUCCESS;
        }
        Some(Command::Planted) => planted(&args),
        Some(Command::Flips) => flips(&args),
        None if args.seconds.is_some() => run(&args),
        None if args.workload.is_some() => replay(&args),
        None => run(&args),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => misuse(&what),
    }
}

fn misuse(what: &str) -> ExitCode {
    eprintln!("sim: {what}");
    ExitCode::from(2)
}

fn plan(args: &Args) -> Plan {
    Plan { seed: args.seed, flags: 0, backtrace: false }
}

/// What this process explores: the share that its parent gave it, else everything.
fn budget(args: &Args, flags: u128, findings: usize) -> Budget {
    let share = args.share.unwrap_or(0);
    Budget {
        plan: Plan { flags, ..plan(args) },
        only: args.workload,
        time: Duration::from_secs(args.seconds.unwrap_or(60)),
        threads: 1,
        share: (share, args.jobs()),
        core: share as usize,
        findings,
        parts: u64::MAX,
        quiet: flags != 0,
        began: None,
    }
}

/// Explores in child processes, each with its own `--share`.
fn run(args: &Args) -> Result<bool, String> {
    let budget = budget(args, 0, 10);
    if args.share.is_some() {
        return Ok(jobs::explore_share(&budget).findings.is_empty());
    }
    let done = jobs::explore_in_processes(budget.share.1, |share| {
        let mut child = jobs::child();
        child.args(std::env::args().skip(1)).args(["--share", &share.to_string()]);
        child
    })?;
    report(&done);
    Ok(done.findings.is_empty())
}

fn report(done: &Summary) {
    for (workload, states) in &done.states {
        println!("{workload:16} {states:8} states");
    }
    let seconds = done.took.as_secs_f64();
    println!(
        "{} states in {seconds:.1} s ({:.0} a second), {} runs with {} scheduling points, {} of them repeated, {} \
         seeds, {} findings",
        done.total(),
        done.total() as f64 / seconds,
        done.runs,
        done.steps,
        done.repeated,
        done.seeds,
        done.findings.len()
    );
}

/// Plants each mistake and shows how soon it is found. Returns whether all were.
fn planted(args: &Args) -> Result<bool, String> {
    let bugs = args.bug.as_ref().map_or(Bug::ALL, std::slice::from_ref);
    if args.share.is_some() {
        // This process tries all seeds. Its share is only the core that it runs on.
        let alone = Budget { share: (0, 1), ..budget(args, bugs[0].flag(), 1) };
        return Ok(jobs::explore_share(&alone).findings.is_empty());
    }
    let next = base::sync::atomic::AtomicUsize::new(0);
    let (next, missed) = (&next, &Mutex::new(0));
    std::thread::scope(|scope| {
        for job in 0..args.jobs() {
            scope.spawn(move || {
                while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let bug = format!("{bug:?}");
                    let mut child = jobs::child();
                    child.args(std::env::args().skip(1)).args(["--bug", &bug, "--share", &job.to_string()]);
                    match child.spawn() {
                        Ok(child) => {
                            *missed.lock() += u64::from(!was_found(&bug, &jobs::follow_child(child)));
                        }
                        Err(e) => eprintln!("sim: cannot start a process: {e}"),
                    }
                }
            });
        }
    });
    let missed = *missed.lock();
    println!("{missed} of the mistakes were not found");
    Ok(missed == 0)
}

/// Prints how soon a mistake was found. Returns whether it was.
fn was_found(bug: &str, done: &Summary) -> bool {
    let (seeds, states, seconds) = (done.seeds, done.total(), done.took.as_secs_f64());
    let effort = format!("{seeds} seeds, {:5} runs, {states:7} states, {seconds:6.1} s", done.runs);
    match done.findings.first() {
        Some(finding) => {
            let what: String = finding.what.chars().take(100).collect();
            println!("{bug:26} {effort}  {}: {what}", finding.workload);
            true
        }
        None => {
            println!("{bug:26} {effort}  NOT FOUND");
            false
        }
    }
}

/// Flips every byte of small databases. Returns whether the damage was always named or harmless.
fn flips(args: &Args) -> Result<bool, String> {
    let endings: Vec<_> =
        Ending::ALL.iter().filter(|(_, ending)| args.end.is_none_or(|only| only == *ending)).collect();
    let first = endings[0].1;
    if let Some(at) = args.at {
        let file = args.file.as_deref().ok_or("which --file?")?;
        let outcome = SmallDatabase::new(first).flip(file, at);
        println!("{outcome:?}");
        return Ok(outcome.is_ok());
    }
    let stride = args.stride.max(1);
    if let Some(share) = args.share {
        sim::budget::stay_on_core(share as usize);
        return Ok(jobs::flip_share(first, stride, (share, args.jobs())));
    }
    let mut good = true;
    for (name, _) in endings {
        let start = Instant::now();
        let (ranges, wrong) = jobs::flip_in_processes(args.jobs(), |share| {
            let mut child = jobs::child();
            child.args(std::env::args().skip(1)).args(["--end", name, "--share", &share.to_string()]);
            child
        })?;
        good &= wrong == 0;
        report_flips(name, &ranges, wrong, stride, start.elapsed());
    }
    Ok(good)
}

fn report_flips(name: &str, ranges: &[ByteRange], wrong: u64, stride: u64, took: Duration) {
    let mut flips: BTreeMap<(&str, Outcome), u64> = BTreeMap::new();
    for range in ranges {
        *flips.entry((&range.file, range.outcome)).or_default() += range.flips;
    }
    for ((file, outcome), flips) in &flips {
        println!("{name:12} {file:40} {outcome:?} {flips}");
    }
    for ByteRange { file, from, to, outcome, .. } in not_named(ranges, stride) {
        println!("{name:12} {file:40} {outcome:?} at {from}..{to}");
    }
    let of = |outcome| flips.iter().filter(|((_, o), _)| *o == outcome).map(|(_, n)| n).sum::<u64>();
    println!(
        "{name}: {} named, {} harmless, {} of the last commit alone, {wrong} wrong, {:.1} s",
        of(Outcome::Named),
        of(Outcome::Harmless),
        of(Outcome::TailLost),
        took.as_secs_f64()
    );
}

/// Returns the ranges whose damage was not named. Joins neighbours, which different processes have
/// flipped.
fn not_named(ranges: &[ByteRange], stride: u64) -> Vec<ByteRange> {
    let mut joined: Vec<ByteRange> = Vec::new();
    for range in ranges.iter().filter(|r| r.outcome != Outcome::Named) {
        match joined.last_mut() {
            Some(last)
                if last.file == range.file
                    && last.outcome == range.outcome
                    && last.to + stride > range.from =>
            {
                last.to = range.to;
            }
            _ => joined.push(range.clone()),
        }
    }
    joined
}

fn replay(args: &Args) -> Result<bool, String> {
    let plan = Plan { backtrace: true, ..plan(args) };
    let workload = args.workload.ok_or("which --workload?")?;
    let ran = match plan.run(workload).and_then(|ran| plan.repeats(workload, &ran).map(|()| ran)) {
        Ok(ran) => ran,
        Err(finding) => {
            println!("{finding}");
            return Ok(false);
        }
    };
    println!(
        "{}, seed {}: hash {:016x}, {} scheduling points, {} us, {} operations, {} effects",
        workload.name,
        plan.seed,
        ran.hash,
        ran.steps,
        ran.now_us,
        ran.disk.op_count(),
        ran.history.len()
    );
    let Some(step) = args.step else { return Ok(true) };
    let mut walk = ran.disk.walk();
    while walk.at() < step && walk.step() {}
    if walk.at() != step {
        return Err(format!("the run has {} operations", walk.at()));
    }
    let choices = match args.choice {
        Some(choice) => choice..choice + 1,
        None => 0..2 + sim::explore::SUBSETS,
    };
    let mut clean = true;
    for choice in choices {
        match plan.state(workload, &ran, &walk, choice, true) {
            Ok(()) => println!("step {step}, choice {choice}: as promised"),
            Err(finding) => {
                clean = false;
                println!("{finding}");
            }
        }
    }
    Ok(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_arguments_are_named() {
        let wrong = [
            ("--sead=1", "--sead"),
            ("forget", "forget"),
            ("--workload=none", "none"),
            ("--bug=None", "None"),
            ("--jobs=many", "many"),
        ];
        for (argument, named) in wrong {
            let error = Args::try_parse_from(["sim", argument]).expect_err(argument);
            let text = args::sentence(&error);
            assert!(text.contains(named), "{argument}: {text}");
        }
    }

    #[test]
    fn a_child_repeats_the_arguments_of_its_parent() {
        let args =
            ["sim", "planted", "--jobs", "3", "--bug", "NoLogSync", "--bug", "NoRestore", "--share", "2"];
        let args = Args::try_parse_from(args).expect("the last --bug counts");
        assert!(args.bug == Some(Bug::NoRestore) && args.jobs == 3 && args.share == Some(2));
        assert!(matches!(args.command, Some(Command::Planted)));
    }
}
