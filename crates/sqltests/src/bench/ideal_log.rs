//! How fast durable commits could be if the log cost nothing but what it cannot do without.
//!
//! A model of a server: clients send a request through a socket, a thread for each one works and
//! commits, and answers. The work is set so that commits that do not wait reach a rate that was
//! measured with the real server. A commit appends nothing: it waits until a block of 4 KiB has
//! been written and synced after it came. Commits share flushes. So what is left of the rate is the
//! price of a device, of the scheduler and of threads that sleep and wake, and no engine that keeps
//! a thread for each connection gets around it.
//!
//! The model is kind: a thread that has slept finds other threads' data in the processor's caches,
//! and its own code takes longer, but the model's work does not. The bench says beside it how much
//! longer the client's own code took; it is the same program for all engines. A second run makes
//! the model's work longer by that factor. The first rate is a bound that no engine reaches; the
//! second is what an engine can reach if its server's code suffers as the client's does. On a
//! machine with other work the factor is too large, and an engine may be faster than that.

use super::super::make_dir;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Opens a file past the page cache, as the engines do. The number depends on the processor.
const O_DIRECT: i32 = if cfg!(target_arch = "aarch64") { 0x10000 } else { 0x4000 };
const BLOCK: usize = 4096;
const BLOCKS: u64 = 4096;
/// One run, after a tenth of it to settle.
const RUN: Duration = Duration::from_millis(2000);

/// Who writes the log for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Commits do not wait.
    NoWait,
    /// A thread that commits and finds fewer flushes than this on the way.
    Leader(u32),
    /// A thread of its own, one flush at a time.
    LogThread,
}

const RULES: [Rule; 3] = [Rule::Leader(1), Rule::Leader(2), Rule::LogThread];

#[repr(align(4096))]
struct Block([u8; BLOCK]);

#[derive(Default)]
struct State {
    appended: u64,
    /// All up to this one are in a flush.
    taken: u64,
    in_flight: u32,
    waiting: VecDeque<(u64, Thread)>,
    log_thread: Option<Thread>,
}

struct Log {
    rule: Rule,
    file: File,
    durable: AtomicU64,
    flushes: AtomicU64,
    state: Mutex<State>,
    stop: AtomicBool,
}

impl Log {
    fn new(rule: Rule, dir: &Path) -> Result<Log, String> {
        let path = dir.join("ideal-log");
        let name = |e| format!("{}: {e}", path.display());
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path).map_err(name)?;
        file.write_all_at(&vec![1; BLOCK * BLOCKS as usize], 0)
            .and_then(|()| file.sync_all())
            .map_err(name)?;
        let direct = OpenOptions::new().write(true).custom_flags(O_DIRECT).open(&path);
        // A file system in memory may have no direct writes.
        let file = direct.unwrap_or(file);
        let (durable, flushes) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Log { rule, file, durable, flushes, state: Mutex::default(), stop: AtomicBool::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread of the model panics")
    }

    fn commit(&self) {
        let flushes = match self.rule {
            Rule::NoWait => return,
            Rule::Leader(flushes) => flushes,
            Rule::LogThread => 0,
        };
        let mut state = self.lock();
        state.appended += 1;
        let own = state.appended;
        while self.durable.load(Ordering::Acquire) < own && !self.stop.load(Ordering::Relaxed) {
            if state.in_flight < flushes && state.taken < own {
                state = self.flush(state);
                continue;
            }
            state.waiting.push_back((own, thread::current()));
            let idle = if state.in_flight == 0 { state.log_thread.clone() } else { None };
            drop(state);
            idle.inspect(Thread::unpark);
            thread::park();
            if self.durable.load(Ordering::Acquire) >= own {
                return;
            }
            state = self.lock();
            state.waiting.retain(|(number, _)| *number != own);
        }
    }

    /// Writes and syncs a block for all that have come, and wakes them.
    fn flush<'l>(&'l self, mut state: MutexGuard<'l, State>) -> MutexGuard<'l, State> {
        let end = state.appended;
        state.taken = end;
        state.in_flight += 1;
        drop(state);
        let at = self.flushes.fetch_add(1, Ordering::Relaxed) % BLOCKS * BLOCK as u64;
        let written = self.file.write_all_at(&Block([2; BLOCK]).0, at).and_then(|()| self.file.sync_data());
        written.expect("the model's log can be written");
        let mut state = self.lock();
        state.in_flight -= 1;
        self.durable.fetch_max(end, Ordering::AcqRel);
        let covered = state.waiting.partition_point(|(number, _)| *number <= end);
        let covered: Vec<_> = state.waiting.drain(..covered).collect();
        let next = state.waiting.front().filter(|_| self.rule != Rule::LogThread).cloned();
        drop(state);
        next.into_iter().chain(covered).for_each(|(_, thread)| thread.unpark());
        self.lock()
    }

