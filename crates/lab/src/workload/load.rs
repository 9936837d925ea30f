//! The load of sysbench's tables: rows in key order, then the index entries in theirs, one thread a table.

use super::row::{Row, id_key, index_key};
use super::{Shape, thread_seed};
use crate::failure::{Failure, Outcome};
use crate::stop;
use base::prng::Prng;
use millpond::{Db, Durability, Table, TxnOptions};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Rows a transaction of the load: large enough that commits do not count, small enough that undo stays little.
const BATCH: usize = 500;

/// One table and its index.
#[derive(Clone)]
pub(crate) struct Pair {
    /// Rows by id.
    pub(crate) rows: Table,
    /// (k, id).
    pub(crate) index: Table,
}

/// The tables sbtest1, sbtest2, ….
#[derive(Clone)]
pub(crate) struct Tables(Vec<Pair>);

impl Tables {
    /// Creates them, empty.
    pub(crate) fn create(db: &Db, count: u32) -> Outcome<Tables> {
        let pairs = (1..=count).map(|n| {
            stop::check()?;
            let (rows, index) = table_names(n);
            Ok(Pair { rows: db.create_table(&rows)?, index: db.create_table(&index)? })
        });
        Ok(Tables(pairs.collect::<Outcome<_>>()?))
    }

    /// Opens those that exist already.
    pub(crate) fn open(db: &Db, count: u32) -> Outcome<Tables> {
        let pairs = (1..=count).map(|n| {
            let (rows, index) = table_names(n);
            Ok(Pair { rows: db.open_table(&rows)?, index: db.open_table(&index)? })
        });
        Ok(Tables(pairs.collect::<Outcome<_>>()?))
    }

    /// How many.
    pub(crate) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    /// Table `number`, from 1.
    pub(crate) fn get(&self, number: u32) -> &Pair {
        &self.0[number as usize - 1]
    }

    /// Any table, each as likely: its number from 1.
    pub(crate) fn pick(&self, rng: &mut Prng) -> u32 {
        1 + rng.below(self.0.len() as u64) as u32
    }
}

/// The names of table `number` and its index.
pub(crate) fn table_names(number: u32) -> (String, String) {
    (format!("sbtest{number}"), format!("sbtest{number}_k"))
}

/// What a load works with.
pub(crate) struct Loader<'a> {
    /// The database to fill.
    pub(crate) db: &'a Db,
    /// How many threads may fill it.
    pub(crate) threads: u32,
    /// Rows loaded so far, for the progress line.
    pub(crate) rows_loaded: &'a AtomicU64,
}

impl Loader<'_> {
    /// Fills the tables of `shape` with random rows.
    pub(crate) fn sysbench(&self, shape: &Shape) -> Outcome {
        let picker = shape.distribution.over(shape.rows);
        self.fill(shape, |table| {
            let mut rng = Prng::new(thread_seed(shape.seed ^ 0x10ad, table));
            let picker = picker.clone();
            move |_id| Row::random(picker.id(&mut rng), &mut rng)
        })
    }

    /// Fills the tables of `shape`. `rows_of(table)` gives a function that makes the rows of that table, called for the
    /// ids 1 ..= rows in order. What is loaded is durable after the next checkpoint, not before.
    pub(crate) fn fill<F>(&self, shape: &Shape, rows_of: impl Fn(u32) -> F + Sync) -> Outcome
    where
        F: FnMut(u32) -> Row,
    {
        let tables = Tables::create(self.db, shape.tables)?;
        let next = AtomicU32::new(1);
        let failed = AtomicBool::new(false);
        let worker = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number > tables.count() {
                    return Ok(());
                }
                let filled = self.fill_table(tables.get(number), shape.rows, rows_of(number), &failed);
                if filled.is_err() {
                    failed.store(true, Ordering::Relaxed);
                    return filled;
                }
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads.min(shape.tables)).map(|_| scope.spawn(worker)).collect();
            let ends = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Failure::failed("a thread of the load panicked")))
            });
            // Every thread is joined before the first failure counts.
            ends.collect::<Vec<_>>().into_iter().collect()
        })
    }

    fn fill_table(
        &self,
        pair: &Pair,
        rows: u32,
        mut row_of: impl FnMut(u32) -> Row,
        failed: &AtomicBool,
    ) -> Outcome {
        let mut entries = Vec::with_capacity(rows as usize);
        let mut next = 1u32;
        while next <= rows {
            let end = rows.min(next + BATCH as u32 - 1);
            self.batch(failed, |tx| {
                for id in next..=end {
                    let row = row_of(id);
                    tx.insert(&pair.rows, &id_key(id), &row.encode())?;
                    entries.push((row.k, id));
                }
                Ok(())
            })?;
            self.rows_loaded.fetch_add(u64::from(end - next + 1), Ordering::Relaxed);
            next = end + 1;
        }
        entries.sort_unstable();
        for some in entries.chunks(BATCH) {
            self.batch(failed, |tx| {
                some.iter().try_for_each(|&(k, id)| tx.insert(&pair.index, &index_key(k, id), b""))
            })?;
        }
        Ok(())
    }

    /// One transaction of the load. It meets no other transaction, so there is nothing to retry.
    fn batch(
        &self,
        failed: &AtomicBool,
        work: impl FnOnce(&mut millpond::Transaction) -> millpond::Result<()>,
    ) -> Outcome {
        stop::check()?;
        if failed.load(Ordering::Relaxed) {
            // Another thread's failure is the one to report; joining in order may meet this one first.
            return Ok(());
        }
        let mut tx = self.db.begin_with(TxnOptions::new().durability(Durability::None))?;
        work(&mut tx)?;
        tx.commit()?;
        Ok(())
    }
}
