//! Fills tables by statements that insert many rows each, several tables at once.

use super::worker::{RunWorker, failed};
use super::{schema::Schema, sysbench};
use crate::workload::{AttemptError, WorkloadParams};
use client::Access;
use output::failure::{Failure, Outcome};
use output::stop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// What the tables of a run are made of, and how far the load is.
pub(crate) struct Filled<'a> {
    /// How to get into the server.
    pub(crate) access: &'a Access,
    /// Where the tables are.
    pub(crate) schema: &'a Schema,
    /// The engine; `None` is the server's default.
    pub(crate) engine: Option<&'a str>,
    /// How many threads fill tables.
    pub(crate) threads: u32,
    /// Rows loaded so far, for the progress line.
    pub(crate) rows_loaded: &'a AtomicU64,
}

impl Filled<'_> {
    /// Returns what follows the columns of a CREATE TABLE.
    pub(super) fn engine_clause(&self) -> String {
        engine_clause(self.engine)
    }

    /// Connects.
    pub(super) fn worker(&self) -> Outcome<RunWorker> {
        RunWorker::open(self.access, self.schema.name(), &[])
    }

    /// Makes and fills sysbench's tables, each by one thread.
    pub(super) fn sysbench(&self, params: &WorkloadParams) -> Outcome {
        self.each(params.tables, |worker, number, go_on| {
            sysbench::fill(worker, number, params, &self.engine_clause(), go_on)
        })
    }

    /// Calls `fill` for each part of the load, from 1, on several connections, until one fails or
    /// the user asks to stop. It is told the part, and a function that it calls with the number of
    /// new rows; if that returns false, the load shall stop.
    pub(super) fn each(
        &self,
        parts: u32,
        fill: impl Fn(&mut RunWorker, u32, &dyn Fn(u32) -> bool) -> Result<(), AttemptError> + Sync,
    ) -> Outcome {
        let next = AtomicU32::new(1);
        let over = AtomicBool::new(false);
        let thread = || -> Outcome {
            let mut worker = self.worker()?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number > parts || over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let go_on = |rows: u32| {
                    self.rows_loaded.fetch_add(rows.into(), Ordering::Relaxed);
                    !over.load(Ordering::Relaxed) && !stop::asked()
                };
                fill(&mut worker, number, &go_on)?;
                stop::check()?;
            }
        };
        std::thread::scope(|scope| {
            let work = || {
                let done = thread();
                if done.is_err() {
                    over.store(true, Ordering::Relaxed);
                }
                done
            };
            let threads: Vec<_> = (0..self.threads.min(parts)).map(|_| scope.spawn(work)).collect();
            let panicked = |_| Err(Failure::failed("a thread of the load panicked"));
            let ends = threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
            // Joins every thread before it returns the first failure.
            ends.collect::<Vec<_>>().into_iter().collect::<Outcome>()
        })
    }

    /// Runs one statement.
    pub(super) fn run(&self, statement: &str) -> Outcome {
        let no = |trouble: client::Trouble| Failure::failed(trouble.to_string());
        let mut worker = self.access.work(None).map_err(no)?;
        let use_it = format!("USE `{}`", self.schema.name());
        for statement in [&use_it, statement] {
            worker.run(statement).map_err(|trouble| failed(statement, &trouble))?;
        }
        Ok(())
    }
}

/// Returns what follows the columns of a CREATE TABLE.
pub(super) fn engine_clause(engine: Option<&str>) -> String {
    engine.map_or(String::new(), |engine| format!(" ENGINE={engine}"))
}
