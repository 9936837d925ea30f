//! The load as the measured work: every table filled from nothing in key order, 500 rows a transaction, committed as
//! `--durability` says. A table belongs to one thread at a time.

use super::distribution::Picker;
use super::load::table_names;
use super::row::{Row, id_key, index_key};
use super::{Begin, Loader, Session, Shape, Tables, Trouble, Workload, thread_seed};
use crate::failure::{Failure, Outcome};
use base::prng::Prng;
use millpond::Db;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

const BATCH: u32 = 500;

/// The workload.
pub(crate) struct BulkLoad {
    shape: Shape,
    /// Made anew, empty, by the first session; then the next table to fill.
    ready: Mutex<Option<(Tables, Arc<AtomicU32>)>>,
}

impl BulkLoad {
    pub(crate) fn new(shape: Shape) -> BulkLoad {
        BulkLoad { shape, ready: Mutex::new(None) }
    }
}

impl Workload for BulkLoad {
    fn load(&self, _loader: &Loader<'_>) -> Outcome {
        Ok(())
    }

    fn session(&self, db: &Db, thread: u32) -> Outcome<Box<dyn Session>> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.is_none() {
            // A directory that is used again holds the tables of the run before.
            for number in 1..=self.shape.tables {
                let (rows, index) = table_names(number);
                for name in [rows, index] {
                    match db.drop_table(&name) {
                        Ok(()) | Err(millpond::Error::NoSuchTable { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            *ready = Some((Tables::create(db, self.shape.tables)?, Arc::new(AtomicU32::new(1))));
        }
        let Some((tables, next)) = ready.as_ref() else {
            return Err(Failure::failed("the tables to load are gone"));
        };
        Ok(Box::new(BulkSession {
            db: db.clone(),
            tables: tables.clone(),
            next: next.clone(),
            begin: self.shape.begin,
            rows: self.shape.rows,
            picker: self.shape.distribution.over(self.shape.rows),
            rng: Prng::new(thread_seed(self.shape.seed, thread)),
            table: 0,
            ids: (1, 0),
            entries: Vec::new(),
            batch: Batch::Rows(Vec::new()),
        }))
    }

    fn has_an_end(&self) -> bool {
        true
    }
}

enum Batch {
    Rows(Vec<(u32, Row)>),
    Entries(Vec<(u32, u32)>),
}

struct BulkSession {
    db: Db,
    tables: Tables,
    next: Arc<AtomicU32>,
    begin: Begin,
    rows: u32,
    picker: Picker,
    rng: Prng,
    /// The table being filled; 0 before the first.
    table: u32,
    /// First and last id still to insert there.
    ids: (u32, u32),
    /// Index entries still to insert there, greatest first, so that the next ones are at the end.
    entries: Vec<(u32, u32)>,
    batch: Batch,
}

impl Session for BulkSession {
    fn draw(&mut self) -> bool {
        let (first, last) = self.ids;
        if first > last && self.entries.is_empty() {
            self.table = self.next.fetch_add(1, Ordering::Relaxed);
            if self.table > self.tables.count() {
                return false;
            }
            self.ids = (1, self.rows);
            return self.draw();
        }
        if first <= last {
            let end = last.min(first + BATCH - 1);
            let mut rows = Vec::with_capacity(BATCH as usize);
            for id in first..=end {
                let row = Row::random(self.picker.id(&mut self.rng), &mut self.rng);
                self.entries.push((row.k, id));
                rows.push((id, row));
            }
            self.ids = (end + 1, last);
            if end == last {
                self.entries.sort_unstable_by(|a, b| b.cmp(a));
            }
            self.batch = Batch::Rows(rows);
        } else {
            let left = self.entries.len().saturating_sub(BATCH as usize);
            let mut some = self.entries.split_off(left);
            some.reverse();
            self.batch = Batch::Entries(some);
        }
        true
    }

    fn attempt(&mut self) -> Result<u64, Trouble> {
        let pair = self.tables.get(self.table);
        let mut tx = self.db.begin_with(self.begin.writing())?;
        let rows = match &self.batch {
            Batch::Rows(rows) => {
                for (id, row) in rows {
                    tx.insert(&pair.rows, &id_key(*id), &row.encode())?;
                }
                rows.len() as u64
            }
            Batch::Entries(entries) => {
                for &(k, id) in entries {
                    tx.insert(&pair.index, &index_key(k, id), b"")?;
                }
                0
            }
        };
        tx.commit()?;
        Ok(rows)
    }
}
