//! A schema dropped and created again: what costs other engines a file and several fsyncs a table. The 100 tables are
//! shared out among the threads; each drop and each create is one transaction of the figures.

use super::{Loader, Session, Shape, Trouble, Workload};
use crate::failure::Outcome;
use crate::stop;
use millpond::Db;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const TABLES: u32 = 100;

fn name(number: u32) -> String {
    format!("schema_table_{number:03}")
}

/// The workload.
pub(crate) struct SchemaReload {
    next: Arc<AtomicU32>,
}

impl SchemaReload {
    pub(crate) fn new(_shape: Shape) -> SchemaReload {
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
    /// Whether the table of this step is to be created, having been dropped by this thread just before.
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

    fn attempt(&mut self) -> Result<u64, Trouble> {
        let name = name(self.step);
        if self.create {
            self.db.create_table(&name)?;
        } else {
            self.db.drop_table(&name)?;
        }
        Ok(0)
    }
}
