//! Many threads transfer money between accounts, in two correct ways, while auditors add up all
//! balances.
//!
//! ```text
//! cargo run --release -p millpond --example ledger [-- TRANSFERS [THREADS [ACCOUNTS]]]
//! ```
//! A transfer reads two balances, decides, and writes both. If two threads use the same account at
//! the same time, the second one must not decide with a balance that the first one is changing.
//! There are two ways to prevent this:
//!
//! - **Lock what you decide on.** In a transaction with the default isolation level,
//!   `get_for_update` returns the newest balance and locks the row. Every transfer locks the lower
//!   account first, so two transfers cannot deadlock. Reads that no decision depends on need no
//!   lock.
//! - **Let the engine detect conflicts.** In a serializable transaction plain reads are enough: the
//!   result is as if transactions ran one after the other. In exchange, one of two conflicting
//!   transactions fails with `Error::Deadlock` and must be run again.
//!
//! Both ways may need a retry, so a transaction is written as a closure that can run twice, and
//! [`retrying`] is the only error handling. `Error::is_retryable` says which errors to retry.
//!
//! The auditors lock nothing: each adds up all balances of one snapshot. The total is always the
//! same, because a snapshot shows a transfer completely or not at all. The same transactions also
//! write a journal of transfers. At the end the program computes every balance from the journal and
//! compares.

use millpond::{Db, Error, Isolation, Result, Table, Transaction, TxnOptions};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

const OPENING_BALANCE: u64 = 1000;

