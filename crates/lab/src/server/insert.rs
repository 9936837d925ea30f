//! Sysbench's oltp_insert over SQL: each transaction adds one row at the end of a random table. The
//! server gives the id.

use super::sysbench::{row_params, table};
use super::worker::RunWorker;
use crate::workload::distribution::Picker;
use crate::workload::row::Row;
use crate::workload::{AttemptError, Session, WorkloadParams, thread_seed};
use base::prng::Prng;
use client::Prepared;

/// Returns the statement for table `number`.
pub(super) fn text(number: u32) -> String {
    format!("INSERT INTO {} (k, c, pad) VALUES (?, ?, ?)", table(number))
}

/// One thread of the workload.
pub(super) struct InsertSession {
    worker: RunWorker,
    params: WorkloadParams,
    prepared: Vec<Option<Prepared>>,
    picker: Picker,
    rng: Prng,
    /// Table number and row of the chosen transaction.
    drawn: Option<(u32, Row)>,
}

impl InsertSession {
    pub(super) fn new(worker: RunWorker, params: WorkloadParams, thread: u32) -> InsertSession {
        InsertSession {
            worker,
            params,
            prepared: vec![None; params.tables as usize],
            picker: params.distribution.over(params.rows),
            rng: Prng::new(thread_seed(params.seed, thread)),
            drawn: None,
        }
    }
}

impl Session for InsertSession {
    fn draw(&mut self) -> bool {
        let number = self.params.pick_table(&mut self.rng);
        self.drawn = Some((number, Row::random(self.picker.id(&mut self.rng), &mut self.rng)));
        true
    }

    fn attempt(&mut self) -> Result<u64, AttemptError> {
        let Some((number, row)) = &self.drawn else { return Ok(0) };
        self.worker.begin(true)?;
        let statement = self.worker.prepared(&mut self.prepared[*number as usize - 1], || text(*number))?;
        self.worker.execute(statement, &row_params(0, row)[1..])?;
        Ok(1)
    }
}
