//! Measures the load over SQL: a transaction is one table with its index, loaded by one thread. Its
//! statements commit one by one.

use super::sysbench;
use super::worker::RunWorker;
use crate::workload::{AttemptError, Session, WorkloadParams};
use output::stop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// One thread of the workload.
pub(super) struct BulkLoadSession {
    worker: RunWorker,
    params: WorkloadParams,
    engine_clause: String,
    /// Tables that a thread has begun to load.
    taken: Arc<AtomicU32>,
    /// The table to load.
    table: u32,
}

impl BulkLoadSession {
    pub(super) fn new(
        worker: RunWorker,
        params: WorkloadParams,
        engine_clause: String,
        taken: Arc<AtomicU32>,
    ) -> BulkLoadSession {
        BulkLoadSession { worker, params, engine_clause, taken, table: 0 }
    }
}

impl Session for BulkLoadSession {
    fn draw(&mut self) -> bool {
        self.table = self.taken.fetch_add(1, Ordering::Relaxed) + 1;
        self.table <= self.params.tables
    }

    fn attempt(&mut self) -> Result<u64, AttemptError> {
        // What an attempt before this one has left.
        self.worker.begin(true)?;
        self.worker.run(&format!("DROP TABLE IF EXISTS {}", sysbench::table(self.table)))?;
        let go_on = |_| !stop::asked();
        sysbench::fill(&mut self.worker, self.table, &self.params, &self.engine_clause, go_on)?;
        Ok(self.params.rows.into())
    }
}
