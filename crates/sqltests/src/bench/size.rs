//! How much is measured, and which ratios it must reach.

use super::args::Args;
use super::sysbench::Data;
use super::workloads::Workload;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) data: Data,
    pub(super) seconds: u64,
    pub(super) pairs: Option<usize>,
    pub(super) memory_mib: u64,
    /// Rows of the table that ALTER TABLE copies.
    pub(super) alter_rows: u64,
    /// Tables of the database that is dropped.
    pub(super) dropped_tables: u32,
    /// Rows of the table whose rows are locked.
    pub(super) locked_rows: u64,
    /// Connections share the threads of a pool.
    pub(super) pool: bool,
    /// With the binary log.
    pub(super) binlog: bool,
    /// Syncs are counted, and take so many microseconds longer.
    pub(super) sync_delay: Option<u32>,
}

impl Size {
    pub(super) fn of(args: &Args) -> Size {
        let pick = |given: Option<u64>, full, quick| given.unwrap_or(if args.quick { quick } else { full });
        Size {
            data: Data { tables: pick(args.tables, 10, 4), rows: pick(args.rows, 500_000, 20_000) },
            seconds: pick(args.seconds, 20, 3),
            pairs: args.pairs.or(args.quick.then_some(2)),
            memory_mib: pick(args.memory, 2048, 256),
            alter_rows: if args.quick { 100_000 } else { 1_000_000 },
            dropped_tables: if args.quick { 100 } else { 1000 },
            locked_rows: if args.quick { 50_000 } else { 300_000 },
            pool: args.pool,
            binlog: args.binlog,
            sync_delay: args.sync_delay,
        }
    }

    /// Returns the ratio that must be reached, and the one that is aimed at.
    pub(super) fn limits(&self, workload: &Workload) -> (f64, f64) {
        match (self.binlog && workload.durable_writes, self.sync_delay) {
            (false, _) => (workload.must, workload.aim),
            (true, None | Some(0)) => (1.0, 1.4),
            (true, Some(_)) => (1.2, 2.0),
        }
    }
}
