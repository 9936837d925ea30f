//! One client of a life: it does its steps one after the other, repeats each until it is committed,
//! and counts them in the ledger.

use super::recipe::{ClientStep, Origin, QUEUE_ROWS, RowChange, queue_key, queue_value, row_key};
use super::shared::Life;
use base::prng::Prng;
use millpond::{Error, Isolation, Transaction, TxnOptions};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// On a full disk a client waits so long before it tries again.
const DISK_FULL_PAUSE: Duration = Duration::from_millis(20);

pub(super) struct Client<'l> {
    pub(super) life: &'l Life,
    pub(super) number: u16,
    /// Steps done.
    pub(super) done: u64,
    /// Decides how a step is done; its effect follows from the recipe.
    pub(super) rng: Prng,
}

impl Client<'_> {
    /// Does steps until the life ends. An error is a finding.
    pub(super) fn run(&mut self) -> Result<(), String> {
        while !self.life.ends() {
            let step = self.life.recipe.step(self.number, self.done + 1);
            self.finish(&step)?;
        }
        Ok(())
    }

    /// Tries the next step until it commits or the life ends.
    pub(super) fn finish(&mut self, step: &ClientStep) -> Result<(), String> {
        let n = self.done + 1;
        while !self.life.ends() {
            match self.attempt(n, step) {
                Ok(()) => {
                    self.life.ledger.note(self.number, n)?;
                    self.life.acknowledged.fetch_add(1, Ordering::Relaxed);
                    self.done = n;
                    break;
                }
                Err(AttemptError::Again(Error::DiskFull { .. })) => {
                    self.life.refused.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(DISK_FULL_PAUSE);
                }
                Err(AttemptError::Again(error)) if error.is_retryable() => {
                    self.life.retried.fetch_add(1, Ordering::Relaxed);
                }
                Err(AttemptError::Again(error)) => {
                    return Err(format!("client {}, step {n}: {error}", self.number));
                }
                Err(AttemptError::Wrong(what)) => {
                    return Err(format!("client {}, step {n}: {what}", self.number));
                }
            }
        }
        Ok(())
    }

    fn attempt(&mut self, n: u64, step: &ClientStep) -> Outcome {
        match step {
            ClientStep::Table(rows) => self.replace_table(n, *rows),
            ClientStep::Rows(changes) => {
                if self.rng.one_in(25) {
                    self.prepare_and_undo(n)?;
                }
                self.change_rows(n, changes)
            }
        }
    }

    /// Drops the client's table and bulk loads a new one.
    fn replace_table(&mut self, n: u64, rows: u32) -> Outcome {
        let db = &self.life.db;
        let own = table_prefix(self.number);
        for name in db.table_names()?.iter().filter(|name| name.starts_with(&own)) {
            db.drop_table(name)?;
        }
        let mut load = db.begin_bulk_load(&format!("{own}{n}"))?;
        for row in 0..rows {
            load.push(&row.to_be_bytes(), &table_row(n, row))?;
        }
        load.commit()?;
        let mut tx = self.begin()?;
        self.count(&mut tx, n, 0)?;
        Ok(tx.commit().map(drop)?)
    }

    fn change_rows(&mut self, n: u64, changes: &[RowChange]) -> Outcome {
        let mut tx = self.begin()?;
        for (at, change) in changes.iter().enumerate() {
            self.change(&mut tx, n, at as u32, *change)?;
        }
        let hot = changes.iter().filter(|change| matches!(change, RowChange::Hot { .. })).count();
        self.count(&mut tx, n, hot as u64)?;
        match self.rng.below(20) {
            0 => {
                let xid = xid('p', self.number, n);
                tx.prepare(&xid)?;
                self.pause_in_doubt();
                self.life.db.commit_prepared(&xid).map_err(undecided)
            }
            1..5 => Ok(tx.commit_async()?.wait().map(drop)?),
            _ => Ok(tx.commit().map(drop)?),
        }
    }

    /// Runs a transaction that is prepared and then rolled back.
    fn prepare_and_undo(&mut self, n: u64) -> Outcome {
        let mut tx = self.begin()?;
        for _ in 0..self.rng.between(1, 20) {
            self.spoil(&mut tx)?;
        }
        let xid = xid('r', self.number, n);
        tx.prepare(&xid)?;
        self.pause_in_doubt();
        self.life.db.rollback_prepared(&xid).map_err(undecided)
    }

    /// Sometimes leaves a transaction prepared for a while, so that a kill may come in this state.
    fn pause_in_doubt(&mut self) {
        if self.rng.one_in(10) {
            std::thread::sleep(Duration::from_millis(self.rng.below(300)));
        }
    }

    fn begin(&mut self) -> millpond::Result<Transaction> {
        // The default level is drawn twice as often as each other one.
        let drawn = self.rng.below(Isolation::ALL.len() as u64 + 1) as usize;
        let level = Isolation::ALL.get(drawn).copied().unwrap_or_default();
        self.life.db.begin_with(TxnOptions::new().isolation(level))
    }

    /// Writes to the client's own row how many steps it has done, and how often it has incremented
    /// hot rows. Moves its queue on.
    fn count(&self, tx: &mut Transaction, n: u64, hot: u64) -> millpond::Result {
        let (clients, key) = (&self.life.tables.clients, self.number.to_be_bytes());
        let before = tx
            .get_for_update(clients, &key)?
            .map_or(ClientCount::default(), |value| ClientCount::decode(&value));
        let queue = &self.life.tables.queue;
        tx.put(queue, &queue_key(self.number, n), &queue_value(n))?;
        if let Some(out) = n.checked_sub(QUEUE_ROWS) {
            tx.delete(queue, &queue_key(self.number, out))?;
        }
        tx.put(clients, &key, &ClientCount { steps: n, hot: before.hot + hot }.encode())
    }

    fn change(&mut self, tx: &mut Transaction, n: u64, at: u32, change: RowChange) -> Outcome {
        let rows = &self.life.tables.rows;
        match change {
            RowChange::Put { slot, bytes } => {
                let origin = Origin { client: self.number, slot, step: n, change: at };
                tx.put(rows, &row_key(self.number, slot), &self.life.recipe.value(origin, bytes))?;
            }
            RowChange::Delete { slot } => drop(tx.delete(rows, &row_key(self.number, slot))?),
            RowChange::Hot { row } => self.add_to_hot(tx, row)?,
            RowChange::Spoil { changes } => {
                let mark = tx.savepoint();
                for _ in 0..changes {
                    self.spoil(tx)?;
                }
                tx.rollback_to(&mark).map_err(|error| self.check_aborted(tx, error))?;
            }
        }
        Ok(())
    }

    /// Checks that a transaction whose rollback to a savepoint failed refuses more work. Else half
    /// of its changes could be committed.
    fn check_aborted(&self, tx: &mut Transaction, error: Error) -> AttemptError {
        match tx.delete(&self.life.tables.rows, &row_key(self.number, u16::MAX)) {
            Err(Error::Aborted) => AttemptError::Again(error),
            outcome => AttemptError::Wrong(format!("after a rollback that failed ({error}): {outcome:?}")),
        }
    }

    /// Makes a change that no other transaction may ever see.
    fn spoil(&mut self, tx: &mut Transaction) -> millpond::Result {
        let slot = self.rng.below(200) as u16;
        let at = row_key(self.number, slot);
        if self.rng.one_in(3) {
            return tx.delete(&self.life.tables.rows, &at).map(drop);
        }
        let bytes = if self.rng.one_in(30) { 50_000 } else { 100 };
        tx.put(&self.life.tables.rows, &at, &vec![0xee; bytes])
    }

    fn add_to_hot(&self, tx: &mut Transaction, row: u8) -> millpond::Result {
        let hot = &self.life.tables.hot;
        let now = tx.get_for_update(hot, &[row])?.map_or(0, |value| number(&value));
        tx.put(hot, &[row], &(now + 1).to_le_bytes())
    }
}

