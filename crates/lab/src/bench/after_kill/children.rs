//! The two processes of `bench after-kill`: the one that is killed, and the one that opens the
//! database afterwards.

use super::LoadSizes;
use super::tenths::{Counter, reached_after};
use crate::bench::filled_database;
use crate::crash::{EngineSizes, Limits, Message, Outbox, kill_when_long, send_failure};
use crate::figures::{being_reverted, lsn, recovery_left_bytes};
use crate::workload::{self, Session, WorkloadKind};
use millpond::Db;
use output::failure::{Failure, Outcome};
use output::units::parse_seconds;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a main thread looks at its database. More often would cost the load more than a
/// hundredth of its rate.
const POLL: Duration = Duration::from_millis(10);
/// A load that has not made its redo by then never will.
const LONGEST: Duration = Duration::from_secs(3600);
/// The victim sends the last tenths of a second, so many at most.
const SENT: usize = 200;

/// The process that `bench after-kill` kills
#[derive(Debug, clap::Args)]
pub(crate) struct AfterKillVictim {
    #[command(flatten)]
    engine: EngineSizes,
    #[command(flatten)]
    load: LoadSizes,
    #[arg(long)]
    redo_bytes: u64,
    #[arg(long, value_parser = parse_seconds)]
    warmup: Duration,
    dir: PathBuf,
}

impl AfterKillVictim {
    pub(crate) fn run(self) -> Outcome {
        send_failure(|outbox| {
            end_with_parent(outbox)?;
            self.die(outbox)
        })
    }

    /// Fills a new database, warms it up, and runs the load until this process kills itself.
    fn die(&self, outbox: &Outbox) -> Outcome {
        let options = self.engine.options().hold_cleaning_until_redo_bytes(self.redo_bytes);
        let db = options.open(&self.dir)?;
        filled_database::fill(&db, WorkloadKind::WriteHeavy, self.load.params())?;
        let warmup = Counter::new(self.warmup);
        self.load.run(&db, &warmup, |over| {
            while !over.load(Ordering::Relaxed) && warmup.elapsed() < self.warmup {
                std::thread::sleep(POLL);
            }
            Ok(())
        })?;
        let warm = warmup.over();
        // No redo is left, and the pages stay in memory. The load rests meanwhile, because a
        // checkpoint beside it would leave much redo behind it.
        db.checkpoint()?;
        let counter = Counter::new(LONGEST);
        let limits = Limits { redo_bytes: Some(self.redo_bytes), seconds: LONGEST, poll: POLL };
        self.load.run(&db, &counter, |over| {
            kill_when_long(&db, outbox, limits, over, || {
                let tenths = [&warm[..], &counter.over()].concat();
                send_tenths(outbox, &tenths[tenths.len().saturating_sub(SENT)..])
            })
        })
    }
}

/// The process that opens the database after `bench after-kill` has killed another
#[derive(Debug, clap::Args)]
pub(crate) struct AfterKillSuccessor {
    #[command(flatten)]
    engine: EngineSizes,
    #[command(flatten)]
    load: LoadSizes,
    /// The rate that is waited for, commits a second
    #[arg(long)]
    wanted: f64,
    #[arg(long, value_parser = parse_seconds)]
    seconds: Duration,
    #[arg(long, value_parser = parse_seconds)]
    within: Duration,
    dir: PathBuf,
}

impl AfterKillSuccessor {
    pub(crate) fn run(self) -> Outcome {
        send_failure(|outbox| {
            end_with_parent(outbox)?;
            self.come_back(outbox)
        })
    }

    /// Opens the database and runs the load at once, until recovery is complete and the rate is
    /// back.
    fn come_back(&self, outbox: &Outbox) -> Outcome {
        let counter = Counter::new(self.within);
        let db = self.engine.options().open(&self.dir)?;
        outbox.send(&Message::OpenedAfter(counter.elapsed().as_micros() as u64))?;
        let mut recovered = None;
        self.load.run(&db, &counter, |over| {
            while !over.load(Ordering::Relaxed) && counter.elapsed() < self.within {
                if recovered.is_none() && is_recovered(&db) {
                    recovered = Some(counter.elapsed());
                }
                let is_back = reached_after(&counter.over(), self.wanted).is_some();
                if recovered.is_some() && is_back && counter.elapsed() >= self.seconds {
                    break;
                }
                std::thread::sleep(POLL);
            }
            Ok(())
        })?;
        send_tenths(outbox, &counter.over())?;
        if let Some(us) = counter.first_us() {
            outbox.send(&Message::FirstCommit(us))?;
        }
        if let Some(time) = recovered {
            outbox.send(&Message::RecoveredAfter(time.as_micros() as u64))?;
        }
        db.close()?;
        Ok(())
    }
}

/// From now on this process is killed when its parent ends. Fails if the parent has ended before:
/// then nobody would remove the files that this process makes.
fn end_with_parent(outbox: &Outbox) -> Outcome {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    outbox.send(&Message::Started)
}

/// Whether all redo is applied and all losers are reverted.
fn is_recovered(db: &Db) -> bool {
    let snapshot = db.metrics();
    being_reverted(&snapshot) == 0 && recovery_left_bytes(&snapshot) == 0
}

fn send_tenths(outbox: &Outbox, tenths: &[u64]) -> Outcome {
    (0..).zip(tenths).try_for_each(|(tenth, &commits)| outbox.send(&Message::Commits { tenth, commits }))
}

impl LoadSizes {
    /// Runs the load on all threads until `meanwhile` returns. The flag that `meanwhile` is passed
    /// says that a thread has failed.
    fn run(self, db: &Db, counter: &Counter, meanwhile: impl FnOnce(&AtomicBool) -> Outcome) -> Outcome {
        let params = self.params().after(lsn(&db.metrics()));
        let workload = workload::build(WorkloadKind::WriteHeavy, params);
        let sessions = (0..self.threads).map(|thread| workload.session(db, thread));
        let sessions = sessions.collect::<Outcome<Vec<_>>>()?;
        let over = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let commit = |mut session: Box<dyn Session>| {
                let result = commit_until(over, session.as_mut(), counter);
                over.fetch_or(result.is_err(), Ordering::Relaxed);
                result
            };
            let threads: Vec<_> =
                sessions.into_iter().map(|session| scope.spawn(move || commit(session))).collect();
            let result = meanwhile(over);
            over.store(true, Ordering::Relaxed);
            let panicked = |_| Err(Failure::failed("a thread of the load panicked"));
            let ends = threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
            // Joins every thread before it returns the first failure.
            ends.collect::<Vec<_>>().into_iter().collect::<Outcome>()?;
            result
        })
    }
}

/// Runs transactions, each one until it commits.
fn commit_until(over: &AtomicBool, session: &mut dyn Session, counter: &Counter) -> Outcome {
    while !over.load(Ordering::Relaxed) && session.draw() {
        while let Err(error) = session.attempt() {
            if error.retryable().is_none() {
                return Err(error.into());
            }
            if over.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        counter.count();
    }
    Ok(())
}
