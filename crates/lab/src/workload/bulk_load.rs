//! Measures the load: every table and its index, each by a bulk load. A transaction is one table
//! with its index, loaded by one thread. It is durable at its end, whatever `--durability` says.

use super::family::{AttemptError, Session, Workload};
use super::params::WorkloadParams;
use super::sysbench_tables::{Loader, load_table, table_names};
use millpond::Db;
use output::failure::Outcome;
use output::stop;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The workload.
pub(crate) struct BulkLoad {
    params: WorkloadParams,
    /// The progress of all threads, set when the first session has dropped the old tables.
    next: Mutex<Option<Arc<Progress>>>,
}

#[derive(Default)]
struct Progress {
    /// Tables that a thread has begun to load.
    taken: AtomicU32,
    failed: AtomicBool,
}

impl BulkLoad {
    pub(crate) fn new(params: WorkloadParams) -> BulkLoad {
        BulkLoad { params, next: Mutex::new(None) }
    }
}

fn drop_if_there(db: &Db, number: u32) -> millpond::Result<()> {
    let (rows, index) = table_names(number);
    for name in [rows, index] {
        match db.drop_table(&name) {
            Ok(()) | Err(millpond::Error::NoSuchTable { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Workload for BulkLoad {
    fn load(&self, _loader: &Loader<'_>) -> Outcome {
        Ok(())
    }

    fn session(&self, db: &Db, _thread: u32) -> Outcome<Box<dyn Session>> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.is_none() {
            // A reused directory holds the tables of the last run.
            (1..=self.params.tables).try_for_each(|number| drop_if_there(db, number))?;
        }
        let progress = Arc::clone(next.get_or_insert_default());
        Ok(Box::new(BulkSession { db: db.clone(), params: self.params, progress, table: 0 }))
    }

    fn has_an_end(&self) -> bool {
        true
    }
}

struct BulkSession {
    db: Db,
    params: WorkloadParams,
    progress: Arc<Progress>,
    /// The table to load.
    table: u32,
}

impl Session for BulkSession {
    fn draw(&mut self) -> bool {
        self.table = self.progress.taken.fetch_add(1, Ordering::Relaxed) + 1;
        self.table <= self.params.tables
    }

    fn attempt(&mut self) -> Result<u64, AttemptError> {
        let rows = self.params.rows;
        let go_on = |_| !stop::asked() && !self.progress.failed.load(Ordering::Relaxed);
        let loaded = load_table(&self.db, self.table, rows, self.params.rows_of(self.table), go_on);
        if loaded.is_err() {
            // The other threads need not finish their tables.
            self.progress.failed.store(true, Ordering::Relaxed);
        }
        Ok(if loaded? { rows.into() } else { 0 })
    }
}
