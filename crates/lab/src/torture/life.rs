//! One life of the database: a process with its options, and its end.

use super::heard::Heard;
use crate::crash::recipe::Plan;
use crate::crash::{ChildProcess, EngineSizes, Inbox};
use crate::durability::DurabilityFlag;
use base::prng::Prng;
use cuts::{Moment, Mounted, NewFiles, Policy, Syncs};
use millpond::Durability;
use output::failure::{Failure, Outcome};
use rustix::process::{Signal, kill_process};
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The database's directory, on the disk.
pub(super) const DB: &str = "db";
/// A life that has not come to its sync by then is cut.
const LONGEST: Duration = Duration::from_secs(4);
/// How often a life is looked at that waits for its sync.
const STEP: Duration = Duration::from_millis(5);
const SIGKILL: i32 = 9;

/// How a life ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    /// The process is killed; what it has written is still in the system's cache.
    Kill { ms: u64 },
    /// The power is cut at a time.
    CutAt { ms: u64 },
    /// The power is cut at a sync.
    CutAtSync(Moment),
}

/// Where a life is lived, and what it goes on from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    /// Where the database is, when no file system of ours is over it.
    pub(super) disk: &'a Path,
    /// Where that file system is mounted.
    pub(super) at: &'a Path,
    pub(super) plan: Plan,
    /// The number of each thread's last transaction.
    pub(super) done: &'a [u32],
}

/// A life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub(super) end: End,
    pub(super) engine: EngineSizes,
    durability: DurabilityFlag,
    active: u32,
    policy: Policy,
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            End::Kill { ms } => write!(f, "killed after {ms} ms")?,
            End::CutAt { ms } => write!(f, "cut after {ms} ms")?,
            End::CutAtSync(Moment::BeforeSync(n)) => write!(f, "cut before sync {n}")?,
            End::CutAtSync(Moment::AfterSync(n)) => write!(f, "cut after sync {n}")?,
        }
        write!(f, " ({} threads, durability {:?}, {:?})", self.active, self.durability, self.engine)
    }
}

impl Life {
    pub(super) fn choose(rng: &mut Prng, page: u32, can_cut: bool, ignore_syncs: bool) -> Life {
        // Many lives end while the database opens.
        let soon = rng.one_in(3);
        let ms = if soon { rng.below(100) } else { rng.below(2_000) };
        let nth = if soon { rng.between(1, 40) } else { rng.between(1, 2_000) };
        let end = match rng.below(4) {
            0 => End::Kill { ms },
            _ if !can_cut => End::Kill { ms },
            1 => End::CutAt { ms },
            2 => End::CutAtSync(Moment::BeforeSync(nth)),
            _ => End::CutAtSync(Moment::AfterSync(nth)),
        };
        let durabilities =
            [DurabilityFlag::Sync, DurabilityFlag::Sync, DurabilityFlag::Written, DurabilityFlag::Bounded];
        let new_files =
            *rng.pick(&[NewFiles::NeedTheirDirectory, NewFiles::NeedTheirDirectory, NewFiles::HaveTheirName]);
        let syncs = if ignore_syncs { Syncs::Ignored } else { Syncs::Kept };
        Life {
            end,
            engine: sizes(rng, page),
            durability: *rng.pick(&durabilities),
            active: *rng.pick(&[1, 4, 16, 32]),
            policy: Policy { new_files, syncs },
        }
    }

    fn is_kill(&self) -> bool {
        matches!(self.end, End::Kill { .. })
    }

    /// Whether all acknowledged transactions survive the end.
    pub(super) fn keeps_all(&self) -> bool {
        match self.durability {
            DurabilityFlag::Sync => true,
            DurabilityFlag::Written => self.is_kill(),
            DurabilityFlag::Bounded | DurabilityFlag::None => false,
        }
    }

    fn late_ms(&self) -> u32 {
        match self.durability.durability() {
            Durability::Written { ms, .. } | Durability::Bounded { ms, .. } => ms as u32,
            _ => 0,
        }
    }

