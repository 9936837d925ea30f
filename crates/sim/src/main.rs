//! The simulator's command line. `--help` lists it.

use base::sync::Mutex;
use base::sync::atomic::Ordering;
use millpond::planted::Bug;
use sim::budget::{Budget, Summary};
use sim::engine::Engine;
use sim::explore::Plan;
use sim::flips::{ByteRange, Ending, Outcome, SmallDatabase};
use sim::jobs;
use sim::subject::Subject;
use sim::toy::{Flaw, Toy};
use sim::workloads::{self, Workload};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

const HELP: &str = "\
sim: the engine's threads in simulated worlds, the power cut anywhere

  sim [--seconds N] [--seed S] [--workload W] [--jobs J]
        explores for N seconds (60) from seed S (1) on, in J processes (2); only W if given
  sim --seed S --workload W [--step N [--choice C]]
        replays: the run alone without --step; then the power cut before operation N of the disk,
        where survives nothing (C = 0), everything (1), a random subset (2..); all of these without --choice
  sim planted [--seconds N] [--seed S] [--workload W] [--jobs J] [--bug B]
        plants each mistake (or only B) in the engine, J at a time (2), and shows how soon it is found, giving up after N
        seconds (60) each
  sim flips [--stride N] [--end E] [--jobs J]
        flips a bit of every N-th byte (1) of a small database that was just-opened, running or closed (all three) and sees
        that it is named or changes nothing; lists the bytes of which the damage did not show
  sim flips --end E --file F --at N
        replays one
  sim list
        names the workloads
  --subject toy
        the touchstone instead of the engine";

struct Args {
    values: BTreeMap<String, String>,
    command: Option<String>,
}

impl Args {
    fn parse() -> Result<Args, String> {
        let known = [
            "seconds", "seed", "workload", "jobs", "share", "step", "choice", "subject", "bug", "stride",
            "end", "file", "at",
        ];
        let mut args = Args { values: BTreeMap::new(), command: None };
        let mut rest = std::env::args().skip(1);
        while let Some(arg) = rest.next() {
            if arg == "--help" || arg == "-h" {
                args.command = Some("help".into());
            } else if let Some(name) = arg.strip_prefix("--") {
                if !known.contains(&name) {
                    return Err(format!("there is no option --{name}; --help lists them"));
                }
                let value = rest.next().ok_or(format!("--{name} needs a value"))?;
                args.values.insert(name.to_owned(), value);
            } else if args.command.is_none() {
                args.command = Some(arg);
            } else {
                return Err(format!("one command at a time, not also {arg}"));
            }
        }
        Ok(args)
    }

    fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let parse = |v: &String| v.parse().map_err(|_| format!("--{name} {v}: not a number"));
        self.values.get(name).map(parse).transpose()
    }

    fn workload(&self) -> Result<Option<&'static Workload>, String> {
        let find = |name: &String| {
            workloads::find(name).ok_or(format!("there is no workload {name}; `sim list` names them"))
        };
        self.values.get("workload").map(find).transpose()
    }

    fn subject(&self) -> Result<Arc<dyn Subject>, String> {
        match self.values.get("subject").map(String::as_str) {
            None => Ok(Arc::new(Engine)),
            Some("toy") => Ok(Arc::new(Toy(Flaw::None))),
            Some(other) => Err(format!("there is no subject {other}")),
        }
    }
}

