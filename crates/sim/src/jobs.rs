//! Processes side by side. Worlds in one process would meet in its memory map, which every new thread and large buffer
//! changes; and a process that a mistake aborts takes no other with it.
//!
//! A child says what it did in lines that begin with a mark of ours; the rest of what it prints is for the user.

use crate::budget::{Budget, Summary, explore};
use crate::explore::Finding;
use crate::flips::{ByteRange, Ending, Outcome, SmallDatabase};
use crate::workloads::{self, Workload};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// What a line for the parent begins with.
const MARK: &str = "@ ";

/// The allocator gives large buffers back to the kernel and every thread memory of its own; a world makes both by the
/// thousand.
const ALLOCATOR: &str = "glibc.malloc.arena_max=1:glibc.malloc.mmap_threshold=1073741824:\
                         glibc.malloc.trim_threshold=4294967296";

/// A child of this program.
#[must_use]
pub fn child() -> Command {
    let this = std::env::current_exe().unwrap_or_else(|_| "sim".into());
    let mut command = Command::new(this);
    command.env("GLIBC_TUNABLES", ALLOCATOR).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Does a child's share and tells the parent.
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

/// Does a child's share of the flips and tells the parent.
#[must_use]
pub fn flip_share(end: Ending, stride: u64, share: (u64, u64)) -> bool {
    let mut good = true;
    let came =
        |r: ByteRange| println!("{MARK}range {} {} {} {} {:?}", r.file, r.from, r.to, r.flips, r.outcome);
    SmallDatabase::new(end).sweep(stride, share, came, |path, at, what| {
        good = false;
        println!("{end:?}: {} at {at}: {what}", path.display());
        println!("{MARK}wrong");
    });
    println!("{MARK}done");
    good
}

/// Starts a child for each share of the flips and collects what they tell; how many findings.
///
/// # Errors
/// A child that cannot be started.
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
                        Some(told) => ranges.extend(range(told)),
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

fn range(told: &str) -> Option<ByteRange> {
    let words: Vec<_> = told.split(' ').collect();
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

/// Starts a child for each share with `command`, prints what they find and adds up what they did.
///
/// # Errors
/// A child that cannot be started.
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

/// Follows a child to its end and prints what is for the user.
#[must_use]
pub fn follow_child(mut child: Child) -> Summary {
    let start = Instant::now();
    let mut done = Summary::default();
    let (mut at, mut ended) = (String::new(), false);
    let out = child.stdout.take().expect("piped");
    for line in BufReader::new(out).lines().map_while(Result::ok) {
        let Some(told) = line.strip_prefix(MARK) else {
            println!("{line}");
            continue;
        };
        let (what, rest) = told.split_once(' ').unwrap_or((told, ""));
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
