//! The load of sysbench's tables. One thread bulk loads a table in key order, then its index in the
//! order of the index entries.

use super::params::{WorkloadParams, thread_seed};
use super::row::{Row, id_key, index_key};
use base::prng::Prng;
use millpond::{Db, Table, TxnOptions};
use output::failure::{Failure, Outcome};
use output::stop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// After so many rows a load reports its progress and checks whether it shall stop.
const STEP: u32 = 1000;

/// Reading one of so many rows brings every page into memory, because a page of 4 KiB holds more
/// rows.
const ROWS_A_PAGE: u32 = 14;
/// As [`ROWS_A_PAGE`], for index entries.
const ENTRIES_A_PAGE: u32 = 80;

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
    /// Opens the existing tables.
    pub(crate) fn open(db: &Db, count: u32) -> Outcome<Tables> {
        let pairs = (1..=count).map(|n| {
            let (rows, index) = table_names(n);
            Ok(Pair { rows: db.open_table(&rows)?, index: db.open_table(&index)? })
        });
        Ok(Tables(pairs.collect::<Outcome<_>>()?))
    }

    /// Returns how many tables there are.
    pub(crate) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    /// Returns table `number`, from 1.
    pub(crate) fn get(&self, number: u32) -> &Pair {
        &self.0[number as usize - 1]
    }
}

/// Returns the names of table `number` and its index.
pub(crate) fn table_names(number: u32) -> (String, String) {
    (format!("sbtest{number}"), format!("sbtest{number}_k"))
}

/// Loads tables into a database.
pub(crate) struct Loader<'a> {
    /// The database to fill.
    pub(crate) db: &'a Db,
    /// How many threads may fill it.
    pub(crate) threads: u32,
    /// Rows loaded so far, for the progress line.
    pub(crate) rows_loaded: &'a AtomicU64,
}

impl Loader<'_> {
    /// Loads the tables with random rows, and reads them into the buffer pool if they fit.
    pub(crate) fn sysbench(&self, params: &WorkloadParams) -> Outcome {
        self.fill(params, |table| params.rows_of(table))?;
        let figure = |name| self.db.metrics().get(name).unwrap_or(0.0);
        if figure("file_pages") - figure("free_pages") > figure("free_frames") {
            return Ok(());
        }
        let tables = Tables::open(self.db, params.tables)?;
        self.each_table(params.tables, |number, go_on| self.warm(tables.get(number), params.rows, go_on))
    }

    /// Loads the tables and makes them durable. `rows_of(table)` returns a function that makes the
    /// rows of that table. It is called for the ids 1 ..= rows in order.
    pub(crate) fn fill<F>(&self, params: &WorkloadParams, rows_of: impl Fn(u32) -> F + Sync) -> Outcome
    where
        F: FnMut(u32) -> Row,
    {
        self.each_table(params.tables, |number, go_on| {
            load_table(self.db, number, params.rows, rows_of(number), |rows| {
                self.rows_loaded.fetch_add(rows.into(), Ordering::Relaxed);
                go_on()
            })?;
            Ok(())
        })
    }

    /// Calls `work` for each table on several threads, until one fails or the user asks to stop.
    /// The function that is passed to `work` returns false then.
    pub(crate) fn each_table(
        &self,
        count: u32,
        work: impl Fn(u32, &dyn Fn() -> bool) -> Outcome + Sync,
    ) -> Outcome {
        let next = AtomicU32::new(1);
        let failed = AtomicBool::new(false);
        let worker = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number > count {
                    return Ok(());
                }
                let done = stop::check()
                    .and_then(|()| work(number, &|| !failed.load(Ordering::Relaxed) && !stop::asked()));
                if done.is_err() {
                    failed.store(true, Ordering::Relaxed);
                    return done;
                }
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads.min(count)).map(|_| scope.spawn(worker)).collect();
            let ends = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Failure::failed("a thread of the load panicked")))
            });
            // Joins every thread before it returns the first failure.
            ends.collect::<Vec<_>>().into_iter().collect::<Outcome>()
        })?;
        stop::check()
    }

    fn warm(&self, pair: &Pair, rows: u32, go_on: &dyn Fn() -> bool) -> Outcome {
        let tx = self.db.begin_with(TxnOptions::new().read_only(true))?;
        for id in (1..=rows).step_by(ROWS_A_PAGE as usize) {
            if !go_on() {
                return Ok(());
            }
            tx.get(&pair.rows, &id_key(id))?;
        }
        // The ids of an indexed value are not known, but the search for a missing key reads its
        // page too.
        for k in (1..=rows).step_by(ENTRIES_A_PAGE as usize) {
            tx.get(&pair.index, &index_key(k, 0))?;
        }
        Ok(())
    }
}

impl WorkloadParams {
    /// Returns a function that makes the random rows of a table.
    pub(crate) fn rows_of(&self, table: u32) -> impl FnMut(u32) -> Row + use<> {
        let mut rng = Prng::new(thread_seed(self.seed ^ 0x10ad, table));
        let picker = self.distribution.over(self.rows);
        move |_id| Row::random(picker.id(&mut rng), &mut rng)
    }
}

/// Loads table `number` and its index. Calls `go_on` after every [`STEP`] rows with the number of
/// new rows. If `go_on` returns false, the load that is not committed is abandoned, and this
/// returns false.
pub(crate) fn load_table(
    db: &Db,
    number: u32,
    rows: u32,
    mut row_of: impl FnMut(u32) -> Row,
    mut go_on: impl FnMut(u32) -> bool,
) -> millpond::Result<bool> {
    let (name, index) = table_names(number);
    let mut entries = Vec::with_capacity(rows as usize);
    let mut load = db.begin_bulk_load(&name)?;
    for id in 1..=rows {
        let row = row_of(id);
        load.push(&id_key(id), &row.encode())?;
        entries.push((row.k, id));
        if id % STEP == 0 && !go_on(STEP) {
            return Ok(false);
        }
    }
    load.commit()?;
    entries.sort_unstable();
    let mut load = db.begin_bulk_load(&index)?;
    for some in entries.chunks(STEP as usize) {
        some.iter().try_for_each(|&(k, id)| load.push(&index_key(k, id), b""))?;
        if !go_on(0) {
            return Ok(false);
        }
    }
    load.commit()?;
    Ok(go_on(rows % STEP))
}
