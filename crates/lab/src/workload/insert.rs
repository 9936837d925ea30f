//! Sysbench's oltp_insert: each transaction adds one row at the end of a random table, with its
//! index entry.

use super::distribution::Picker;
use super::family::{AttemptError, Session, Workload};
use super::last_key::last_key;
use super::params::{WorkloadParams, thread_seed};
use super::row::{Row, id_key, id_of, index_key};
use super::sysbench_tables::{Loader, Tables};
use base::prng::Prng;
use millpond::Db;
use output::failure::{Failure, Outcome};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The workload.
pub(crate) struct Insert {
    params: WorkloadParams,
    /// The next id of each table, set by the first session.
    next: Mutex<Option<Arc<[AtomicU32]>>>,
}

impl Insert {
    pub(crate) fn new(params: WorkloadParams) -> Insert {
        Insert { params, next: Mutex::new(None) }
    }

    /// Returns the counters. As AUTO_INCREMENT, they begin after the greatest existing id.
    fn counters(&self, db: &Db, tables: &Tables) -> Outcome<Arc<[AtomicU32]>> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counters) = &*next {
            return Ok(counters.clone());
        }
        let ids = (1..=tables.count()).map(|number| {
            let last = match last_key(db, &tables.get(number).rows)? {
                None => 0,
                Some(key) => id_of(&key).ok_or_else(|| {
                    Failure::failed(format!("a key of sbtest{number} is no id: {key:02x?}"))
                })?,
            };
            Ok(AtomicU32::new(last + 1))
        });
        let counters: Arc<[AtomicU32]> = ids.collect::<Outcome<Vec<_>>>()?.into();
        *next = Some(counters.clone());
        Ok(counters)
    }
}

impl Workload for Insert {
    fn load(&self, loader: &Loader<'_>) -> Outcome {
        loader.sysbench(&self.params)
    }

    fn session(&self, db: &Db, thread: u32) -> Outcome<Box<dyn Session>> {
        let tables = Tables::open(db, self.params.tables)?;
        Ok(Box::new(InsertSession {
            db: db.clone(),
            next: self.counters(db, &tables)?,
            tables,
            params: self.params,
            picker: self.params.distribution.over(self.params.rows),
            rng: Prng::new(thread_seed(self.params.seed, thread)),
            drawn: None,
        }))
    }
}

struct InsertSession {
    db: Db,
    next: Arc<[AtomicU32]>,
    tables: Tables,
    params: WorkloadParams,
    picker: Picker,
    rng: Prng,
    /// Table number, id and row of the chosen transaction.
    drawn: Option<(u32, u32, Row)>,
}

impl Session for InsertSession {
    fn draw(&mut self) -> bool {
        let number = self.params.pick_table(&mut self.rng);
        let id = self.next[number as usize - 1].fetch_add(1, Ordering::Relaxed);
        let row = Row::random(self.picker.id(&mut self.rng), &mut self.rng);
        self.drawn = Some((number, id, row));
        // At 2^32 rows there are no more keys.
        id < u32::MAX
    }

    fn attempt(&mut self) -> Result<u64, AttemptError> {
        let Some((number, id, row)) = &self.drawn else { return Ok(0) };
        let pair = self.tables.get(*number);
        let mut tx = self.db.begin_with(self.params.begin.writing())?;
        tx.insert(&pair.rows, &id_key(*id), &row.encode())?;
        tx.insert(&pair.index, &index_key(row.k, *id), b"")?;
        tx.commit()?;
        Ok(1)
    }
}
