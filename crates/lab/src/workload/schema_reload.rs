//! Drops and creates the tables of a schema again, which costs other engines a file and several
//! fsyncs for each table. The threads share 100 tables; each drop and each create counts as one
//! transaction.

use super::family::{AttemptError, Session, Workload};
use super::params::WorkloadParams;
use super::sysbench_tables::Loader;
use millpond::Db;
use output::failure::Outcome;
use output::stop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many tables there are.
pub(crate) const TABLES: u32 = 100;

fn name(number: u32) -> String {
    format!("schema_table_{number:03}")
}

/// The workload.
pub(crate) struct SchemaReload {
    next: Arc<AtomicU32>,
}

impl SchemaReload {
    pub(crate) fn new(_shape: WorkloadParams) -> SchemaReload {
        SchemaReload { next: Arc::new(AtomicU32::new(0)) }
    }
}

impl Workload for SchemaReload {
    fn load(&self, loader: &Loader<'_>) -> Outcome {
        for number in 0..TABLES {
            stop::check()?;
            loader.db.create_table(&name(number))?;
        }
        Ok(())
    }

    fn session(&self, db: &Db, _thread: u32) -> Outcome<Box<dyn Session>> {
        Ok(Box::new(SchemaSession { db: db.clone(), next: self.next.clone(), step: 0, create: true }))
    }

    fn has_an_end(&self) -> bool {
        true
    }
}

struct SchemaSession {
    db: Db,
    next: Arc<AtomicU32>,
    step: u32,
    /// This thread has just dropped the table of this step and creates it next.
    create: bool,
}

impl Session for SchemaSession {
    fn draw(&mut self) -> bool {
        self.create = !self.create;
        if !self.create {
            self.step = self.next.fetch_add(1, Ordering::Relaxed);
        }
        self.step < TABLES
    }

    fn attempt(&mut self) -> Result<u64, AttemptError> {
        let name = name(self.step);
        if self.create {
            self.db.create_table(&name)?;
        } else {
            self.db.drop_table(&name)?;
        }
        Ok(0)
    }
}
