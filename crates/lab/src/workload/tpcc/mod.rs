//! TPC-C, revision 5.11: a wholesaler with warehouses, on which five transactions work.
//!
//! `scale` says how many rows there are, `setup` what a run is asked for. `random` has the
//! standard's random values, `population` makes the rows of the load, `inputs` draws what users
//! enter. `field` and `rows` are the rows as bytes. `transactions` has the order of the statements,
//! `session` is a thread of them. `tables`, `row_statements` and `facts` work on a database in this
//! process; those for a server are elsewhere. `conditions` are the consistency conditions.

pub(crate) mod conditions;
mod facts;
pub(crate) mod field;
pub(crate) mod inputs;
pub(crate) mod population;
mod random;
mod row_statements;
pub(crate) mod rows;
pub(crate) mod scale;
pub(crate) mod session;
mod setup;
mod tables;
#[cfg(test)]
mod tests;
pub(crate) mod transactions;

use super::{Loader, Session, Workload, WorkloadParams};
use crate::workload::params::thread_seed;
use base::prng::Prng;
#[cfg(feature = "watch")]
pub(crate) use conditions::CONDITIONS;
pub(crate) use conditions::Condition;
use field::Moment;
use millpond::Db;
use output::failure::Outcome;
use population::Population;
use row_statements::RowStatements;
pub(crate) use scale::{PART_MAX, Scale, WAREHOUSES_MAX};
use session::TpccSession;
pub(crate) use setup::{TpccSetup, TpccShape};
use tables::Tables;

/// How many tables there are.
pub(crate) const TABLES: u32 = 9;
/// The transaction that tpmC counts.
pub(crate) const NEW_ORDER: &str = "new-order";

/// The workload on a database in this process.
pub(super) struct Tpcc {
    params: WorkloadParams,
}

impl Tpcc {
    pub(super) fn new(params: WorkloadParams) -> Tpcc {
        Tpcc { params }
    }
}

impl Workload for Tpcc {
    fn load(&self, loader: &Loader<'_>) -> Outcome {
        let WorkloadParams { tpcc, seed, .. } = self.params;
        tables::load(loader, Population::new(tpcc.scale, seed, Moment::now()))
    }

    fn session(&self, db: &Db, thread: u32) -> Outcome<Box<dyn Session>> {
        let WorkloadParams { tpcc, seed, begin, .. } = self.params;
        // A run on tables that other runs have used has another seed.
        let number = Prng::new(thread_seed(seed ^ 0x7bcc, thread)).next_u64();
        let statements = RowStatements::new(db, Tables::open(db)?, begin, number);
        Ok(Box::new(TpccSession::new(tpcc, seed, thread, statements)))
    }

    fn conditions(&self, db: &Db) -> Outcome<Option<Vec<Condition>>> {
        facts::check(db, self.params.tpcc.scale).map(Some)
    }
}