/// Runs `body` in a transaction and commits it. After a retryable error, runs it again in a new
/// transaction. Returns the result of `body` and counts the failed runs.
fn retrying<T>(
    db: &Db,
    options: TxnOptions,
    retries: &AtomicU64,
    mut body: impl FnMut(&mut Transaction) -> Result<T>,
) -> Result<T> {
    loop {
        let mut tx = db.begin_with(options)?;
        // An error drops the transaction, which rolls it back.
        match body(&mut tx).and_then(|value| tx.commit().map(|_| value)) {
            Err(error) if error.is_retryable() => drop(retries.fetch_add(1, Ordering::Relaxed)),
            outcome => return outcome,
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

#[derive(Clone)]
struct Ledger {
    db: Db,
    accounts: Table,
    /// Transfer number → from, to, amount.
    journal: Table,
}

#[derive(Clone, Copy)]
struct Transfer {
    number: u64,
    from: u64,
    to: u64,
    amount: u64,
}

impl Ledger {
    fn create(db: Db, accounts: u64) -> Result<Ledger> {
        let [table, journal] = [db.create_table("accounts")?, db.create_table("journal")?];
        let mut tx = db.begin()?;
        for account in 0..accounts {
            tx.insert(&table, &account.to_be_bytes(), &OPENING_BALANCE.to_be_bytes())?;
        }
        tx.commit()?;
        Ok(Ledger { db, accounts: table, journal })
    }

    /// Writes a transfer whose balances are known. Returns false if the balance is too low.
    fn book(&self, tx: &mut Transaction, transfer: Transfer, from: u64, to: u64) -> Result<bool> {
        let Transfer { number, amount, .. } = transfer;
        if from < amount {
            return Ok(false);
        }
        tx.put(&self.accounts, &transfer.from.to_be_bytes(), &(from - amount).to_be_bytes())?;
        tx.put(&self.accounts, &transfer.to.to_be_bytes(), &(to + amount).to_be_bytes())?;
        let entry = [transfer.from, transfer.to, amount].map(u64::to_be_bytes).concat();
        tx.insert(&self.journal, &number.to_be_bytes(), &entry)?;
        Ok(true)
    }

    /// The first way: locks both rows before it uses their balances.
    fn transfer_locked(&self, transfer: Transfer, retries: &AtomicU64) -> Result<bool> {
        retrying(&self.db, TxnOptions::new(), retries, |tx| {
            let mut balance = |account: u64| {
                let row = tx.get_for_update(&self.accounts, &account.to_be_bytes())?;
                row.map(|bytes| number(&bytes)).ok_or_else(|| Error::Misuse(format!("no account {account}")))
            };
            // Always in the same order, independent of the direction.
            let low = balance(transfer.from.min(transfer.to))?;
            let high = balance(transfer.from.max(transfer.to))?;
            let (from, to) = if transfer.from < transfer.to { (low, high) } else { (high, low) };
            self.book(tx, transfer, from, to)
        })
    }

    /// The second way: plain reads in a serializable transaction.
    fn transfer_serializable(&self, transfer: Transfer, retries: &AtomicU64) -> Result<bool> {
        let options = TxnOptions::new().isolation(Isolation::Serializable);
        retrying(&self.db, options, retries, |tx| {
            let balance = |account: u64| {
                let row = tx.get(&self.accounts, &account.to_be_bytes())?;
                row.map(|bytes| number(&bytes)).ok_or_else(|| Error::Misuse(format!("no account {account}")))
            };
            let (from, to) = (balance(transfer.from)?, balance(transfer.to)?);
            self.book(tx, transfer, from, to)
        })
    }

    /// Returns all balances in one snapshot.
    fn balances(&self) -> Result<Vec<u64>> {
        let tx = self.db.begin_with(TxnOptions::new().read_only(true))?;
        tx.range(&self.accounts, ..)?.map(|row| row.map(|(_, balance)| number(&balance))).collect()
    }

    /// Computes every balance from the journal.
    fn balances_by_journal(&self, accounts: u64) -> Result<Vec<u64>> {
        // A sum may be negative on the way, because the journal is in the order of transfer
        // numbers, not of commits.
        let mut balances = vec![OPENING_BALANCE as i64; accounts as usize];
        let tx = self.db.begin()?;
        for entry in tx.range(&self.journal, ..)? {
            let (_, entry) = entry?;
            let amount = number(&entry[16..]) as i64;
            balances[number(&entry[..8]) as usize] -= amount;
            balances[number(&entry[8..16]) as usize] += amount;
        }
        Ok(balances.into_iter().map(|balance| balance as u64).collect())
    }
}

/// A small random number generator (Steele, Lea and Flood, "SplitMix", OOPSLA 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// A directory that is removed when this is dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

type Way = fn(&Ledger, Transfer, &AtomicU64) -> Result<bool>;

fn run(transfers: u64, threads: u64, accounts: u64) -> Result<()> {
    let scratch = Scratch(std::env::temp_dir().join(format!("millpond-ledger-{}", std::process::id())));
    let db = millpond::Options::new().buffer_pool_bytes(32 << 20).open(&scratch.0)?;
    let ledger = Ledger::create(db, accounts)?;
    let total = accounts * OPENING_BALANCE;
    let numbers = AtomicU64::new(0);
    for (name, way) in
        [("locked", Ledger::transfer_locked as Way), ("serializable", Ledger::transfer_serializable)]
    {
        let (retries, booked, audits) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let (over, start) = (AtomicBool::new(false), Instant::now());
        let (ledger, numbers) = (&ledger, &numbers);
        std::thread::scope(|scope| {
            let auditor = scope.spawn(|| -> Result<()> {
                while !over.load(Ordering::Relaxed) {
                    assert_eq!(
                        ledger.balances()?.iter().sum::<u64>(),
                        total,
                        "money appeared or disappeared"
                    );
                    audits.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
            let writers: Vec<_> = (0..threads)
                .map(|thread| {
                    let (retries, booked) = (&retries, &booked);
                    scope.spawn(move || -> Result<()> {
                        let mut state = thread;
                        for _ in 0..transfers / threads {
                            let from = next(&mut state) % accounts;
                            let to = (from + 1 + next(&mut state) % (accounts - 1)) % accounts;
                            let amount = next(&mut state) % 200;
                            let number = numbers.fetch_add(1, Ordering::Relaxed);
                            if way(ledger, Transfer { number, from, to, amount }, retries)? {
                                booked.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        Ok(())
                    })
                })
                .collect();
            let written = writers.into_iter().try_for_each(|writer| writer.join().expect("a writer"));
            over.store(true, Ordering::Relaxed);
            auditor.join().expect("the auditor")?;
            written
        })?;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{name:>12}: {:.0} transfers a second by {threads} threads, {} booked, {} retries, {} audits",
            (transfers / threads * threads) as f64 / seconds,
            booked.load(Ordering::Relaxed),
            retries.load(Ordering::Relaxed),
            audits.load(Ordering::Relaxed),
        );
    }
    let balances = ledger.balances()?;
    assert_eq!(balances.iter().sum::<u64>(), total);
    assert_eq!(balances, ledger.balances_by_journal(accounts)?);
    println!("the balances add up to {total}, and the journal gives the same balances");
    ledger.db.close()
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let transfers: u64 = args.next().map_or(Ok(20_000), |n| n.parse())?;
    let threads: u64 = args.next().map_or(Ok(16), |n| n.parse())?;
    let accounts: u64 = args.next().map_or(Ok(100), |n| n.parse())?;
    Ok(run(transfers, threads.max(1), accounts.max(2))?)
}

#[test]
fn it_runs() -> Result<()> {
    run(400, 4, 10)
}
