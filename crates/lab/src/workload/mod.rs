//! The workloads of `millpond run`. Each family is one file; this one lists them and defines the
//! traits that the driver uses.

mod bulk_load;
pub(crate) mod distribution;
mod insert;
mod load;
mod napkin;
mod oltp;
pub(crate) mod row;
mod schema_reload;

use crate::failure::{Failure, Outcome};
use crate::units::show_count;
use base::prng::Prng;
use clap::ValueEnum;
use distribution::Distribution;
use millpond::{Db, Durability, Isolation, Table, TxnOptions};

pub(crate) use load::{Loader, Tables, table_names};

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
}

impl WorkloadKind {
    /// The name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned())
    }

    /// Returns what a run works on: `asked` is how many tables, rows of each, and how they are
    /// chosen, which the workloads with an end of their own do not all heed.
    pub(crate) fn shape(self, threads: u32, asked: (u32, u32, &str)) -> Shape {
        let (tables, rows, distribution) = asked;
        match self {
            WorkloadKind::Napkin => {
                let (each, rows) = (napkin::INSERTS_PER_THREAD, napkin::INSERTS_PER_THREAD * threads);
                let text = format!("1 table, {} rows inserted by each thread", show_count(f64::from(each)));
                Shape { tables: 1, rows, text }
            }
            WorkloadKind::SchemaReload => {
                let tables = schema_reload::TABLES;
                Shape { tables, rows: 0, text: format!("{tables} tables without rows") }
            }
            WorkloadKind::BulkLoad => {
                let text = format!("{tables} tables x {} rows", show_count(f64::from(rows)));
                Shape { tables, rows, text }
            }
            _ => {
                let rows_of_each = show_count(f64::from(rows));
                let text = format!("{tables} tables x {rows_of_each} rows, {distribution} keys");
                Shape { tables, rows, text }
            }
        }
    }
}

/// What a run works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// How many tables.
    pub(crate) tables: u32,
    /// Rows of each; those that the run inserts, where it begins with none.
    pub(crate) rows: u32,
    /// Both, for people.
    pub(crate) text: String,
}

/// The settings of every transaction of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxnSettings {
    /// When a commit returns.
    pub(crate) durability: Durability,
    /// The isolation level.
    pub(crate) isolation: Isolation,
}

impl TxnSettings {
    /// Returns the options of a transaction that writes.
    pub(crate) fn writing(self) -> TxnOptions {
        TxnOptions::new().durability(self.durability).isolation(self.isolation)
    }

    /// Returns the options of a transaction that only reads.
    pub(crate) fn reading(self) -> TxnOptions {
        self.writing().read_only(true)
    }
}

/// The parameters that all workloads share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkloadParams {
    /// How many tables.
    pub(crate) tables: u32,
    /// Rows in each after the load.
    pub(crate) rows: u32,
    /// How rows are chosen.
    pub(crate) distribution: Distribution,
    /// The seed of the run. The random numbers of each thread follow from it.
    pub(crate) seed: u64,
    /// The settings of the transactions.
    pub(crate) begin: TxnSettings,
}

impl WorkloadParams {
    /// Returns the parameters for a directory that other runs have used, whose log ends at `lsn`.
    /// They have another seed: a run that writes the values of the last run again changes nothing,
    /// and its redo is half as long.
    pub(crate) fn after(self, lsn: u64) -> WorkloadParams {
        WorkloadParams { seed: Prng::new(self.seed ^ lsn).next_u64(), ..self }
    }
}

/// Why an attempt to run a transaction failed.
#[derive(Debug)]
pub(crate) enum AttemptError {
    /// The engine returned an error, which may be retryable.
    Engine(millpond::Error),
    /// The engine returned a wrong result.
    Wrong(String),
}

impl AttemptError {
    /// Returns whether the same transaction may be tried again.
    pub(crate) fn is_retryable(&self) -> bool {
        matches!(self, AttemptError::Engine(error) if error.is_retryable())
    }
}

impl From<millpond::Error> for AttemptError {
    fn from(error: millpond::Error) -> Self {
        AttemptError::Engine(error)
    }
}

impl From<AttemptError> for Failure {
    fn from(error: AttemptError) -> Self {
        match error {
            AttemptError::Engine(error) => error.into(),
            AttemptError::Wrong(text) => Failure::failed(format!("the engine gave a wrong answer: {text}")),
        }
    }
}

/// One family of workloads, ready for a database.
pub(crate) trait Workload: Sync {
    /// Loads an empty database with the tables of the measured phase.
    fn load(&self, loader: &Loader<'_>) -> Outcome;
    /// Returns the work of thread `thread` (from 0) in the loaded database.
    fn session(&self, db: &Db, thread: u32) -> Outcome<Box<dyn Session>>;
    /// Returns whether the workload ends by itself, not by the clock.
    fn has_an_end(&self) -> bool {
        false
    }
}

/// One thread of a workload.
pub(crate) trait Session: Send {
    /// Chooses the next transaction. Returns false if no work is left.
    fn draw(&mut self) -> bool;
    /// Runs the chosen transaction from begin to commit and returns how many table rows it changed.
    /// A second call runs the same transaction again, after a retryable error.
    fn attempt(&mut self) -> Result<u64, AttemptError>;
}

/// Makes the workload of this kind.
pub(crate) fn build(kind: WorkloadKind, params: WorkloadParams) -> Box<dyn Workload> {
    let mix = match kind {
        WorkloadKind::WriteHeavy => oltp::WRITE_HEAVY,
        WorkloadKind::ReadWrite => oltp::READ_WRITE,
        WorkloadKind::WriteOnly => oltp::WRITE_ONLY,
        WorkloadKind::UpdateIndex => oltp::UPDATE_INDEX,
        WorkloadKind::UpdateNonIndex => oltp::UPDATE_NON_INDEX,
        WorkloadKind::PointSelect => oltp::POINT_SELECT,
        WorkloadKind::ReadOnly => oltp::READ_ONLY,
        WorkloadKind::Insert => return Box::new(insert::Insert::new(params)),
        WorkloadKind::Napkin => return Box::new(napkin::Napkin::new(params)),
        WorkloadKind::BulkLoad => return Box::new(bulk_load::BulkLoad::new(params)),
        WorkloadKind::SchemaReload => return Box::new(schema_reload::SchemaReload::new(params)),
    };
    Box::new(oltp::Oltp::new(mix, params))
}

/// Returns the greatest key of a table.
fn last_key(db: &Db, table: &Table) -> Outcome<Option<Vec<u8>>> {
    let tx = db.begin_with(TxnOptions::new().read_only(true))?;
    let last = tx.range(table, ..)?.next_back().transpose()?;
    Ok(last.map(|(key, _)| key))
}

/// Returns a seed that is different for every thread and run.
fn thread_seed(seed: u64, thread: u32) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(thread) << 32)
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
            let shape = kind.shape(4, (10, 100_000, "uniform"));
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
        "#]]
        .assert_eq(&out);
    }
}