fn main() -> ExitCode {
    let args = match Args::parse() {
        Ok(args) => args,
        Err(what) => return misuse(&what),
    };
    let result = match args.command.as_deref() {
        Some("help") => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some("list") => {
            for w in workloads::ALL {
                println!("{:16} {}", w.name, w.about);
            }
            return ExitCode::SUCCESS;
        }
        Some("planted") => planted(&args),
        Some("flips") => flips(&args),
        Some(other) => return misuse(&format!("there is no command {other}; --help lists them")),
        None if args.values.contains_key("seconds") => run(&args),
        None if args.values.contains_key("workload") => replay(&args),
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

fn plan(args: &Args) -> Result<Plan, String> {
    Ok(Plan { subject: args.subject()?, seed: args.number("seed")?.unwrap_or(1), flags: 0, backtrace: false })
}

/// How this process explores, of `jobs`; alone, unless the parent says which share is its own.
fn budget(args: &Args, flags: u64, findings: usize) -> Result<Budget, String> {
    let share = args.number("share")?.unwrap_or(0);
    Ok(Budget {
        plan: Plan { flags, ..plan(args)? },
        only: args.workload()?,
        time: Duration::from_secs(args.number("seconds")?.unwrap_or(60)),
        threads: 1,
        share: (share, args.number("jobs")?.unwrap_or(2).max(1)),
        core: share as usize,
        findings,
        parts: u64::MAX,
        quiet: flags != 0,
        began: None,
    })
}

/// Explores in processes; one of them has `--share`.
fn run(args: &Args) -> Result<bool, String> {
    let budget = budget(args, 0, 10)?;
    if args.values.contains_key("share") {
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

/// Plants each mistake and sees how soon it is found. All must be.
fn planted(args: &Args) -> Result<bool, String> {
    let only = args.values.get("bug");
    let bugs: Vec<_> =
        Bug::ALL.iter().filter(|bug| only.is_none_or(|name| *name == format!("{bug:?}"))).collect();
    if bugs.is_empty() {
        let names: Vec<_> = Bug::ALL.iter().map(|bug| format!("{bug:?}")).collect();
        return Err(format!("--bug is one of {}", names.join(", ")));
    }
    let jobs = args.number("jobs")?.unwrap_or(2).max(1);
    if args.values.contains_key("share") {
        // All of the seeds are this process's, whichever core it has.
        let alone = Budget { share: (0, 1), ..budget(args, bugs[0].flag(), 1)? };
        return Ok(jobs::explore_share(&alone).findings.is_empty());
    }
    let next = base::sync::atomic::AtomicUsize::new(0);
    let (next, missed) = (&next, &Mutex::new(0));
    std::thread::scope(|scope| {
        for job in 0..jobs {
            let bugs = &bugs;
            scope.spawn(move || {
                while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let bug = format!("{bug:?}");
                    let mut child = jobs::child();
                    child.args(std::env::args().skip(1)).args(["--bug", &bug, "--share", &job.to_string()]);
                    match child.spawn() {
                        Ok(child) => *missed.lock() += u64::from(!tell(&bug, &jobs::follow_child(child))),
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

/// Flips every byte of small databases.
fn flips(args: &Args) -> Result<bool, String> {
    let only = args.values.get("end");
    let ends: Vec<_> = Ending::ALL.iter().filter(|(name, _)| only.is_none_or(|only| only == name)).collect();
    if ends.is_empty() {
        return Err("--end is one of just-opened, running, closed".into());
    }
    let jobs = args.number("jobs")?.unwrap_or(2).max(1);
    let stride = args.number("stride")?.unwrap_or(1).max(1);
    if let Some(at) = args.number("at")? {
        let file = args.values.get("file").ok_or("which --file?")?;
        let outcome = SmallDatabase::new(ends[0].1).flip(Path::new(file), at);
        println!("{outcome:?}");
        return Ok(outcome.is_ok());
    }
    if let Some(share) = args.number("share")? {
        sim::budget::stay_on_core(share as usize);
        return Ok(jobs::flip_share(ends[0].1, stride, (share, jobs)));
    }
    let mut good = true;
    for (name, _) in ends {
        let start = Instant::now();
        let (ranges, wrong) = jobs::flip_in_processes(jobs, |share| {
            let mut child = jobs::child();
            child.args(std::env::args().skip(1)).args(["--end", name, "--share", &share.to_string()]);
            child
        })?;
        good &= wrong == 0;
        let mut flips: BTreeMap<(&str, Outcome), u64> = BTreeMap::new();
        for range in &ranges {
            *flips.entry((&range.file, range.outcome)).or_default() += range.flips;
        }
        for ((file, outcome), flips) in &flips {
            println!("{name:12} {file:40} {outcome:?} {flips}");
        }
        // Side by side with what the other processes flipped.
        let mut unseen: Vec<ByteRange> = Vec::new();
        for range in ranges.iter().filter(|r| r.outcome != Outcome::Named) {
            match unseen.last_mut() {
                Some(last)
                    if last.file == range.file
                        && last.outcome == range.outcome
                        && last.to + stride > range.from =>
                {
                    last.to = range.to;
                }
                _ => unseen.push(range.clone()),
            }
        }
        for ByteRange { file, from, to, outcome, .. } in unseen {
            println!("{name:12} {file:40} {outcome:?} at {from}..{to}");
        }
        let of = |outcome| flips.iter().filter(|((_, o), _)| *o == outcome).map(|(_, n)| n).sum::<u64>();
        println!(
            "{name}: {} named, {} harmless, {} of the last commit alone, {wrong} wrong, {:.1} s",
            of(Outcome::Named),
            of(Outcome::Harmless),
            of(Outcome::TailLost),
            start.elapsed().as_secs_f64()
        );
    }
    Ok(good)
}

/// Says how soon a mistake was found; false if it was not.
fn tell(bug: &str, done: &Summary) -> bool {
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

fn replay(args: &Args) -> Result<bool, String> {
    let plan = Plan { backtrace: true, ..plan(args)? };
    let workload = args.workload()?.ok_or("which --workload?")?;
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
    let Some(step) = args.number("step")? else { return Ok(true) };
    let mut walk = ran.disk.walk();
    while walk.at() < step && walk.step() {}
    if walk.at() != step {
        return Err(format!("the run has {} operations", walk.at()));
    }
    let choices = match args.number("choice")? {
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
