//! The load as the measured work: every table and its index, each a bulk load. A transaction is one table with its index, and
//! one thread's; it is durable at its end, whatever `--durability` says.

use super::load::{load_table, table_names};
use super::{Loader, Session, Shape, Trouble, Workload};
use crate::failure::Outcome;
use crate::stop;
use millpond::Db;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The workload.
pub(crate) struct BulkLoad {
    shape: Shape,
    /// The next table to fill, once the first session has made room for them.
    next: Mutex<Option<Arc<Progress>>>,
}

#[derive(Default)]
struct Progress {
    /// Tables that have been taken.
    taken: AtomicU32,
    failed: AtomicBool,
}

impl BulkLoad {
    pub(crate) fn new(shape: Shape) -> BulkLoad {
        BulkLoad { shape, next: Mutex::new(None) }
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
            // A directory that is used again holds the tables of the run before.
            (1..=self.shape.tables).try_for_each(|number| drop_if_there(db, number))?;
        }
        let progress = Arc::clone(next.get_or_insert_default());
        Ok(Box::new(BulkSession { db: db.clone(), shape: self.shape, progress, table: 0 }))
    }

    fn has_an_end(&self) -> bool {
        true
    }
}

struct BulkSession {
    db: Db,
    shape: Shape,
    progress: Arc<Progress>,
    /// The table to be filled.
    table: u32,
}

impl Session for BulkSession {
    fn draw(&mut self) -> bool {
        self.table = self.progress.taken.fetch_add(1, Ordering::Relaxed) + 1;
        self.table <= self.shape.tables
    }

    fn attempt(&mut self) -> Result<u64, Trouble> {
        let rows = self.shape.rows;
        let go_on = |_| !stop::asked() && !self.progress.failed.load(Ordering::Relaxed);
        let loaded = load_table(&self.db, self.table, rows, self.shape.rows_of(self.table), go_on);
        if loaded.is_err() {
            // The other threads need not finish theirs.
            self.progress.failed.store(true, Ordering::Relaxed);
        }
        Ok(if loaded? { rows.into() } else { 0 })
    }
}
