//! The napkin experiment over SQL: every thread inserts 1,000 rows, one transaction for each row,
//! by a prepared statement. The run ends when all rows are inserted.

use super::load::Filled;
use super::worker::RunWorker;
use crate::workload::{AttemptError, INSERTS_PER_THREAD, Session};
use client::{Param, Prepared};
use output::failure::Outcome;

/// The table.
pub(super) const TABLE: &str = "products";

/// Makes the table.
pub(super) fn load(filled: &Filled<'_>) -> Outcome {
    filled.run(&create(&filled.engine_clause()))
}

/// Returns the statement that makes the table.
pub(super) fn create(engine_clause: &str) -> String {
    let columns =
        "id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, shop_id BIGINT NOT NULL, title VARCHAR(100) NOT NULL";
    format!("CREATE TABLE {TABLE} ({columns}){engine_clause}")
}

/// Returns the statement of a transaction.
pub(super) fn insert() -> String {
    format!("INSERT INTO {TABLE} (shop_id, title) VALUES (?, ?)")
}

/// One thread of the workload.
pub(super) struct NapkinSession {
    worker: RunWorker,
    prepared: Option<Prepared>,
    left: u32,
}

impl NapkinSession {
    pub(super) fn new(worker: RunWorker) -> NapkinSession {
        NapkinSession { worker, prepared: None, left: INSERTS_PER_THREAD }
    }
}

impl Session for NapkinSession {
    fn draw(&mut self) -> bool {
        let more = self.left > 0;
        self.left = self.left.saturating_sub(1);
        more
    }

    fn attempt(&mut self) -> Result<u64, AttemptError> {
        self.worker.begin(true)?;
        let statement = self.worker.prepared(&mut self.prepared, insert)?;
        self.worker.execute(statement, &[Param::Number(123), Param::Text(b"aerodynamic chair")])
    }
}