    /// Lives it to its end. `seed` chooses what a cut leaves.
    pub(super) fn run(&self, setting: &Setting<'_>, seed: u64) -> Outcome<Heard> {
        let power = match self.end {
            End::Kill { .. } => None,
            _ => Some(Mounted::mount(setting.disk, setting.at, self.policy).map_err(Failure::failed)?),
        };
        if let (End::CutAtSync(moment), Some(power)) = (self.end, &power) {
            power.plan(moment);
        }
        let dir = if power.is_some() { setting.at.join(DB) } else { setting.disk.join(DB) };
        let (child, mut inbox) = ChildProcess::start("crash-victim", &dir, &self.args(setting))?;
        let mut heard = Heard::new(setting.done, self.late_ms());
        let (ended, has_ended) = channel::<()>();
        let listened = std::thread::scope(|scope| {
            let (power, number) = (power.as_ref(), child.number());
            scope.spawn(move || {
                self.end_it(power, &has_ended);
                let _ = kill_process(number, Signal::KILL);
            });
            // Its end tells the thread that there is nothing to end any more.
            let _ended = ended;
            listen(&mut inbox, &mut heard)
        });
        let status = child.end()?;
        if let Some(power) = power {
            heard.syncs = power.syncs();
            let is_cut = power.is_cut();
            heard.left = power.finish(seed).map_err(Failure::failed)?;
            heard.broken = self.broken(status, &heard, is_cut);
        } else {
            heard.broken = self.broken(status, &heard, false);
        }
        listened?;
        Ok(heard)
    }

    /// Waits for the end of the life, or until it has ended by itself.
    fn end_it(&self, power: Option<&Mounted>, ended: &Receiver<()>) {
        let (End::Kill { ms } | End::CutAt { ms }) = self.end else {
            let began = Instant::now();
            while power.is_some_and(|power| !power.wait_for_cut(STEP)) {
                let goes_on = ended.recv_timeout(Duration::ZERO) == Err(RecvTimeoutError::Timeout);
                if !goes_on || began.elapsed() > LONGEST {
                    break;
                }
            }
            power.inspect(|power| power.cut());
            return;
        };
        let _ = ended.recv_timeout(Duration::from_millis(ms));
        power.inspect(|power| power.cut());
    }

    /// Returns what the process did that it must not do: end by itself, but for a power cut, whose
    /// errors end it; and even then not by a panic or a signal.
    fn broken(&self, status: std::process::ExitStatus, heard: &Heard, is_cut: bool) -> Option<String> {
        let by_us = status.signal() == Some(SIGKILL);
        match &heard.failed {
            Some(why) if !is_cut => Some(format!("the process failed: {why}")),
            None if !by_us => Some(format!("the process ended by itself: {status}")),
            _ if !by_us && !status.success() => Some(format!("the process broke: {status}")),
            _ => None,
        }
    }

    fn args(&self, setting: &Setting<'_>) -> Vec<String> {
        let mut args = setting.plan.args();
        args.extend(self.engine.args());
        let done: Vec<String> = setting.done.iter().map(u32::to_string).collect();
        args.push(format!("--done={}", done.join(",")));
        args.push(format!("--active={}", self.active));
        args.push(format!("--durability={}", format!("{:?}", self.durability).to_lowercase()));
        // Longer than any life.
        args.extend(["--counted", "--seconds=3600"].map(str::to_owned));
        args
    }
}

/// The sizes of a life.
fn sizes(rng: &mut Prng, page: u32) -> EngineSizes {
    // The smallest log, and one that no checkpoint hurries.
    let capacity = Some(*rng.pick(&[16 << 20, 16 << 20, 64 << 20]));
    EngineSizes { pool: *rng.pick(&[4 << 20, 8 << 20, 64 << 20]), capacity, recovery_target: None, page }
}

/// Listens until the process has ended.
fn listen(inbox: &mut Inbox<ChildStdout>, heard: &mut Heard) -> Outcome {
    while let Some(message) = inbox.next()? {
        heard.message(message)?;
    }
    Ok(())
}
