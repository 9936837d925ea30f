//! Child processes that work in parallel. Worlds in one process would contend for its memory map,
//! which every new thread and large buffer changes. And when a planted mistake aborts one process,
//! the others continue.
//!
//! A child reports on its standard output, in lines that begin with `MARK`. All its other lines are
//! for the user.

use crate::budget::{Budget, Summary, explore};
use crate::explore::Finding;
use crate::flips::{ByteRange, Ending, Outcome, SmallDatabase};
use crate::workloads::{self, Workload};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// The beginning of a line that is for the parent process.
const MARK: &str = "@ ";

/// Settings of the memory allocator. By default it returns large buffers to the kernel and gives
/// every thread its own arena; a world makes thousands of both.
const ALLOCATOR: &str = "glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold=1073741824:\
                         glibc.malloc.trim_threshold=4294967296";

/// Returns the command that starts a child of this program. The caller adds the arguments.
#[must_use]
pub fn child() -> Command {
    let this = std::env::current_exe().unwrap_or_else(|_| "sim".into());
    let mut command = Command::new(this);
    command.env("GLIBC_TUNABLES", ALLOCATOR).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Explores this child's share and reports to the parent.
#[must_use]
pub fn explore_share(budget: &Budget) -> Summary {
    let began =
        |workload: &Workload, seed: u64, part: u64| println!("{MARK}at {} {seed} {part}", workload.name);
    let done = explore(&Budget { began: Some(began), ..budget.clone() });
    for (workload, states) in &done.states {
        println!("{MARK}states {workload} {states}");
    }
    for Finding { workload, seed, cut, what } in &done.findings {
        let (step, choice) = cut.map_or(("-".into(), "-".into()), |(s, c)| (s.to_string(), c.to_string()));
        println!(
            "{MARK}finding {workload} {seed} {step} {choice} {}",
            what.lines().next().unwrap_or_default()
        );
    }
    println!("{MARK}done {} {} {} {}", done.runs, done.repeated, done.steps, done.seeds);
    done
}

/// Does this child's share of the flips and reports to the parent. Returns whether nothing was
/// wrong.
#[must_use]
pub fn flip_share(end: Ending, stride: u64, share: (u64, u64)) -> bool {
    let mut good = true;
    let on_range =
        |r: ByteRange| println!("{MARK}range {} {} {} {} {:?}", r.file, r.from, r.to, r.flips, r.outcome);
    SmallDatabase::new(end).sweep(stride, share, on_range, |path, at, what| {
        good = false;
        println!("{end:?}: {} at {at}: {what}", path.display());
        println!("{MARK}wrong");
    });
    println!("{MARK}done");
    good
}

/// Starts a child for each share of the flips and collects their reports. Returns all ranges and
/// the number of findings.
///
/// # Errors
/// If a child cannot be started.
pub fn flip_in_processes(
    jobs: u64,
    mut command: impl FnMut(u64) -> Command,
) -> Result<(Vec<ByteRange>, u64), String> {
    let (mut ranges, mut wrong) = (Vec::new(), 0);
    let children: Result<Vec<_>, _> = (0..jobs).map(|share| command(share).spawn()).collect();
    let threads =
        children.map_err(|e| format!("cannot start a process: {e}"))?.into_iter().map(|mut child| {
            std::thread::spawn(move || {
                let (mut ranges, mut wrong, mut ended) = (Vec::new(), 0, false);
                let out = child.stdout.take().expect("piped");
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    match line.strip_prefix(MARK) {
                        None => println!("{line}"),
                        Some("done") => ended = true,
                        Some("wrong") => wrong += 1,
                        Some(report) => ranges.extend(parse_range(report)),
                    }
                }
                let status = child.wait();
                if !ended {
                    println!("a process died: {status:?}");
                    wrong += 1;
                }
                (ranges, wrong)
            })
        });
    for thread in threads.collect::<Vec<_>>() {
        let (theirs, found) = thread.join().expect("it only reads lines");
        ranges.extend(theirs);
        wrong += found;
    }
    ranges.sort();
    Ok((ranges, wrong))
}

fn parse_range(report: &str) -> Option<ByteRange> {
    let words: Vec<_> = report.split(' ').collect();
    let number = |n: usize| words.get(n)?.parse().ok();
    let outcome = match *words.get(5)? {
        "Named" => Outcome::Named,
        "Harmless" => Outcome::Harmless,
        _ => Outcome::TailLost,
    };
    Some(ByteRange {
        file: words.get(1)?.to_string(),
        from: number(2)?,
        to: number(3)?,
        flips: number(4)?,
        outcome,
    })
}

/// Starts a child for each share with `command`, prints its findings, and adds up the summaries.
///
/// # Errors
/// If a child cannot be started.
pub fn explore_in_processes(jobs: u64, mut command: impl FnMut(u64) -> Command) -> Result<Summary, String> {
    let start = Instant::now();
    let mut threads = Vec::new();
    for share in 0..jobs {
        let child = command(share).spawn().map_err(|e| format!("cannot start a process: {e}"))?;
        threads.push(std::thread::spawn(move || follow_child(child)));
    }
    let mut sum = Summary::default();
    for thread in threads {
        let done = thread.join().expect("it only reads lines");
        for (workload, states) in done.states {
            *sum.states.entry(workload).or_default() += states;
        }
        sum.runs += done.runs;
        sum.repeated += done.repeated;
        sum.steps += done.steps;
        sum.seeds = sum.seeds.max(done.seeds);
        sum.findings.extend(done.findings);
    }
    sum.took = start.elapsed();
    Ok(sum)
}

/// Reads a child's output until it ends, and prints the lines that are for the user. A child that
/// dies is a finding.
#[must_use]
pub fn follow_child(mut child: Child) -> Summary {
    let start = Instant::now();
    let mut done = Summary::default();
    let (mut at, mut ended) = (String::new(), false);
    let out = child.stdout.take().expect("piped");
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        let Some(report) = line.strip_prefix(MARK) else {
            println!("{line}");
            continue;
        };
        let (what, rest) = report.split_once(' ').unwrap_or((report, ""));
        let words: Vec<_> = rest.splitn(5, ' ').collect();
        let number = |n: usize| words.get(n).and_then(|w| w.parse().ok()).unwrap_or(0);
        let workload = workloads::find(words[0]).map_or("", |w| w.name);
        match what {
            "at" => rest.clone_into(&mut at),
            "states" => drop(done.states.insert(workload, number(1))),
            "finding" => {
                let cut = words.get(2).is_some_and(|step| *step != "-").then(|| (number(2), number(3)));
                let what = words.get(4).copied().unwrap_or_default().to_owned();
                done.findings.push(Finding { workload, seed: number(1), cut, what });
            }
            "done" => {
                (done.runs, done.repeated) = (number(0), number(1));
                (done.steps, done.seeds) = (number(2), number(3));
                ended = true;
            }
            _ => {}
        }
    }
    let status = child.wait();
    if !ended {
        let words: Vec<_> = at.split(' ').collect();
        let workload = workloads::find(words[0]).map_or("", |w| w.name);
        let seed = words.get(1).and_then(|w| w.parse().ok()).unwrap_or(0);
        let part = words.get(2).unwrap_or(&"?");
        let status = status.map_or_else(|e| e.to_string(), |s| s.to_string());
        let what = format!("the process died in part {part}: {status}");
        let finding = Finding { workload, seed, cut: None, what };
        println!("{finding}");
        done.findings.push(finding);
    }
    done.took = start.elapsed();
    done
}
