//! What the transactions do. They use one group of keys after the other, so lists stay short and
//! conflicts are frequent.

use crate::record::{Op, ReadResult, Version};
use base::prng::Prng;
use millpond::{Error, Result, Table, Transaction};
use std::sync::atomic::{AtomicU64, Ordering};

/// Transactions that share a group of keys.
const GROUP: u64 = 48;
/// Keys that a group may use.
const STRIDE: u64 = 1 << 20;

/// A kind of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Keys hold lists; transactions read some and append to others.
    Append,
    /// Keys hold one number; transactions read some and overwrite others.
    Register,
    /// Transfers between accounts and audits of their sum. Some accounts are pairs that must not be
    /// overdrawn together.
    Bank,
    /// Some transactions write one key each, others read all keys in any order.
    Fork,
    /// Rows are inserted if a scan finds few, changed, and deleted.
    Range,
}

impl Workload {
    /// All of them.
    pub const ALL: &[Workload] =
        &[Workload::Append, Workload::Register, Workload::Bank, Workload::Fork, Workload::Range];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Workload::Append => "append",
            Workload::Register => "register",
            Workload::Bank => "bank",
            Workload::Fork => "fork",
            Workload::Range => "range",
        }
    }
}

/// The accounts whose sum stays the same, and the first balance of each.
const ACCOUNTS: u64 = 6;
const START: i64 = 100;
/// The accounts that are pairs: the sum of two neighbours must not be negative.
const PAIRS: std::ops::Range<u64> = 10..14;
/// A transaction inserts a row only if its scan finds fewer rows than this.
const FEW: usize = 3;

/// A transaction in progress. It records its operations and their results.
pub struct Client<'c> {
    /// The transaction.
    pub tx: Transaction,
    /// Its table.
    pub table: &'c Table,
    /// Gives each write its number.
    pub versions: &'c AtomicU64,
    /// Whether it may only read.
    pub read_only: bool,
    /// Decides what it does.
    pub rng: Prng,
    /// What it did.
    pub ops: Vec<Op>,
    /// Broken rules that it saw; they count if it commits.
    pub broken: Vec<String>,
}

impl std::fmt::Debug for Client<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.ops)
    }
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|n| u64::from_be_bytes(n.try_into().expect("eight bytes"))).collect()
}

/// Decodes a row of the workload `Append`: the key and its list.
#[must_use]
pub fn list_of(key: &[u8], value: &[u8]) -> (u64, Vec<Version>) {
    (numbers(key)[0], numbers(value))
}