/// Why an attempt failed.
enum AttemptError {
    /// The transaction has ended; a new attempt may succeed.
    Again(Error),
    /// A finding.
    Wrong(String),
}

/// A prepared transaction must always accept its decision, so any error is a finding.
fn undecided(error: Error) -> AttemptError {
    AttemptError::Wrong(format!("a prepared transaction could not be decided: {error}"))
}

impl From<Error> for AttemptError {
    fn from(error: Error) -> AttemptError {
        AttemptError::Again(error)
    }
}

type Outcome = Result<(), AttemptError>;

/// The content of a client's own row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClientCount {
    /// Steps done.
    pub(super) steps: u64,
    /// How often they have incremented hot rows.
    pub(super) hot: u64,
}

impl ClientCount {
    fn encode(self) -> Vec<u8> {
        [self.steps.to_le_bytes(), self.hot.to_le_bytes()].concat()
    }

    pub(super) fn decode(value: &[u8]) -> ClientCount {
        let (steps, hot) = value.split_at(value.len().min(8));
        ClientCount { steps: number(steps), hot: number(hot) }
    }
}

/// Decodes eight bytes, little-endian. Another length gives a number that matches nothing.
pub(super) fn number(value: &[u8]) -> u64 {
    value.try_into().map_or(u64::MAX >> 1, u64::from_le_bytes)
}

/// Returns the prefix of the names of a client's tables.
pub(super) fn table_prefix(client: u16) -> String {
    format!("table of {client} since ")
}

/// Returns a row of the table that step `n` makes.
pub(super) fn table_row(n: u64, row: u32) -> Vec<u8> {
    format!("row {row} of the table of step {n}").into_bytes()
}

/// Returns the xid of a prepared transaction. The next life commits it if it begins with `p`, and
/// rolls it back if it begins with `r`.
fn xid(fate: char, client: u16, n: u64) -> Vec<u8> {
    format!("{fate} {client} {n}").into_bytes()
}
