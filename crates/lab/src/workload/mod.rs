//! The workloads of `millpond run`. Each family is one file; this one lists them.
//!
//! `family` has the traits that the driver uses, `params` what all workloads are told.

mod bulk_load;
pub(crate) mod distribution;
mod family;
mod insert;
mod last_key;
mod napkin;
pub(crate) mod oltp;
mod oltp_rows;
mod params;
pub(crate) mod row;
mod schema_reload;
mod sysbench_tables;
pub(crate) mod tpcc;

use clap::ValueEnum;
use output::units::show_count;
use serde::Serialize;
use tpcc::{TpccSetup, TpccShape};

pub(crate) use family::{AttemptError, Session, Workload};
pub(crate) use params::{TxnSettings, WorkloadParams};
pub(crate) use sysbench_tables::{Loader, Tables, table_names};
/// What the same workloads over SQL share with these.
#[cfg(feature = "watch")]
pub(crate) use {
    family::{DEADLOCK, LOCK_TIMEOUT, WRITE_CONFLICT},
    napkin::INSERTS_PER_THREAD,
    params::thread_seed,
    schema_reload::TABLES as SCHEMA_TABLES,
};

/// The workloads by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkloadKind {
    /// 14 reads, then 40 row changes in one transaction: 10 index updates, 10 non-index updates, 10
    /// delete+insert pairs
    WriteHeavy,
    /// Sysbench's standard: 14 reads, 2 updates, one delete+insert pair
    ReadWrite,
    /// 2 updates and one delete+insert pair
    WriteOnly,
    /// One row inserted at the end of a table
    Insert,
    /// One update of the indexed column
    UpdateIndex,
    /// One update of a column without index
    UpdateNonIndex,
    /// One row read by its key
    PointSelect,
    /// 10 point reads and 4 ranges of 100 rows
    ReadOnly,
    /// 1,000 single-row inserts by each thread, then the end
    Napkin,
    /// Every table made by a bulk load, durable whatever --durability says, then the end
    BulkLoad,
    /// 100 tables dropped and created again, then the end
    SchemaReload,
    /// TPC-C's five transactions on --warehouses
    Tpcc,
}

impl WorkloadKind {
    /// The name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned())
    }

    /// Returns what a run works on: `asked` is how many tables, rows of each, and how they are
    /// chosen, which the workloads with an end of their own do not all heed.
    pub(crate) fn shape(self, threads: u32, asked: (u32, u32, &str), setup: TpccSetup) -> Shape {
        let (tables, rows, distribution) = asked;
        match self {
            WorkloadKind::Tpcc => {
                Shape { tables: tpcc::TABLES, rows: 0, tpcc: Some(setup.into()), text: setup.show() }
            }
            WorkloadKind::Napkin => {
                let (each, rows) = (napkin::INSERTS_PER_THREAD, napkin::INSERTS_PER_THREAD * threads);
                let text = format!("1 table, {} rows inserted by each thread", show_count(f64::from(each)));
                Shape { tables: 1, rows, tpcc: None, text }
            }
            WorkloadKind::SchemaReload => {
                let tables = schema_reload::TABLES;
                Shape { tables, rows: 0, tpcc: None, text: format!("{tables} tables without rows") }
            }
            WorkloadKind::BulkLoad => {
                let text = format!("{tables} tables x {} rows", show_count(f64::from(rows)));
                Shape { tables, rows, tpcc: None, text }
            }
            _ => {
                let rows_of_each = show_count(f64::from(rows));
                let text = format!("{tables} tables x {rows_of_each} rows, {distribution} keys");
                Shape { tables, rows, tpcc: None, text }
            }
        }
    }
}

/// What a run works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Shape {
    /// How many tables.
    pub(crate) tables: u32,
    /// Rows of each; those that the run inserts, where it begins with none. 0 if each table has
    /// another number of rows.
    pub(crate) rows: u32,
    /// What `tpcc` works on.
    #[serde(flatten)]
    pub(crate) tpcc: Option<TpccShape>,
    /// All of it, for people.
    #[serde(skip)]
    pub(crate) text: String,
}

/// Returns the statements of a workload of sysbench's OLTP family; `None` for the others.
pub(crate) fn mix(kind: WorkloadKind) -> Option<oltp::Mix> {
    match kind {
        WorkloadKind::WriteHeavy => Some(oltp::WRITE_HEAVY),
        WorkloadKind::ReadWrite => Some(oltp::READ_WRITE),
        WorkloadKind::WriteOnly => Some(oltp::WRITE_ONLY),
        WorkloadKind::UpdateIndex => Some(oltp::UPDATE_INDEX),
        WorkloadKind::UpdateNonIndex => Some(oltp::UPDATE_NON_INDEX),
        WorkloadKind::PointSelect => Some(oltp::POINT_SELECT),
        WorkloadKind::ReadOnly => Some(oltp::READ_ONLY),
        WorkloadKind::Insert
        | WorkloadKind::Napkin
        | WorkloadKind::BulkLoad
        | WorkloadKind::SchemaReload
        | WorkloadKind::Tpcc => None,
    }
}

/// Makes the workload of this kind on a database in this process.
pub(crate) fn build(kind: WorkloadKind, params: WorkloadParams) -> Box<dyn Workload> {
    match (mix(kind), kind) {
        (Some(mix), _) => Box::new(oltp_rows::Oltp::new(mix, params)),
        (None, WorkloadKind::Napkin) => Box::new(napkin::Napkin::new(params)),
        (None, WorkloadKind::BulkLoad) => Box::new(bulk_load::BulkLoad::new(params)),
        (None, WorkloadKind::SchemaReload) => Box::new(schema_reload::SchemaReload::new(params)),
        (None, WorkloadKind::Tpcc) => Box::new(tpcc::Tpcc::new(params)),
        (None, _) => Box::new(insert::Insert::new(params)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    /// `run napkin` said "10 tables x 100 000 rows".
    #[test]
    fn a_run_says_what_it_works_on() {
        let mut out = String::new();
        for kind in WorkloadKind::value_variants() {
            let shape = kind.shape(4, (10, 100_000, "uniform"), TpccSetup::default());
            out += &format!("{}: {} of {}: {}\n", kind.name(), shape.tables, shape.rows, shape.text);
        }
        expect![[r#"
            write-heavy: 10 of 100000: 10 tables x 100 000 rows, uniform keys
            read-write: 10 of 100000: 10 tables x 100 000 rows, uniform keys
            write-only: 10 of 100000: 10 tables x 100 000 rows, uniform keys
            insert: 10 of 100000: 10 tables x 100 000 rows, uniform keys
            update-index: 10 of 100000: 10 tables x 100 000 rows, uniform keys
            update-non-index: 10 of 100000: 10 tables x 100 000 rows, uniform keys
            point-select: 10 of 100000: 10 tables x 100 000 rows, uniform keys
            read-only: 10 of 100000: 10 tables x 100 000 rows, uniform keys
            napkin: 1 of 4000: 1 table, 1 000 rows inserted by each thread
            bulk-load: 10 of 100000: 10 tables x 100 000 rows
            schema-reload: 100 of 0: 100 tables without rows
            tpcc: 9 of 0: 1 warehouse
        "#]]
        .assert_eq(&out);
    }
}
