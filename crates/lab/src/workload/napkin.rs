//! The napkin experiment: how many durable single-row inserts a second, compared with one fsync for
//! each. Every thread inserts 1,000 rows into one table, one transaction for each row. The run ends
//! when all rows are inserted.

use super::family::{AttemptError, Session, Workload};
use super::last_key::last_key;
use super::params::{TxnSettings, WorkloadParams};
use super::sysbench_tables::Loader;
use millpond::{Db, Table};
use output::failure::{Failure, Outcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const TABLE: &str = "products";
/// Rows that each thread inserts.
pub(crate) const INSERTS_PER_THREAD: u32 = 1000;

/// The workload.
pub(crate) struct Napkin {
    params: WorkloadParams,
    /// The last assigned id; as AUTO_INCREMENT, ids grow in the order of requests.
    last: Arc<AtomicU64>,
}

impl Napkin {
    pub(crate) fn new(params: WorkloadParams) -> Napkin {
        Napkin { params, last: Arc::new(AtomicU64::new(0)) }
    }
}

impl Workload for Napkin {
    fn load(&self, loader: &Loader<'_>) -> Outcome {
        loader.db.create_table(TABLE)?;
        Ok(())
    }

    fn session(&self, db: &Db, _thread: u32) -> Outcome<Box<dyn Session>> {
        let table = db.open_table(TABLE)?;
        if let Some(key) = last_key(db, &table)? {
            let id: [u8; 8] = key
                .as_slice()
                .try_into()
                .map_err(|_| Failure::failed(format!("a key of {TABLE} is no id: {key:02x?}")))?;
            self.last.fetch_max(u64::from_be_bytes(id), Ordering::Relaxed);
        }
        Ok(Box::new(NapkinSession {
            db: db.clone(),
            table,
            begin: self.params.begin,
            last: self.last.clone(),
            left: INSERTS_PER_THREAD,
            id: 0,
        }))
    }

    fn has_an_end(&self) -> bool {
        true
    }
}

struct NapkinSession {
    db: Db,
    table: Table,
    begin: TxnSettings,
    last: Arc<AtomicU64>,
    left: u32,
    id: u64,
}

impl Session for NapkinSession {
    fn draw(&mut self) -> bool {
        let more = self.left > 0;
        if more {
            self.left -= 1;
            self.id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        }
        more
    }

    fn attempt(&mut self) -> Result<u64, AttemptError> {
        let mut value = 123u32.to_le_bytes().to_vec();
        value.extend_from_slice(b"aerodynamic chair");
        let mut tx = self.db.begin_with(self.begin.writing())?;
        tx.insert(&self.table, &self.id.to_be_bytes(), &value)?;
        tx.commit()?;
        Ok(1)
    }
}
