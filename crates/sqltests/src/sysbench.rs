//! sysbench against a private server: the size of its tables, its options, and whether the tables'
//! indexes agree.

use super::output;
use super::server::Server;
use std::process::Command;

const TABLES: u32 = 4;
const ROWS: u32 = 10_000;

/// Returns sysbench with the options of all its commands.
pub(super) fn sysbench_command(server: &Server, threads: u32) -> Command {
    let mut bench = Command::new("sysbench");
    bench.args([
        "--db-driver=mysql",
        "--mysql-user=root",
        "--mysql-db=sb",
        "--mysql-storage-engine=Millpond",
    ]);
    bench.arg(format!("--mysql-socket={}", server.socket.display()));
    bench.args([
        format!("--tables={TABLES}"),
        format!("--table-size={ROWS}"),
        format!("--threads={threads}"),
    ]);
    bench
}

/// Checks that the primary key and the index `k` of each table have the same rows.
pub(super) fn compare_indexes(server: &Server) -> Result<(), String> {
    for table in 1..=TABLES {
        let sums = |index: &str| {
            let query = format!(
                "SELECT COUNT(*), SUM(CRC32(CONCAT(id, ':', k))) FROM sb.sbtest{table} FORCE INDEX ({index}) \
                 WHERE k > -1 AND id > -1"
            );
            output(server.client().args(["--batch", "--skip-column-names", "--execute", &query]))
        };
        let (rows, entries) = (sums("PRIMARY")?, sums(&format!("k_{table}"))?);
        if rows != entries {
            return Err(format!("sbtest{table}: the rows are {rows:?}, the index has {entries:?}"));
        }
    }
    Ok(())
}
