//! One client thread: it runs transactions of all kinds, each of which keeps the headers of all
//! groups correct.

use super::failure::TxnFailure;
use super::row::{GroupSum, Row, SLOTS, group_end, key};
use super::shared::{Delta, Shared};
use base::prng::Prng;
use millpond::{Durability, Error, Isolation, LockWait, Table, Transaction, TxnOptions};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// Half of all transactions use only so many groups, which makes conflicts likely.
const HOT: u32 = 16;

type Outcome<T = ()> = Result<T, TxnFailure>;

pub(super) struct Client<'s> {
    pub(super) shared: &'s Shared,
    pub(super) number: u64,
    pub(super) rng: Prng,
    pub(super) made: u64,
}

impl Client<'_> {
    /// Runs one transaction. An error ends the run.
    pub(super) fn step(&mut self) -> Result<(), String> {
        let kind = self.rng.below(100);
        let outcome = match kind {
            0..30 => self.change(Self::transfer),
            30..45 => self.change(Self::insert),
            45..60 => self.change(Self::delete),
            60..73 => self.audit(),
            73..77 => self.change(Self::many),
            77..80 => self.change(Self::rewrite),
            80..87 => self.roll_back(),
            87..94 => self.prepare(),
            94..97 => self.decide_one(),
            _ => self.tables(),
        };
        let counts = &self.shared.counts;
        match outcome {
            Ok(()) => {}
            Err(TxnFailure::Engine(error)) => {
                let count = match error {
                    Error::Deadlock => &counts.deadlocks,
                    Error::LockTimeout => &counts.timeouts,
                    Error::WriteConflict => &counts.conflicts,
                    error => return Err(format!("kind {kind} of client {}: {error}", self.number)),
                };
                count.fetch_add(1, Ordering::Relaxed);
            }
            Err(TxnFailure::Wrong(what)) => return Err(what),
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
        let isolation = *self.rng.pick(Isolation::ALL);
        let durability = match self.rng.below(4) {
            0 => Durability::Bounded { ms: 5, bytes: 100_000 },
            1 => Durability::None,
            _ => Durability::Sync,
        };
        (TxnOptions::new().isolation(isolation).durability(durability), isolation)
    }

    fn begin(&mut self) -> Outcome<OpenTxn> {
        let (options, isolation) = self.options();
        Ok(OpenTxn { tx: self.shared.db.begin_with(options)?, isolation, delta: Delta::default() })
    }

    /// Runs `change` in a transaction and commits it.
    fn change(&mut self, change: impl Fn(&mut Self, &mut OpenTxn) -> Outcome) -> Outcome {
        let mut work = self.begin()?;
        change(self, &mut work)?;
        work.tx.commit()?;
        self.shared.add(work.delta);
        Ok(())
    }

    /// Reads a row that this transaction will change. Where reads repeat, a plain one is enough,
    /// because the engine detects a conflicting change.
    fn read(&mut self, work: &mut OpenTxn, key: &[u8]) -> Outcome<Option<Row>> {
        let locked = !work.isolation.repeats_reads() || self.rng.one_in(2);
        let table = &self.shared.table;
        let value = if locked { work.tx.get_for_update(table, key)? } else { work.tx.get(table, key)? };
        Ok(value.map(|value| Row::decode(key, &value)).transpose()?)
    }

    fn put(&mut self, work: &mut OpenTxn, key: &[u8], row: Row) -> Outcome {
        Ok(work.tx.put(&self.shared.table, key, &row.encode(key, &mut self.rng))?)
    }

    fn transfer(&mut self, work: &mut OpenTxn) -> Outcome {
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

    /// Adds an inserted row to the header of its group, or subtracts a deleted one.
    fn count(&mut self, work: &mut OpenTxn, group: u32, balance: i64, count: i64) -> Outcome {
        let at = key(group, 0);
        let header = self.read(work, &at)?.ok_or_else(|| format!("group {group} has no header"))?;
        let count_now = header.count.wrapping_add_signed(count);
        self.put(work, &at, Row { balance: header.balance + balance, count: count_now })?;
        work.delta.balance += balance;
        work.delta.count += count;
        Ok(())
    }

    fn insert(&mut self, work: &mut OpenTxn) -> Outcome {
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

    fn delete(&mut self, work: &mut OpenTxn) -> Outcome {
        let group = self.group();
        let at = self.row_key(group);
        let Some(row) = self.read(work, &at)? else { return Ok(()) };
        if !work.tx.delete(&self.shared.table, &at)? {
            return Err(format!("row {} was read, but then it was missing", at.escape_ascii()).into());
        }
        self.count(work, group, -row.balance, -1)
    }

    /// Makes many changes. Before each, it makes wrong changes and rolls back to a savepoint.
    fn many(&mut self, work: &mut OpenTxn) -> Outcome {
        for _ in 0..self.rng.between(2, 12) {
            let mark = (work.tx.savepoint(), work.delta);
            self.spoil(work)?;
            work.tx.rollback_to(&mark.0)?;
            work.delta = mark.1;
            match self.rng.below(3) {
                0 => self.transfer(work)?,
                1 => self.insert(work)?,
                _ => self.delete(work)?,
            }
        }
        Ok(())
    }

    /// Makes changes that no other transaction may ever see.
    fn spoil(&mut self, work: &mut OpenTxn) -> Outcome {
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

    fn roll_back(&mut self) -> Outcome {
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

    /// Locks all rows of a group and writes some of them again.
    fn rewrite(&mut self, work: &mut OpenTxn) -> Outcome {
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

    /// Reads a group; where reads repeat twice, with the same result.
    fn audit(&mut self) -> Outcome {
        let (options, isolation) = self.options();
        let tx = self.shared.db.begin_with(options.read_only(self.rng.one_in(2)))?;
        let group = self.group();
        let first = read_group(&tx, &self.shared.table, group, self.rng.one_in(2))?;
        if isolation.repeats_reads() {
            let again = read_group(&tx, &self.shared.table, group, self.rng.one_in(2))?;
            if again != first {
                return Err(format!("group {group} at {isolation:?}: first {first:?}, then {again:?}").into());
            }
        }
        tx.rollback();
        self.shared.counts.audits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Prepares a transaction that any client may decide.
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
        self.shared.prepared.lock().expect("no client panicked").push((xid, work.delta));
        self.shared.counts.prepared.fetch_add(1, Ordering::Relaxed);
        if self.rng.one_in(2) { self.decide_one() } else { Ok(()) }
    }

    fn decide_one(&mut self) -> Outcome {
        let at_most = self.rng.between(1, 4);
        for _ in 0..at_most {
            let Some((xid, delta)) = self.shared.prepared.lock().expect("no client panicked").pop() else {
                break;
            };
            self.shared.decide(&xid, delta, self.rng.one_in(3))?;
        }
        Ok(())
    }

    /// Creates, renames, drops or reads a table, while other clients use it.
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
                // The table stays while this transaction uses it, so a second read must not find
                // fewer rows.
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

pub(super) struct OpenTxn {
    tx: Transaction,
    isolation: Isolation,
    delta: Delta,
}

/// Reads a group and returns its header, or an error if the header does not match the rows.
pub(super) fn read_group(tx: &Transaction, table: &Table, group: u32, borrowed: bool) -> Outcome<Row> {
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
