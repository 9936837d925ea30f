//! Explores for so many seconds: every workload in turn. The first seed is done whole, a part of its operations in each
//! turn. From then on every turn has a seed of its own, of which it does one part: another order of steps shows more than
//! the next operation of the same one. Threads of this process take turns at that, and processes can share it out.

use crate::explore::{Finding, Plan};
use crate::workloads::{ALL, Workload};
use base::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Parts that a workload's operations are divided into: part `p` has every operation with that remainder.
pub const PARTS: u64 = 16;

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The first seed, and all else.
    pub plan: Plan,
    /// Only this workload.
    pub only: Option<&'static Workload>,
    /// How long.
    pub time: Duration,
    /// Worlds at once in this process.
    pub threads: usize,
    /// This process does every n-th task, and which: `(k, n)`; `(0, 1)` is all of them.
    pub share: (u64, u64),
    /// The core of its first thread.
    pub core: usize,
    /// Findings to stop at.
    pub findings: usize,
    /// Parts of each workload after which to stop; `u64::MAX` for never, [`PARTS`] for the first seed whole.
    pub parts: u64,
    /// Whether findings are printed as they come.
    pub quiet: bool,
    /// Called as each task begins, with its workload, seed and part.
    pub began: Option<fn(&Workload, u64, u64)>,
}

/// What was done.
#[derive(Debug, Default)]
pub struct Summary {
    /// States judged, by workload.
    pub states: BTreeMap<&'static str, u64>,
    /// Runs of workloads.
    pub runs: u64,
    /// Runs done twice to see that they repeat.
    pub repeated: u64,
    /// Scheduling points of the runs.
    pub steps: u64,
    /// Seeds that were begun.
    pub seeds: u64,
    /// What must not be.
    pub findings: Vec<Finding>,
    /// How long it took.
    pub took: Duration,
}

impl Summary {
    /// States judged.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.states.values().sum()
    }
}

struct TaskQueue {
    next: u64,
    done: Summary,
}

/// Explores.
#[must_use]
pub fn explore(budget: &Budget) -> Summary {
    let start = Instant::now();
    let queue = Arc::new(Mutex::new(TaskQueue { next: 0, done: Summary::default() }));
    let threads: Vec<_> = (0..budget.threads.max(1))
        .map(|n| {
            let (budget, queue) = (budget.clone(), Arc::clone(&queue));
            std::thread::spawn(move || {
                stay_on_core(budget.core + n);
                while let Some(task) = take(&budget, &queue, start) {
                    work(&budget, &queue, start, task);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("the simulator itself panicked");
    }
    let mut done = std::mem::take(&mut queue.lock().done);
    done.took = start.elapsed();
    done
}

/// The threads of a world take turns, and a turn changes hands faster on one core.
pub fn stay_on_core(n: usize) {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return };
    let cores: Vec<_> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|c| allowed.is_set(*c)).collect();
    let mut own = rustix::thread::CpuSet::new();
    if let Some(core) = cores.get(n % cores.len().max(1)) {
        own.set(*core);
        // Only speed depends on it.
        let _ = rustix::thread::sched_setaffinity(None, &own);
    }
}

struct ExploreTask {
    plan: Plan,
    workload: &'static Workload,
    part: u64,
    /// Whether it is run twice, to see that it repeats.
    repeat: bool,
}

fn take(budget: &Budget, queue: &Mutex<TaskQueue>, start: Instant) -> Option<ExploreTask> {
    let workloads: Vec<&Workload> = budget.only.map_or_else(|| ALL.iter().collect(), |w| vec![w]);
    let mut queue = queue.lock();
    if start.elapsed() >= budget.time || queue.done.findings.len() >= budget.findings {
        return None;
    }
    let count = workloads.len() as u64;
    loop {
        let n = queue.next;
        let (turn, which) = (n / count, n % count);
        let part = (turn + turn / PARTS * which) % PARTS;
        let seed = (turn + 1).saturating_sub(PARTS);
        if turn >= budget.parts {
            return None;
        }
        queue.next += 1;
        queue.done.seeds = seed + 1;
        // Every process meets every workload, in turns.
        if (turn + which) % budget.share.1 != budget.share.0 {
            continue;
        }
        let mut plan = budget.plan.clone();
        plan.seed += seed;
        let workload = workloads[which as usize];
        if let Some(began) = budget.began {
            began(workload, plan.seed, part);
        }
        return Some(ExploreTask { plan, workload, part, repeat: turn % PARTS == 0 });
    }
}

fn work(budget: &Budget, queue: &Mutex<TaskQueue>, start: Instant, task: ExploreTask) {
    let ExploreTask { plan, workload, part, repeat } = task;
    let mut states = 0;
    let out_of_time = || start.elapsed() >= budget.time;
    let result = plan.run(workload).and_then(|ran| {
        if repeat {
            plan.repeats(workload, &ran)?;
        }
        let seen = || {
            states += 1;
            !out_of_time()
        };
        plan.cut(workload, &ran, |step| step % PARTS == part, seen)?;
        Ok((ran.steps, repeat))
    });
    let mut queue = queue.lock();
    let done = &mut queue.done;
    *done.states.entry(workload.name).or_default() += states;
    done.runs += 1;
    match result {
        Ok((steps, repeat)) => {
            done.steps += steps;
            done.repeated += u64::from(repeat);
        }
        Err(finding) => {
            if !budget.quiet {
                println!("{finding}");
            }
            done.findings.push(*finding);
        }
    }
}
