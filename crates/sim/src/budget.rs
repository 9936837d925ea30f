//! Explores for a given time: every workload in turn. The first seed is explored completely, one
//! part of its operations in each turn. After that every turn has its own seed and explores one
//! part of it, because another order of steps shows more than the next operation of the same order.
//! The threads of this process share the tasks, and several processes can divide them.

use crate::explore::{Finding, Plan};
use crate::workloads::{ALL, Workload};
use base::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Parts that a workload's operations are divided into: operation `n` belongs to part `n % PARTS`.
pub const PARTS: u64 = 16;

/// What to explore, and for how long.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The first seed and the planted mistakes.
    pub plan: Plan,
    /// Only this workload.
    pub only: Option<&'static Workload>,
    /// How long.
    pub time: Duration,
    /// Worlds that run at once in this process.
    pub threads: usize,
    /// The share of this process: `(k, n)` is share `k` of `n`, `(0, 1)` is everything.
    pub share: (u64, u64),
    /// The core of its first thread.
    pub core: usize,
    /// Stop after so many findings.
    pub findings: usize,
    /// Stop after so many parts of each workload: `u64::MAX` is never, [`PARTS`] is the complete
    /// first seed.
    pub parts: u64,
    /// Do not print findings.
    pub quiet: bool,
    /// Called as each task begins, with its workload, seed and part.
    pub began: Option<fn(&Workload, u64, u64)>,
}

/// What was explored and found.
#[derive(Debug, Default)]
pub struct Summary {
    /// States judged, by workload.
    pub states: BTreeMap<&'static str, u64>,
    /// Runs of workloads.
    pub runs: u64,
    /// Runs that were run twice and gave the same result.
    pub repeated: u64,
    /// Scheduling points of the runs.
    pub steps: u64,
    /// Seeds that were begun.
    pub seeds: u64,
    /// The findings.
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

/// Explores until the budget is used up.
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

/// Pins the calling thread, and the threads it will start, to the `n`-th core that the process may
/// use. The threads of a world run one at a time, and switching between them is faster on one core.
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
    /// Run it twice and compare.
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
        // Each process gets every workload in some turn.
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
        let on_state = || {
            states += 1;
            !out_of_time()
        };
        // A run of several lives judges a state after each of them. Another run shows more than the
        // next state of its last life.
        let stride = if workload.lives > 1 { 8 } else { 1 };
        plan.cut(workload, &ran, |step| step % (PARTS * stride) == part, on_state)?;
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