impl Client<'_> {
    fn version(&self) -> Version {
        self.versions.fetch_add(1, Ordering::Relaxed)
    }

    /// Lets other threads run between two operations.
    fn pause(&mut self) {
        if self.rng.one_in(2) {
            std::thread::yield_now();
        }
    }

    fn read_list(&mut self, key: u64) -> Result<Vec<u64>> {
        self.pause();
        let list = self.tx.get(self.table, &key.to_be_bytes())?.map_or(Vec::new(), |bytes| numbers(&bytes));
        let result = if list.is_empty() { ReadResult::Nothing } else { ReadResult::List(list.clone()) };
        self.ops.push(Op::Read(key, result));
        Ok(list)
    }

    fn append(&mut self, key: u64) -> Result<()> {
        let mut list = self.read_list(key)?;
        let version = self.version();
        list.push(version);
        self.pause();
        let bytes: Vec<u8> = list.iter().flat_map(|n| n.to_be_bytes()).collect();
        self.tx.put(self.table, &key.to_be_bytes(), &bytes)?;
        self.ops.push(Op::Write(key, version));
        Ok(())
    }

    /// Reads a key's payload; 0 if there is no row.
    fn read(&mut self, key: u64) -> Result<i64> {
        self.pause();
        let found = self.tx.get(self.table, &key.to_be_bytes())?.map(|bytes| numbers(&bytes));
        let result = found.as_ref().map_or(ReadResult::Nothing, |n| ReadResult::Version(n[0]));
        self.ops.push(Op::Read(key, result));
        Ok(found.map_or(0, |n| n[1].cast_signed()))
    }

    fn write(&mut self, key: u64, payload: i64) -> Result<()> {
        self.pause();
        let version = self.version();
        let bytes = [version.to_be_bytes(), payload.to_be_bytes()].concat();
        self.tx.put(self.table, &key.to_be_bytes(), &bytes)?;
        self.ops.push(Op::Write(key, version));
        Ok(())
    }

    fn delete(&mut self, key: u64) -> Result<()> {
        let version = self.version();
        if self.tx.delete(self.table, &key.to_be_bytes())? {
            self.ops.push(Op::Delete(key, version));
        }
        Ok(())
    }

    fn scan(&mut self, from: u64, to: u64, backward: bool) -> Result<Vec<u64>> {
        self.pause();
        let (low, high) = (from.to_be_bytes(), to.to_be_bytes());
        let range = self.tx.range(self.table, &low[..]..&high[..])?;
        let row = |row: Result<(Vec<u8>, Vec<u8>)>| row.map(|(k, v)| (numbers(&k)[0], numbers(&v)[0]));
        let rows: Result<Vec<_>> =
            if backward { range.rev().map(row).collect() } else { range.map(row).collect() };
        let rows = rows?;
        let keys = rows.iter().map(|(key, _)| *key).collect();
        self.ops.push(Op::Range(from, to, rows));
        Ok(keys)
    }

    fn rule(&mut self, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(text());
        }
    }

    /// Fills the table before all other transactions.
    ///
    /// # Errors
    /// Those of the database.
    pub fn prepare(&mut self, workload: Workload) -> Result<()> {
        if workload == Workload::Bank {
            for account in (0..ACCOUNTS).chain(PAIRS) {
                self.write(account, START)?;
            }
        }
        Ok(())
    }

    /// Runs the `n`-th transaction.
    ///
    /// # Errors
    /// Those of the database; retryable ones end the transaction and nothing else.
    pub fn run(&mut self, workload: Workload, n: u64) -> Result<()> {
        let first = n / GROUP * STRIDE;
        if self.read_only {
            return self.read_all(workload, first);
        }
        match workload {
            Workload::Append | Workload::Register => {
                for _ in 0..self.rng.between(1, 4) {
                    let key = first + self.rng.below(5);
                    match (self.rng.one_in(2), workload) {
                        (true, Workload::Append) => self.append(key)?,
                        (true, _) => self.write(key, 0)?,
                        (false, Workload::Append) => drop(self.read_list(key)?),
                        (false, _) => drop(self.read(key)?),
                    }
                }
                Ok(())
            }
            Workload::Bank => self.bank(),
            Workload::Fork => {
                if self.rng.one_in(2) {
                    let key = first + self.rng.below(3);
                    return self.write(key, 0);
                }
                self.read_all(workload, first)
            }
            Workload::Range => self.range(first),
        }
    }

    /// Reads all keys of the group, starting at a random one.
    fn read_all(&mut self, workload: Workload, first: u64) -> Result<()> {
        let keys = match workload {
            Workload::Append | Workload::Register => 5,
            Workload::Fork => 3,
            Workload::Bank => return self.audit(),
            Workload::Range => return self.count(first).map(drop),
        };
        let start = self.rng.below(keys);
        (0..keys).map(|n| first + (start + n) % keys).try_for_each(|key| match workload {
            Workload::Append => self.read_list(key).map(drop),
            _ => self.read(key).map(drop),
        })
    }

    fn audit(&mut self) -> Result<()> {
        let start = self.rng.below(ACCOUNTS);
        let mut sum = 0;
        for n in 0..ACCOUNTS {
            sum += self.read((start + n) % ACCOUNTS)?;
        }
        let all = START * ACCOUNTS as i64;
        self.rule(sum == all, || format!("the accounts sum up to {sum} instead of {all}"));
        Ok(())
    }

    /// Scans the rows of a group, forward or backward.
    fn count(&mut self, first: u64) -> Result<Vec<u64>> {
        let backward = self.rng.one_in(2);
        let keys = self.scan(first, first + STRIDE, backward)?;
        self.rule(keys.len() <= FEW, || format!("{} rows where {FEW} are the most: {keys:?}", keys.len()));
        Ok(keys)
    }

    fn bank(&mut self) -> Result<()> {
        match self.rng.below(3) {
            0 => {
                let (from, to) = (self.rng.below(ACCOUNTS), self.rng.below(ACCOUNTS - 1));
                let to = if to >= from { to + 1 } else { to };
                let amount = self.rng.below(30) as i64;
                let (a, b) = (self.read(from)?, self.read(to)?);
                self.write(from, a - amount)?;
                self.write(to, b + amount)
            }
            1 => {
                let pair = PAIRS.start + 2 * self.rng.below((PAIRS.end - PAIRS.start) / 2);
                let side = self.rng.below(2);
                let balance = [self.read(pair)?, self.read(pair + 1)?];
                let sum = balance[0] + balance[1];
                self.rule(sum >= 0, || format!("the pair {pair} is overdrawn: {balance:?}"));
                let amount = self.rng.between(50, 120) as i64;
                let change = if sum >= amount { -amount } else { 100 };
                self.write(pair + side, balance[side as usize] + change)
            }
            _ => self.audit(),
        }
    }

    fn range(&mut self, first: u64) -> Result<()> {
        let keys = self.count(first)?;
        let any = |rng: &mut Prng| keys.get(rng.below(keys.len().max(1) as u64) as usize).copied();
        match (self.rng.below(6), any(&mut self.rng)) {
            (0, Some(key)) => self.write(key, 1),
            (1, Some(key)) => self.delete(key),
            (2.., _) if keys.len() < FEW => {
                // Keys are not used twice, so a missing row was deleted.
                let key = first + self.version() % STRIDE;
                let version = self.version();
                self.pause();
                let bytes = [version.to_be_bytes(), [0; 8]].concat();
                match self.tx.insert(self.table, &key.to_be_bytes(), &bytes) {
                    Err(Error::KeyExists) => panic!("key {key} is used twice"),
                    outcome => outcome?,
                }
                self.ops.push(Op::Write(key, version));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
