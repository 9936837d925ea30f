//! The process that is killed. It runs transactions on all threads, reports each acknowledged one
//! to the parent, and kills itself when its log has the requested length.

use super::EngineSizes;
use super::recipe::{DOOMED, DOOMED_EVERY, Plan, Target, Writer};
use super::wire::{Message, Outbox};
use crate::figures::checkpoint_age;
use crate::workload::row::{Row, id_key, index_key};
use crate::workload::{AttemptError, Tables};
use millpond::{Db, Durability, Table, Transaction, TxnOptions};
use output::failure::{Failure, Outcome};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// When the victim kills itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// When there is so much redo after the checkpoint; `None`: after `seconds`.
    pub(crate) redo_bytes: Option<u64>,
    /// After this time it fails instead.
    pub(crate) seconds: Duration,
    /// How often it looks.
    pub(crate) poll: Duration,
}

/// What the victim does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Its transactions.
    pub(crate) plan: Plan,
    /// How many of its threads run, from the first on.
    pub(crate) active: u32,
    /// When a commit returns.
    pub(crate) durability: Durability,
    /// Whether each transaction writes its number to the table [`COUNTS`], under its thread's.
    pub(crate) counted: bool,
}

/// The table with the number of each thread's last transaction.
pub(crate) const COUNTS: &str = "counts";

/// Runs until the process kills itself. Returns only if the limit is not reached in time or
/// something fails.
pub(crate) fn die(
    outbox: &Outbox,
    dir: &Path,
    work: &Work,
    engine: EngineSizes,
    limits: Limits,
    done: &[u32],
) -> Outcome {
    // If the parent is killed, this process is killed too.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let mut options = engine.options();
    if let Some(bytes) = limits.redo_bytes {
        options = options.hold_cleaning_until_redo_bytes(bytes);
    }
    let db = options.open(dir)?;
    outbox.send(&Message::Opened)?;
    let tables = Tables::open(&db, work.plan.tables)?;
    let counts = if work.counted { Some(db.open_table(COUNTS)?) } else { None };
    let started = Instant::now();
    let over = AtomicBool::new(false);
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for thread in 0..work.active.min(work.plan.threads) {
            let from = done.get(thread as usize).map_or(1, |last| last + 1);
            let (db, tables, counts) = (&db, &tables, counts.as_ref());
            let (failure, over) = (&failure, &over);
            let session = Session { db, tables, counts, work, started, thread, from, outbox, over };
            scope.spawn(move || {
                if let Err(e) = session.run() {
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                    over.store(true, Ordering::Relaxed);
                }
            });
        }
        let watched = kill_when_long(&db, outbox, limits, &over, || Ok(()));
        over.store(true, Ordering::Relaxed);
        watched
    })?;
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None => db.close().map_err(Failure::from),
    }
}

/// Waits until the log is long enough, or for its time, then calls `last` and kills the process.
/// Returns if that fails, if the log is not long enough in time, or if all is over.
pub(crate) fn kill_when_long(
    db: &Db,
    outbox: &Outbox,
    limits: Limits,
    over: &AtomicBool,
    last: impl Fn() -> Outcome,
) -> Outcome {
    let start = Instant::now();
    let mut reported = start;
    while !over.load(Ordering::Relaxed) {
        let bytes = checkpoint_age(&db.metrics());
        let time_is_over = start.elapsed() >= limits.seconds;
        if limits.redo_bytes.map_or(time_is_over, |wanted| bytes >= wanted) {
            last()?;
            outbox.send(&Message::Dying(bytes))?;
            rustix::process::kill_process(rustix::process::getpid(), Signal::KILL)
                .map_err(|e| Failure::failed(format!("cannot kill this process: {e}")))?;
        }
        if time_is_over {
            return outbox.send(&Message::NotReached(bytes));
        }
        if reported.elapsed() >= Duration::from_secs(1) {
            reported = Instant::now();
            outbox.send(&Message::RedoLength(bytes))?;
        }
        std::thread::sleep(limits.poll);
    }
    Ok(())
}

struct Session<'a> {
    db: &'a Db,
    tables: &'a Tables,
    counts: Option<&'a Table>,
    work: &'a Work,
    started: Instant,
    thread: u32,
    /// Its first transaction.
    from: u32,
    outbox: &'a Outbox,
    over: &'a AtomicBool,
}

impl Session<'_> {
    fn run(&self) -> Outcome {
        for number in self.from..DOOMED {
            if number % DOOMED_EVERY == 0 {
                self.retried(number, true)?;
            }
            let Some(called_ms) = self.retried(number, false)? else { return Ok(()) };
            self.outbox.send(&Message::Acknowledged { thread: self.thread, number, called_ms })?;
        }
        Ok(())
    }

    /// Runs a transaction until it succeeds. Returns when its commit was called; `None` if the run
    /// is over.
    fn retried(&self, number: u32, doomed: bool) -> Outcome<Option<u32>> {
        while !self.over.load(Ordering::Relaxed) {
            match self.transaction(number, doomed) {
                Ok(called_ms) => return Ok(Some(called_ms)),
                Err(error) if error.retryable().is_some() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    fn transaction(&self, number: u32, doomed: bool) -> Result<u32, AttemptError> {
        let mark = if doomed { DOOMED } else { 0 };
        let writer = Writer { thread: self.thread, number: number | mark };
        let mut tx = self.db.begin_with(TxnOptions::new().durability(self.work.durability))?;
        for target in self.work.plan.targets(self.thread, number) {
            self.write(&mut tx, writer, &target)?;
        }
        if let Some(counts) = self.counts {
            tx.put(counts, &self.thread.to_be_bytes(), &writer.number.to_le_bytes())?;
        }
        let called_ms = self.started.elapsed().as_millis() as u32;
        if doomed {
            tx.rollback();
        } else {
            tx.commit()?;
        }
        Ok(called_ms)
    }

    fn write(&self, tx: &mut Transaction, writer: Writer, target: &Target) -> Result<(), AttemptError> {
        let Target { table, id, .. } = *target;
        let pair = self.tables.get(table);
        let old = match tx.get_for_update(&pair.rows, &id_key(id))? {
            None => None,
            Some(value) => Some(Row::decode(&value).ok_or_else(|| {
                AttemptError::Wrong(format!("row {id} of sbtest{table} is not what was written"))
            })?),
        };
        let new = self.work.plan.write(writer, target, old.as_ref());
        match &new {
            Some(row) if old.is_none() => tx.insert(&pair.rows, &id_key(id), &row.encode())?,
            Some(row) => tx.put(&pair.rows, &id_key(id), &row.encode())?,
            None => drop(tx.delete(&pair.rows, &id_key(id))?),
        }
        let (from, to) = (old.map(|row| row.k), new.map(|row| row.k));
        if from == to {
            return Ok(());
        }
        if let Some(k) = from
            && !tx.delete(&pair.index, &index_key(k, id))?
        {
            return Err(AttemptError::Wrong(format!("sbtest{table}_k has no entry for row {id} with k {k}")));
        }
        if let Some(k) = to {
            tx.insert(&pair.index, &index_key(k, id), b"")?;
        }
        Ok(())
    }
}
