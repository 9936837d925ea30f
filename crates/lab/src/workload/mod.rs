//! What a run does to the database. Each family of workloads is one file; this page names them and says what the driver
//! asks of them.

mod bulk_load;
pub(crate) mod distribution;
mod insert;
mod load;
mod napkin;
mod oltp;
pub(crate) mod row;
mod schema_reload;

use crate::failure::{Failure, Outcome};
use base::prng::Prng;
use clap::ValueEnum;
use distribution::Distribution;
use millpond::{Db, Durability, Isolation, Table, TxnOptions};

pub(crate) use load::{Loader, Tables};

/// The workloads by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// 14 reads, then 40 row changes in one transaction: 10 index updates, 10 non-index updates, 10 delete+insert pairs
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

impl Kind {
    /// The name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned())
    }
}

/// How every transaction of a run begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin {
    /// When a commit returns.
    pub(crate) durability: Durability,
    /// What a transaction sees.
    pub(crate) isolation: Isolation,
}

impl Begin {
    /// For a transaction that changes something.
    pub(crate) fn writing(self) -> TxnOptions {
        TxnOptions::new().durability(self.durability).isolation(self.isolation)
    }

    /// For a transaction that only reads.
    pub(crate) fn reading(self) -> TxnOptions {
        self.writing().read_only(true)
    }
}

/// The sizes and choices that all workloads share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// How many tables.
    pub(crate) tables: u32,
    /// Rows in each after the load.
    pub(crate) rows: u32,
    /// Which rows are touched.
    pub(crate) distribution: Distribution,
    /// Of the whole run; a thread's own numbers follow from it.
    pub(crate) seed: u64,
    /// How transactions begin.
    pub(crate) begin: Begin,
}

impl Shape {
    /// The same for a directory that runs have used before, whose log has come to `lsn`. The choices must be others: who
    /// writes what stands there already changes nothing, and the redo of that is half as long.
    pub(crate) fn after(self, lsn: u64) -> Shape {
        Shape { seed: Prng::new(self.seed ^ lsn).next_u64(), ..self }
    }
}

/// Why a transaction did not go through.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The engine said so; some of its errors are worth another try.
    Engine(millpond::Error),
    /// The engine answered, and the answer cannot be right.
    Wrong(String),
}

impl Trouble {
    /// Whether the same transaction may be tried again.
    pub(crate) fn is_retryable(&self) -> bool {
        matches!(self, Trouble::Engine(error) if error.is_retryable())
    }
}

impl From<millpond::Error> for Trouble {
    fn from(error: millpond::Error) -> Self {
        Trouble::Engine(error)
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Engine(error) => error.into(),
            Trouble::Wrong(text) => Failure::failed(format!("the engine gave a wrong answer: {text}")),
        }
    }
}

/// One family of workloads, ready for a database.
pub(crate) trait Workload: Sync {
    /// Fills an empty database with what the measured phase needs.
    fn load(&self, loader: &Loader<'_>) -> Outcome;
    /// What thread `thread` (from 0) does in the loaded database.
    fn session(&self, db: &Db, thread: u32) -> Outcome<Box<dyn Session>>;
    /// Whether the work itself ends the measured phase, and not the clock.
    fn has_an_end(&self) -> bool {
        false
    }
}

/// One thread of a workload.
pub(crate) trait Session: Send {
    /// Chooses the next transaction; false if no work is left.
    fn draw(&mut self) -> bool;
    /// Runs the chosen transaction from begin to commit and tells how many table rows it changed. Called again after a
    /// retryable error, it runs the same transaction again.
    fn attempt(&mut self) -> Result<u64, Trouble>;
}

/// The workload named `kind`.
pub(crate) fn build(kind: Kind, shape: Shape) -> Box<dyn Workload> {
    let mix = match kind {
        Kind::WriteHeavy => oltp::WRITE_HEAVY,
        Kind::ReadWrite => oltp::READ_WRITE,
        Kind::WriteOnly => oltp::WRITE_ONLY,
        Kind::UpdateIndex => oltp::UPDATE_INDEX,
        Kind::UpdateNonIndex => oltp::UPDATE_NON_INDEX,
        Kind::PointSelect => oltp::POINT_SELECT,
        Kind::ReadOnly => oltp::READ_ONLY,
        Kind::Insert => return Box::new(insert::Insert::new(shape)),
        Kind::Napkin => return Box::new(napkin::Napkin::new(shape)),
        Kind::BulkLoad => return Box::new(bulk_load::BulkLoad::new(shape)),
        Kind::SchemaReload => return Box::new(schema_reload::SchemaReload::new(shape)),
    };
    Box::new(oltp::Oltp::new(mix, shape))
}

/// The greatest key of a table.
fn last_key(db: &Db, table: &Table) -> Outcome<Option<Vec<u8>>> {
    let tx = db.begin_with(TxnOptions::new().read_only(true))?;
    let last = tx.range(table, ..)?.next_back().transpose()?;
    Ok(last.map(|(key, _)| key))
}

/// A number that differs for every thread of every run.
fn thread_seed(seed: u64, thread: u32) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(thread) << 32)
}