    fn serve(&self) {
        let mut state = self.lock();
        state.log_thread = Some(thread::current());
        while !self.stop.load(Ordering::Relaxed) {
            if state.waiting.is_empty() {
                drop(state);
                thread::park();
                state = self.lock();
            } else {
                state = self.flush(state);
            }
        }
    }
}

/// Works for so many turns of a loop that the compiler keeps.
fn work(turns: u64) {
    for turn in 0..turns {
        black_box(turn);
    }
}

fn turns_a_second() -> f64 {
    let (turns, began) = (200_000_000, Instant::now());
    work(turns);
    turns as f64 / began.elapsed().as_secs_f64()
}

/// Returns the commits a second of `clients` whose server works for `turns` before each, measured
/// for `time`.
fn rate(rule: Rule, clients: u32, turns: u64, time: Duration, dir: &Path) -> Result<f64, String> {
    let log = Log::new(rule, dir)?;
    let pairs: Result<Vec<_>, _> = (0..clients).map(|_| UnixStream::pair()).collect();
    let pairs = pairs.map_err(|e| format!("cannot make a socket: {e}"))?;
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        let log = &log;
        let server = (rule == Rule::LogThread).then(|| scope.spawn(|| log.serve()));
        for (mut client, mut server) in pairs {
            scope.spawn(move || {
                let mut answer = [0; 16];
                while !log.stop.load(Ordering::Relaxed) {
                    let asked = client.write_all(&[7; 40]).is_ok();
                    if !asked || client.read(&mut answer).map_or(true, |len| len == 0) {
                        break;
                    }
                }
            });
            let done = &done;
            scope.spawn(move || {
                let mut request = [0; 64];
                while server.read(&mut request).is_ok_and(|len| len > 0) {
                    work(turns);
                    log.commit();
                    done.fetch_add(1, Ordering::Relaxed);
                    if server.write_all(&[3; 11]).is_err() {
                        break;
                    }
                }
            });
        }
        thread::sleep(time / 10);
        let (before, began) = (done.load(Ordering::Relaxed), Instant::now());
        thread::sleep(time);
        let rate = (done.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64();
        log.stop.store(true, Ordering::Relaxed);
        let state = log.lock();
        state.waiting.iter().for_each(|(_, thread)| thread.unpark());
        state.log_thread.iter().for_each(Thread::unpark);
        drop(state);
        if let Some(server) = server {
            server.join().expect("no thread of the model panics");
        }
        Ok(rate)
    })
}

/// Rates of durable commits if the log were ideal, commits a second.
pub(super) struct Ideal {
    pub(super) rate: f64,
    /// The same if the work takes longer, as the client's own code did.
    pub(super) cold: f64,
}

/// Returns the rates of clients whose commits come at the rate `not_waiting` if they do not wait.
/// `slower` is how many times as long the client's own code took in durable runs.
pub(super) fn commits(clients: u32, not_waiting: f64, slower: f64, dir: &Path) -> Result<Ideal, String> {
    make_dir(dir)?;
    let cores = thread::available_parallelism().map_or(1, usize::from) as f64;
    let sockets = rate(Rule::NoWait, clients, 0, RUN, dir)?;
    let seconds = (1.0 / not_waiting - 1.0 / sockets).max(0.0) * cores;
    let best = |seconds: f64| -> Result<f64, String> {
        let turns = (seconds * turns_a_second()) as u64;
        let mut best = 0.0_f64;
        for rule in RULES {
            best = best.max(rate(rule, clients, turns, RUN, dir)?);
        }
        Ok(best)
    };
    Ok(Ideal { rate: best(seconds)?, cold: best(seconds * slower)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_commits_and_ends() {
        let dir = std::env::temp_dir().join(format!("millpond-ideal-{}", std::process::id()));
        make_dir(&dir).unwrap();
        for rule in [Rule::NoWait].into_iter().chain(RULES) {
            assert!(rate(rule, 3, 10, Duration::from_millis(50), &dir).unwrap() > 0.0, "{rule:?}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_commit_is_durable_when_it_returns() {
        let dir = std::env::temp_dir().join(format!("millpond-ideal-one-{}", std::process::id()));
        make_dir(&dir).unwrap();
        let log = Log::new(Rule::Leader(1), &dir).unwrap();
        for number in 1..4 {
            log.commit();
            assert_eq!(log.durable.load(Ordering::Relaxed), number);
            assert_eq!(log.flushes.load(Ordering::Relaxed), number);
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
