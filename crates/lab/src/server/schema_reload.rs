//! Drops and creates the tables of a schema again, over SQL. The threads share 100 tables; each
//! drop and each create counts as one transaction.

use super::load::Filled;
use super::worker::RunWorker;
use crate::workload::{AttemptError, SCHEMA_TABLES, Session};
use output::failure::Outcome;
use output::stop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the name of table `number`, from 0.
pub(super) fn table(number: u32) -> String {
    format!("schema_table_{number:03}")
}

/// Returns the statement that makes a table.
pub(super) fn create(number: u32, engine_clause: &str) -> String {
    let columns = "id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL, c VARCHAR(100), KEY (k)";
    format!("CREATE TABLE {} ({columns}){engine_clause}", table(number))
}

/// Returns the statement that drops a table.
pub(super) fn drop_it(number: u32) -> String {
    format!("DROP TABLE {}", table(number))
}

/// Makes the tables.
pub(super) fn load(filled: &Filled<'_>) -> Outcome {
    let mut worker = filled.worker()?;
    for number in 0..SCHEMA_TABLES {
        stop::check()?;
        worker.run(&create(number, &filled.engine_clause()))?;
    }
    Ok(())
}

/// One thread of the workload.
pub(super) struct SchemaSession {
    worker: RunWorker,
    engine_clause: String,
    next: Arc<AtomicU32>,
    number: u32,
    /// This thread has just dropped the table and creates it next.
    create: bool,
}

impl SchemaSession {
    pub(super) fn new(worker: RunWorker, engine_clause: String, next: Arc<AtomicU32>) -> SchemaSession {
        SchemaSession { worker, engine_clause, next, number: 0, create: true }
    }
}

impl Session for SchemaSession {
    fn draw(&mut self) -> bool {
        self.create = !self.create;
        if !self.create {
            self.number = self.next.fetch_add(1, Ordering::Relaxed);
        }
        self.number < SCHEMA_TABLES
    }

    fn attempt(&mut self) -> Result<u64, AttemptError> {
        let statement =
            if self.create { create(self.number, &self.engine_clause) } else { drop_it(self.number) };
        self.worker.run(&statement)?;
        Ok(0)
    }
}
