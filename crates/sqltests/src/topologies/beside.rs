//! A load on a server while a replica of it follows.

use super::super::compare::few_beside_a_replica;
use super::super::output;
use super::super::sysbench::sysbench_command;
use super::group::{Group, Setting};

const CLIENTS: u32 = 16;
/// Each for so long.
const SECONDS: u32 = 2;
/// sysbench's workloads that write, the one that also reads included.
const WORKLOADS: [&str; 6] = [
    "oltp_read_write",
    "oltp_write_only",
    "oltp_insert",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_delete",
];

/// The check: random statements, and the tables of the replica after each case.
pub(super) fn statements(setting: &Setting) -> Result<(), String> {
    few_beside_a_replica(&setting.dir)
}

/// The check: sysbench's workloads, and the tables of the replica after each.
pub(super) fn sysbench(group: &Group) -> Result<(), String> {
    group.sql(0, "CREATE DATABASE sb")?;
    let engine = group.sql(0, "SELECT @@default_storage_engine")?;
    let run = |arguments: &[&str]| {
        let mut bench = sysbench_command(group.server(0)?, CLIENTS);
        bench.arg(format!("--mysql-storage-engine={engine}")).arg(format!("--time={SECONDS}"));
        output(bench.args(arguments)).map(drop)
    };
    run(&["oltp_read_write", "prepare"])?;
    for workload in WORKLOADS {
        // Two sessions may insert the same row; such an error ends neither of them.
        run(&["--mysql-ignore-errors=all", workload, "run"])?;
        group.catch_up(1, 0)?;
        group.equal_in("sb", 0, 1).map_err(|why| format!("{workload}: {why}"))?;
    }
    group.sql(0, "DROP DATABASE sb").map(drop)
}
