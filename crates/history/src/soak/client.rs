//! One client of a life: it does its steps one after the other, each until it is committed, and notes in the ledger how many.

use super::life::Life;
use super::recipe::{Change, Origin, Step, row_key};
use base::prng::Prng;
use millpond::{Error, Isolation, Transaction, TxnOptions};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a full disk makes a client wait before it tries again.
const FULL: Duration = Duration::from_millis(20);

pub(super) struct Client<'l> {
    pub(super) life: &'l Life,
    pub(super) number: u16,
    /// Steps done.
    pub(super) done: u64,
    /// How a step is done; what it does follows from the recipe.
    pub(super) rng: Prng,
}

impl Client<'_> {
    /// Does steps until the life ends. `Err` says what must not be.
    pub(super) fn run(&mut self) -> Result<(), String> {
        while !self.life.ends() {
            let step = self.life.recipe.step(self.number, self.done + 1);
            self.finish(&step)?;
        }
        Ok(())
    }

    /// Does the next step, as often as it takes, unless the life ends before.
    pub(super) fn finish(&mut self, step: &Step) -> Result<(), String> {
        let n = self.done + 1;
        while !self.life.ends() {
            match self.attempt(n, step) {
                Ok(()) => {
                    self.life.ledger.note(self.number, n)?;
                    self.life.acknowledged.fetch_add(1, Ordering::Relaxed);
                    self.done = n;
                    break;
                }
                Err(Trouble::Again(Error::DiskFull { .. })) => {
                    self.life.refused.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(FULL);
                }
                Err(Trouble::Again(error)) if error.is_retryable() => {
                    self.life.retried.fetch_add(1, Ordering::Relaxed);
                }
                Err(Trouble::Again(error)) => {
                    return Err(format!("client {}, step {n}: {error}", self.number));
                }
                Err(Trouble::Wrong(what)) => {
                    return Err(format!("client {}, step {n}: {what}", self.number));
                }
            }
        }
        Ok(())
    }

    fn attempt(&mut self, n: u64, step: &Step) -> Outcome {
        match step {
            Step::Table(rows) => self.replace_table(n, *rows),
            Step::Rows(changes) => {
                if self.rng.one_in(25) {
                    self.prepare_and_undo(n)?;
                }
                self.change_rows(n, changes)
            }
        }
    }

    /// Whatever table of the client there is goes; the new one is loaded in one piece.
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

    fn change_rows(&mut self, n: u64, changes: &[Change]) -> Outcome {
        let mut tx = self.begin()?;
        for (at, change) in changes.iter().enumerate() {
            self.change(&mut tx, n, at as u32, *change)?;
        }
        let hot = changes.iter().filter(|change| matches!(change, Change::Hot { .. })).count();
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

    /// A transaction that is prepared and then rolled back.
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

    /// Now and then a prepared transaction stays for a while, so that a kill meets it.
    fn pause_in_doubt(&mut self) {
        if self.rng.one_in(10) {
            std::thread::sleep(Duration::from_millis(self.rng.below(300)));
        }
    }

    fn begin(&mut self) -> millpond::Result<Transaction> {
        let level = *self.rng.pick(&[
            Isolation::ReadCommitted,
            Isolation::RepeatableRead,
            Isolation::RepeatableRead,
            Isolation::Serializable,
        ]);
        self.life.db.begin_with(TxnOptions::new().isolation(level))
    }

    /// Notes in the client's own row how many steps it has done, and how often it has added to hot rows.
    fn count(&self, tx: &mut Transaction, n: u64, hot: u64) -> millpond::Result {
        let (clients, key) = (&self.life.tables.clients, self.number.to_be_bytes());
        let before =
            tx.get_for_update(clients, &key)?.map_or(Count::default(), |value| Count::decode(&value));
        tx.put(clients, &key, &Count { steps: n, hot: before.hot + hot }.encode())
    }

    fn change(&mut self, tx: &mut Transaction, n: u64, at: u32, change: Change) -> Outcome {
        let rows = &self.life.tables.rows;
        match change {
            Change::Put { slot, bytes } => {
                let origin = Origin { client: self.number, slot, step: n, change: at };
                tx.put(rows, &row_key(self.number, slot), &self.life.recipe.value(origin, bytes))?;
            }
            Change::Delete { slot } => drop(tx.delete(rows, &row_key(self.number, slot))?),
            Change::Hot { row } => self.add_to_hot(tx, row)?,
            Change::Spoil { changes } => {
                let mark = tx.savepoint();
                for _ in 0..changes {
                    self.spoil(tx)?;
                }
                tx.rollback_to(&mark).map_err(|error| self.doomed(tx, error))?;
            }
        }
        Ok(())
    }

    /// A transaction that could not take its changes back must not go on, else half of them could be committed.
    fn doomed(&self, tx: &mut Transaction, error: Error) -> Trouble {
        match tx.delete(&self.life.tables.rows, &row_key(self.number, u16::MAX)) {
            Err(Error::Aborted) => Trouble::Again(error),
            outcome => Trouble::Wrong(format!("after a rollback that failed ({error}): {outcome:?}")),
        }
    }

    /// A change that nobody else may ever see.
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
enum Trouble {
    /// The transaction is gone; another one may do better.
    Again(Error),
    /// What must not be.
    Wrong(String),
}

/// Nothing may prevent that a prepared transaction is decided.
fn undecided(error: Error) -> Trouble {
    Trouble::Wrong(format!("a prepared transaction could not be decided: {error}"))
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Again(error)
    }
}

type Outcome = Result<(), Trouble>;

/// A client's own row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    /// Steps done.
    pub(super) steps: u64,
    /// How often they have added to hot rows.
    pub(super) hot: u64,
}

impl Count {
    fn encode(self) -> Vec<u8> {
        [self.steps.to_le_bytes(), self.hot.to_le_bytes()].concat()
    }

    pub(super) fn decode(value: &[u8]) -> Count {
        let (steps, hot) = value.split_at(value.len().min(8));
        Count { steps: number(steps), hot: number(hot) }
    }
}

/// Eight bytes, little-endian; anything else is a number that fits nothing.
pub(super) fn number(value: &[u8]) -> u64 {
    value.try_into().map_or(u64::MAX >> 1, u64::from_le_bytes)
}

/// What the names of a client's tables begin with.
pub(super) fn table_prefix(client: u16) -> String {
    format!("table of {client} since ")
}

/// A row of the table that step `n` makes.
pub(super) fn table_row(n: u64, row: u32) -> Vec<u8> {
    format!("row {row} of the table of step {n}").into_bytes()
}

/// The outside name of a prepared transaction: `p` shall be committed by whoever finds it, `r` rolled back.
fn xid(fate: char, client: u16, n: u64) -> Vec<u8> {
    format!("{fate} {client} {n}").into_bytes()
}
