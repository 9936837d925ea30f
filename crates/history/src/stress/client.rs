//! What one thread does: transactions of all kinds, one after the other, each of which leaves every group's header true.

use super::Shared;
use super::row::{GroupSum, Row, SLOTS, group_end, key};
use base::prng::Prng;
use millpond::{Durability, Error, Isolation, LockWait, Table, Transaction, TxnOptions};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// Groups that half of all transactions go to, so that they meet.
const HOT: u32 = 16;

/// Why a transaction did not get done.
pub(super) enum Stop {
    /// The engine said so.
    Engine(Error),
    /// What was read cannot be.
    Wrong(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Engine(error)
    }
}

impl From<String> for Stop {
    fn from(what: String) -> Stop {
        Stop::Wrong(what)
    }
}

type Outcome<T = ()> = Result<T, Stop>;

pub(super) struct Client<'s> {
    pub(super) shared: &'s Shared,
    pub(super) number: u64,
    pub(super) rng: Prng,
    pub(super) made: u64,
}

/// What a transaction adds to all groups, if it commits.
#[derive(Clone, Copy, Default)]
pub(super) struct Gain {
    pub(super) balance: i64,
    pub(super) count: i64,
}

impl Client<'_> {
    /// One transaction. `Err` ends the run.
    pub(super) fn step(&mut self) -> Result<(), String> {
        let kind = self.rng.below(100);
        let outcome = match kind {
            0..30 => self.change(Self::transfer),
            30..45 => self.change(Self::insert),
            45..60 => self.change(Self::delete),
            60..73 => self.audit(),
            73..77 => self.change(Self::many),
            77..80 => self.change(Self::rewrite),
            80..87 => self.give_up(),
            87..94 => self.prepare(),
            94..97 => self.decide_one(),
            _ => self.tables(),
        };
        let counts = &self.shared.counts;
        match outcome {
            Ok(()) => {}
            Err(Stop::Engine(Error::Deadlock)) => drop(counts.deadlocks.fetch_add(1, Ordering::Relaxed)),
            Err(Stop::Engine(Error::LockTimeout)) => drop(counts.timeouts.fetch_add(1, Ordering::Relaxed)),
            Err(Stop::Engine(Error::WriteConflict)) => drop(counts.conflicts.fetch_add(1, Ordering::Relaxed)),
            Err(Stop::Engine(error)) => {
                return Err(format!("kind {kind} of client {}: {error}", self.number));
            }
            Err(Stop::Wrong(what)) => return Err(what),
        }
        counts.ended.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn group(&mut self) -> u32 {
        let groups = self.shared.groups;
        let among = if self.rng.one_in(2) { HOT.min(groups) } else { groups };
        self.rng.below(u64::from(among)) as u32
    }

    fn row_key(&mut self, group: u32) -> [u8; 8] {
        key(group, 1 + self.rng.below(u64::from(SLOTS - 1)) as u32)
    }

    fn options(&mut self) -> (TxnOptions, Isolation) {
        let levels = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];
        let isolation = *self.rng.pick(&levels);
        let durability = match self.rng.below(4) {
            0 => Durability::Bounded { ms: 5, bytes: 100_000 },
            1 => Durability::None,
            _ => Durability::Sync,
        };
        (TxnOptions::new().isolation(isolation).durability(durability), isolation)
    }

    fn begin(&mut self) -> Outcome<Work> {
        let (options, isolation) = self.options();
        Ok(Work { tx: self.shared.db.begin_with(options)?, isolation, gain: Gain::default() })
    }

    /// A transaction that commits.
    fn change(&mut self, change: impl Fn(&mut Self, &mut Work) -> Outcome) -> Outcome {
        let mut work = self.begin()?;
        change(self, &mut work)?;
        work.tx.commit()?;
        self.shared.gained(work.gain);
        Ok(())
    }

    /// The row as it is now. At levels above read committed a plain read is enough, for what changes it meanwhile is found.
    fn read(&mut self, work: &mut Work, key: &[u8]) -> Outcome<Option<Row>> {
        let locked = work.isolation == Isolation::ReadCommitted || self.rng.one_in(2);
        let table = &self.shared.table;
        let value = if locked { work.tx.get_for_update(table, key)? } else { work.tx.get(table, key)? };
        Ok(value.map(|value| Row::decode(key, &value)).transpose()?)
    }

    fn put(&mut self, work: &mut Work, key: &[u8], row: Row) -> Outcome {
        Ok(work.tx.put(&self.shared.table, key, &row.encode(key, &mut self.rng))?)
    }

    fn transfer(&mut self, work: &mut Work) -> Outcome {
        let group = self.group();
        let (from, to) = (self.row_key(group), self.row_key(group));
        let amount = self.rng.below(100) as i64;
        if from == to {
            return Ok(());
        }
        if let (Some(a), Some(b)) = (self.read(work, &from)?, self.read(work, &to)?) {
            self.put(work, &from, Row { balance: a.balance - amount, ..a })?;
            self.put(work, &to, Row { balance: b.balance + amount, ..b })?;
        }
        Ok(())
    }

    /// Adds to the header what one row more or less makes.
    fn count(&mut self, work: &mut Work, group: u32, balance: i64, count: i64) -> Outcome {
        let at = key(group, 0);
        let header = self.read(work, &at)?.ok_or_else(|| format!("group {group} has no header"))?;
        let count_now = header.count.wrapping_add_signed(count);
        self.put(work, &at, Row { balance: header.balance + balance, count: count_now })?;
        work.gain.balance += balance;
        work.gain.count += count;
        Ok(())
    }

    fn insert(&mut self, work: &mut Work) -> Outcome {
        let group = self.group();
        let at = self.row_key(group);
        let balance = self.rng.below(1000) as i64;
        let row = Row { balance, count: 0 }.encode(&at, &mut self.rng);
        match work.tx.insert(&self.shared.table, &at, &row) {
            Ok(()) => self.count(work, group, balance, 1),
            Err(Error::KeyExists) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn delete(&mut self, work: &mut Work) -> Outcome {
        let group = self.group();
        let at = self.row_key(group);
        let Some(row) = self.read(work, &at)? else { return Ok(()) };
        if !work.tx.delete(&self.shared.table, &at)? {
            return Err(format!("row {} was read and then not there", at.escape_ascii()).into());
        }
        self.count(work, group, -row.balance, -1)
    }

    /// Many changes, each of which was done wrong first and undone.
    fn many(&mut self, work: &mut Work) -> Outcome {
        for _ in 0..self.rng.between(2, 12) {
            let mark = (work.tx.savepoint(), work.gain);
            self.spoil(work)?;
            work.tx.rollback_to(&mark.0)?;
            work.gain = mark.1;
            match self.rng.below(3) {
                0 => self.transfer(work)?,
                1 => self.insert(work)?,
                _ => self.delete(work)?,
            }
        }
        Ok(())
    }

    /// Changes that nobody else may ever see.
    fn spoil(&mut self, work: &mut Work) -> Outcome {
        let group = self.group();
        for _ in 0..self.rng.between(1, 8) {
            let at = if self.rng.one_in(4) { key(group, 0) } else { self.row_key(group) };
            if self.rng.one_in(3) {
                work.tx.delete(&self.shared.table, &at)?;
            } else {
                self.put(work, &at, Row { balance: 1 << 40, count: 1 << 40 })?;
            }
        }
        Ok(())
    }

    fn give_up(&mut self) -> Outcome {
        let mut work = self.begin()?;
        for _ in 0..if self.rng.one_in(10) { 60 } else { 2 } {
            self.spoil(&mut work)?;
        }
        if self.rng.one_in(2) {
            work.tx.rollback();
        }
        self.shared.counts.rolled_back.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// All rows of a group, locked, then written anew.
    fn rewrite(&mut self, work: &mut Work) -> Outcome {
        let group = self.group();
        let (from, to) = (key(group, 0), group_end(group));
        let wait = *self.rng.pick(&[LockWait::Wait, LockWait::NoWait, LockWait::SkipLocked]);
        let mut rows = Vec::new();
        for row in work.tx.range_for_update(&self.shared.table, &from[..]..&to[..], wait)? {
            rows.push(row?);
        }
        if wait != LockWait::SkipLocked {
            let mut sum = GroupSum::default();
            rows.iter().try_for_each(|(key, value)| sum.add(key, value))?;
            sum.total(group)?;
        }
        for (key, value) in rows.iter().take(20) {
            let row = Row::decode(key, value)?;
            self.put(work, key, row)?;
        }
        Ok(())
    }

    /// Reads a group in one go, above read committed a second time.
    fn audit(&mut self) -> Outcome {
        let (options, isolation) = self.options();
        let tx = self.shared.db.begin_with(options.read_only(self.rng.one_in(2)))?;
        let group = self.group();
        let first = total(&tx, &self.shared.table, group, self.rng.one_in(2))?;
        if isolation != Isolation::ReadCommitted {
            let again = total(&tx, &self.shared.table, group, self.rng.one_in(2))?;
            if again != first {
                return Err(format!("group {group} at {isolation:?}: first {first:?}, then {again:?}").into());
            }
        }
        tx.rollback();
        self.shared.counts.audits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Leaves a transaction's end to somebody else.
    fn prepare(&mut self) -> Outcome {
        let mut work = self.begin()?;
        match self.rng.below(3) {
            0 => self.transfer(&mut work)?,
            1 => self.insert(&mut work)?,
            _ => self.delete(&mut work)?,
        }
        self.made += 1;
        let xid = format!("{} {}", self.number, self.made).into_bytes();
        work.tx.prepare(&xid)?;
        self.shared.prepared.lock().expect("no client panicked").push((xid, work.gain));
        self.shared.counts.prepared.fetch_add(1, Ordering::Relaxed);
        if self.rng.one_in(2) { self.decide_one() } else { Ok(()) }
    }

    fn decide_one(&mut self) -> Outcome {
        let at_most = self.rng.between(1, 4);
        for _ in 0..at_most {
            let Some((xid, gain)) = self.shared.prepared.lock().expect("no client panicked").pop() else {
                break;
            };
            self.shared.decide(&xid, gain, self.rng.one_in(3))?;
        }
        Ok(())
    }

    /// Tables come, change their names and go, while others read them.
    fn tables(&mut self) -> Outcome {
        let (db, of) = (&self.shared.db, self.rng.below(8));
        let name = format!("table {of}");
        let outcome = match self.rng.below(6) {
            0 => db.create_table(&name).and_then(|table| {
                let mut tx = db.begin()?;
                for n in 0..40u32 {
                    tx.put(&table, &n.to_be_bytes(), &[of as u8; 200])?;
                }
                tx.commit().map(drop)
            }),
            1 => db.drop_table(&name),
            2 => db.rename_table(&name, &format!("table {}", self.rng.below(8))),
            _ => db.open_table(&name).and_then(|table| {
                let tx = db.begin_with(self.options().0)?;
                let rows = tx.range(&table, ..)?.collect::<Result<Vec<_>, _>>()?;
                // All of them or none, whatever becomes of the table.
                let again = tx.range(&table, ..)?.collect::<Result<Vec<_>, _>>()?;
                assert!(again.len() >= rows.len(), "{name} lost rows while it was read");
                Ok(())
            }),
        };
        match outcome {
            Ok(()) => drop(self.shared.counts.tables.fetch_add(1, Ordering::Relaxed)),
            Err(Error::TableExists { .. } | Error::NoSuchTable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

pub(super) struct Work {
    tx: Transaction,
    isolation: Isolation,
    gain: Gain,
}

/// A group's header, if it is true for the rows that one read shows.
pub(super) fn total(tx: &Transaction, table: &Table, group: u32, borrowed: bool) -> Outcome<Row> {
    let (from, to) = (key(group, 0), group_end(group));
    let mut sum = GroupSum::default();
    if borrowed {
        let mut outcome = Ok(());
        tx.scan(table, &from[..]..&to[..], |key, value| {
            outcome = sum.add(key, value);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome?;
    } else {
        for row in tx.range(table, &from[..]..&to[..])? {
            let (key, value) = row?;
            sum.add(&key, &value)?;
        }
    }
    Ok(sum.total(group)?)
}
