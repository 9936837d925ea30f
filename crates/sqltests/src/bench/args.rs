//! The command line.

use std::path::PathBuf;

/// The command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Small tables, short runs, InnoDB tuned only: shows that it works, and gross changes
    #[arg(long)]
    pub(super) quick: bool,
    /// Rows of each sysbench table; the default is 500000, or 20000 with --quick
    #[arg(long)]
    pub(super) rows: Option<u64>,
    /// sysbench tables; the default is 10, or 4 with --quick
    #[arg(long)]
    pub(super) tables: Option<u64>,
    /// Seconds of one run; the default is 20, or 3 with --quick
    #[arg(long)]
    pub(super) seconds: Option<u64>,
    /// Pairs of runs; the default is 5, and 9 for reads, or 2 with --quick
    #[arg(long)]
    pub(super) pairs: Option<usize>,
    /// Buffer pool of each engine, MiB; the default is 2048, or 256 with --quick
    #[arg(long)]
    pub(super) memory: Option<u64>,
    /// Where the figures go as JSON; the default is target/mariadb/bench.json
    #[arg(long)]
    pub(super) json: Option<PathBuf>,
    /// Only InnoDB tuned
    #[arg(long)]
    pub(super) tuned: bool,
    /// With the binary log, by rows, synced for each commit
    #[arg(long)]
    pub(super) binlog: bool,
    /// Count the server's syncs, and make each take so many microseconds longer; needs strace
    #[arg(long, value_name = "MICROSECONDS")]
    pub(super) sync_delay: Option<u32>,
    /// Connections share the threads of MariaDB's thread pool
    #[arg(long)]
    pub(super) pool: bool,
    /// Only these workloads; an unknown name prints all names
    pub(super) workloads: Vec<String>,
}
