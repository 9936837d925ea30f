//! The workloads over SQL by name.

use super::bulk_load::BulkLoadSession;
use super::insert::InsertSession;
use super::load::{Filled, engine_clause};
use super::napkin::{self, NapkinSession};
use super::schema::Schema;
use super::schema_reload::{self, SchemaSession};
use super::sysbench::{self, SqlStatements};
use super::tpcc;
use super::worker::RunWorker;
use crate::workload::oltp::OltpSession;
use crate::workload::tpcc::Condition;
use crate::workload::tpcc::field::Moment;
use crate::workload::tpcc::population::Population;
use crate::workload::tpcc::session::TpccSession;
use crate::workload::{INSERTS_PER_THREAD, SCHEMA_TABLES, Session, WorkloadKind, WorkloadParams, mix};
use client::Access;
use output::failure::Outcome;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// A workload on a server.
pub(crate) struct ServerWorkload {
    pub(super) kind: WorkloadKind,
    pub(super) params: WorkloadParams,
    pub(super) engine: Option<String>,
    /// Statements that each session begins with.
    set_up: Vec<String>,
    /// What the threads have begun, of a workload that ends by itself.
    taken: Arc<AtomicU32>,
}

/// Makes a workload. `isolation` is the level's name on the command line; without it sessions have
/// the server's own.
pub(crate) fn build(
    kind: WorkloadKind,
    params: WorkloadParams,
    engine: Option<String>,
    isolation: Option<&str>,
) -> ServerWorkload {
    let level = |name: &str| name.replace('-', " ").to_uppercase();
    let set_up =
        isolation.map(|name| format!("SET SESSION TRANSACTION ISOLATION LEVEL {}", level(name))).into_iter();
    ServerWorkload { kind, params, engine, set_up: set_up.collect(), taken: Arc::new(AtomicU32::new(0)) }
}

/// Returns the schema in which a workload works, if the user names none.
pub(crate) fn default_schema(kind: WorkloadKind) -> &'static str {
    match kind {
        WorkloadKind::Napkin => "napkin",
        WorkloadKind::Tpcc => "tpcc",
        _ => "sbtest",
    }
}

/// Returns the name of a workload's load. Those that leave the ids of their tables as they were
/// have the same.
pub(crate) fn load_name(kind: WorkloadKind) -> String {
    match mix(kind) {
        Some(_) => "sysbench".to_owned(),
        None => kind.name(),
    }
}

impl ServerWorkload {
    /// Makes and fills the tables of the measured phase.
    pub(crate) fn load(&self, filled: &Filled<'_>) -> Outcome {
        match self.kind {
            WorkloadKind::Napkin => napkin::load(filled),
            WorkloadKind::SchemaReload => schema_reload::load(filled),
            WorkloadKind::BulkLoad => Ok(()),
            WorkloadKind::Tpcc => {
                let WorkloadParams { tpcc: setup, seed, .. } = self.params;
                tpcc::load(filled, setup, Population::new(setup.scale, seed, Moment::now()))
            }
            _ => filled.sysbench(&self.params),
        }
    }

    /// Connects, and returns the work of thread `thread` (from 0).
    pub(crate) fn session(&self, access: &Access, schema: &str, thread: u32) -> Outcome<Box<dyn Session>> {
        let worker = RunWorker::open(access, schema, &self.set_up)?;
        let engine_clause = engine_clause(self.engine.as_deref());
        let taken = Arc::clone(&self.taken);
        Ok(match (mix(self.kind), self.kind) {
            (Some(mix), _) => {
                let statements = SqlStatements::new(worker, self.params.tables)?;
                Box::new(OltpSession::new(mix, self.params, thread, statements))
            }
            (None, WorkloadKind::Napkin) => Box::new(NapkinSession::new(worker)),
            (None, WorkloadKind::SchemaReload) => Box::new(SchemaSession::new(worker, engine_clause, taken)),
            (None, WorkloadKind::BulkLoad) => {
                Box::new(BulkLoadSession::new(worker, self.params, engine_clause, taken))
            }
            (None, WorkloadKind::Tpcc) => {
                let statements = tpcc::SqlStatements::new(worker);
                Box::new(TpccSession::new(self.params.tpcc, self.params.seed, thread, statements))
            }
            (None, _) => Box::new(InsertSession::new(worker, self.params, thread)),
        })
    }

    /// Returns how many statements a session prepares at most.
    pub(crate) fn statements_a_session(&self) -> u64 {
        let tables = u64::from(self.params.tables);
        match (mix(self.kind), self.kind) {
            (Some(mix), _) => tables * sysbench::distinct_statements(mix, &self.params),
            (None, WorkloadKind::Tpcc) => tpcc::STATEMENTS,
            (None, WorkloadKind::Napkin) => 1,
            (None, WorkloadKind::SchemaReload | WorkloadKind::BulkLoad) => 0,
            (None, _) => tables,
        }
    }

    /// Says whether the tables meet the first `count` of the workload's own conditions; `None` if
    /// it has none.
    pub(crate) fn conditions(
        &self,
        access: &Access,
        schema: &Schema,
        count: usize,
    ) -> Outcome<Option<Vec<Condition>>> {
        match self.kind {
            WorkloadKind::Tpcc => tpcc::check(access, schema, self.params.tpcc.scale, count).map(Some),
            _ => Ok(None),
        }
    }

    /// Returns whether the workload ends by itself, not by the clock.
    pub(crate) fn has_an_end(&self) -> bool {
        matches!(self.kind, WorkloadKind::Napkin | WorkloadKind::SchemaReload | WorkloadKind::BulkLoad)
    }

    /// Returns the tables at the end of a run of `threads`, each with its rows, where they are
    /// known. `fresh` is whether this run has loaded them.
    pub(crate) fn tables(&self, threads: u32, fresh: bool) -> Vec<(String, Option<u64>)> {
        let rows = u64::from(self.params.rows);
        let sysbench = |rows: Option<u64>| {
            (1..=self.params.tables).map(|number| (sysbench::table(number), rows)).collect()
        };
        match self.kind {
            WorkloadKind::Napkin => {
                let inserted = u64::from(threads) * u64::from(INSERTS_PER_THREAD);
                vec![(napkin::TABLE.to_owned(), fresh.then_some(inserted))]
            }
            WorkloadKind::SchemaReload => {
                (0..SCHEMA_TABLES).map(|number| (schema_reload::table(number), Some(0))).collect()
            }
            // The conditions say more about them.
            WorkloadKind::Tpcc => tpcc::NAMES.iter().map(|table| ((*table).to_owned(), None)).collect(),
            // How many rows it inserts is not known beforehand.
            WorkloadKind::Insert => sysbench(None),
            _ => sysbench(Some(rows)),
        }
    }
}
