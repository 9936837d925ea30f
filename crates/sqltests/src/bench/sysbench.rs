//! Tables and runs of sysbench, and the figures of the server that go with them.

use super::super::output;
use super::super::server::Server;
use super::syncs;
use super::workloads::{Kind, Workload};
use std::process::Command;
use std::time::{Duration, Instant};

/// The plugin makes its database with pages of this size.
pub(super) const PAGE_BYTES: f64 = 16384.0;
/// How long InnoDB may take to write its dirty pages.
const PATIENCE: Duration = Duration::from_secs(300);
/// Ticks of a second in `/proc/PID/stat`.
const TICKS: f64 = 100.0;

/// The sysbench tables of one engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    pub(super) tables: u64,
    pub(super) rows: u64,
}

/// The result of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Transactions a second.
    pub(super) rate: f64,
    /// So much time, in milliseconds, 99 of 100 transactions took at most.
    pub(super) p99_ms: f64,
    /// Processor time of the server for a transaction, microseconds.
    pub(super) server_us: f64,
    /// Processor time outside the kernel of the client for a transaction, microseconds.
    pub(super) client_us: f64,
    /// Syncs of the server for a transaction, if they are counted.
    pub(super) syncs: f64,
}

impl Run {
    /// Returns a run of which nothing else is known.
    pub(super) fn of_rate(rate: f64) -> Run {
        Run { rate, p99_ms: f64::NAN, server_us: f64::NAN, client_us: f64::NAN, syncs: f64::NAN }
    }
}

/// Returns the name of the database of an engine.
pub(super) fn database(engine: &str) -> String {
    format!("bench_{}", engine.to_lowercase())
}

fn hot_database(engine: &str) -> String {
    format!("hot_{}", engine.to_lowercase())
}

/// Makes the tables of an engine, and the server's statistics of them.
pub(super) fn prepare(server: &Server, engine: &str, data: Data) -> Result<(), String> {
    make(server, engine, &database(engine), data)
}

/// Makes a table with one row.
pub(super) fn prepare_hot_row(server: &Server, engine: &str) -> Result<(), String> {
    make(server, engine, &hot_database(engine), Data { tables: 1, rows: 1 })
}

/// Makes a database with the tables of an engine.
pub(super) fn make(server: &Server, engine: &str, database: &str, data: Data) -> Result<(), String> {
    let make = format!("DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}");
    output(server.client().args(["--execute", &make]))?;
    let mut prepare = program(server, database, data);
    prepare.arg(format!("--mysql-storage-engine={engine}")).args([
        "--threads=2",
        "oltp_read_write",
        "prepare",
    ]);
    output(&mut prepare)?;
    let tables: Vec<String> = (1..=data.tables).map(|n| format!("{database}.sbtest{n}")).collect();
    output(server.client().args(["--execute", &format!("ANALYZE TABLE {}", tables.join(", "))])).map(drop)
}

/// Returns sysbench with everything that does not depend on the workload.
pub(super) fn program(server: &Server, database: &str, data: Data) -> Command {
    let mut program = Command::new("sysbench");
    program.args(["--db-driver=mysql", "--mysql-user=root", "--rand-type=uniform", "--percentile=99"]);
    program.arg(format!("--mysql-socket={}", server.socket.display()));
    program.arg(format!("--mysql-db={database}"));
    program.args([format!("--tables={}", data.tables), format!("--table-size={}", data.rows)]);
    program
}

/// Runs a workload on an engine's tables for some seconds.
pub(super) fn run(
    server: &Server,
    workload: &Workload,
    engine: &str,
    data: Data,
    seconds: u64,
) -> Result<Run, String> {
    let mut program = match workload.kind {
        Kind::Sysbench { script } | Kind::Idle { script } => {
            let mut program = program(server, &database(engine), data);
            program.arg(script);
            program
        }
        _ => {
            let mut program = program(server, &hot_database(engine), Data { tables: 1, rows: 1 });
            program.arg("oltp_update_non_index");
            program
        }
    };
    program.args([format!("--threads={}", workload.clients), format!("--time={seconds}")]);
    let before = (processor_us(server)?, clients_us()?, syncs::count(&server.data()));
    let said = output(program.arg("run"))?;
    let (server_us, client_us) = (processor_us(server)? - before.0, clients_us()? - before.1);
    let (count, rate) = printed(&said)?;
    let p99_ms = after(&said, "99th percentile:").unwrap_or(f64::NAN);
    let count = count.max(1.0);
    let syncs = (syncs::count(&server.data()) - before.2) / count;
    Ok(Run { rate, p99_ms, server_us: server_us / count, client_us: client_us / count, syncs })
}

/// Returns the rate of one client that changes rows of a database for some seconds.
pub(super) fn updates(server: &Server, database: &str, data: Data, seconds: u64) -> Result<f64, String> {
    let mut program = program(server, database, data);
    program.args(["oltp_update_non_index", "--threads=1", &format!("--time={seconds}"), "run"]);
    Ok(printed(&output(&mut program)?)?.1)
}

fn printed(said: &str) -> Result<(f64, f64), String> {
    transactions(said).ok_or_else(|| format!("sysbench prints no rate: {said}"))
}

/// Returns the first number behind `name`.
fn after(said: &str, name: &str) -> Option<f64> {
    let rest = said.lines().find_map(|line| line.trim().strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Returns how many transactions there were, and how many a second.
fn transactions(said: &str) -> Option<(f64, f64)> {
    let rest = said.lines().find_map(|line| line.trim().strip_prefix("transactions:"))?;
    let mut words = rest.split_whitespace();
    let count = words.next()?.parse().ok()?;
    Some((count, words.next()?.trim_start_matches('(').parse().ok()?))
}

/// Returns the processor time that the server has used so far, microseconds.
pub(super) fn processor_us(server: &Server) -> Result<f64, String> {
    ticks_us(&server.process()?, &[11, 12])
}

/// Returns the processor time outside the kernel of all programs that this one has run to their
/// ends, microseconds.
fn clients_us() -> Result<f64, String> {
    ticks_us("self", &[13])
}

/// Returns the sum of some times of a process, microseconds. The fields of its line in `/proc` are
/// counted from behind its name.
fn ticks_us(process: &str, fields: &[usize]) -> Result<f64, String> {
    let path = format!("/proc/{process}/stat");
    let stat = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    // The name is in parentheses.
    let numbers: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |n: &usize| numbers.get(*n).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0);
    Ok(fields.iter().map(ticks).sum::<f64>() * 1e6 / TICKS)
}

/// Returns the value of a status variable.
pub(super) fn status(server: &Server, name: &str) -> Result<f64, String> {
    let query = format!("SHOW GLOBAL STATUS LIKE '{name}'");
    let said = output(server.client().args(["--batch", "--skip-column-names", "--execute", &query]))?;
    let value = said.split_whitespace().nth(1).and_then(|value| value.parse().ok());
    value.ok_or_else(|| format!("the server has no figure {name}"))
}

/// Makes InnoDB write its dirty pages, and waits for Millpond's purge, so that neither works in the
/// other's time.
pub(super) fn settle(server: &Server) -> Result<(), String> {
    let set = |value: &str| {
        let set = format!("SET GLOBAL innodb_max_dirty_pages_pct = {value}");
        output(server.client().args(["--execute", &set])).map(drop)
    };
    set("0")?;
    let began = Instant::now();
    while status(server, "Innodb_buffer_pool_pages_dirty")? > 0.0 {
        if began.elapsed() > PATIENCE {
            return Err("InnoDB does not write its dirty pages".into());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    while status(server, "Millpond_history_transactions")? > 0.0 {
        if began.elapsed() > PATIENCE {
            return Err("Millpond does not purge".into());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    set("DEFAULT")
}

/// Returns how many pages of Millpond's file are in use.
pub(super) fn pages_in_use(server: &Server) -> Result<f64, String> {
    Ok(status(server, "Millpond_file_pages")? - status(server, "Millpond_free_pages")?)
}

/// Returns the bytes of the files of InnoDB's sysbench tables.
pub(super) fn innodb_bytes(server: &Server) -> Result<f64, String> {
    settle(server)?;
    let dir = server.data().join(database("InnoDB"));
    let files = std::fs::read_dir(&dir).map_err(|e| format!("cannot read {}: {e}", dir.display()))?;
    let mut bytes = 0;
    for file in files {
        let file = file.map_err(|e| e.to_string())?;
        if file.path().extension().is_some_and(|kind| kind == "ibd") {
            bytes += file.metadata().map_err(|e| e.to_string())?.len();
        }
    }
    Ok(bytes as f64)
}

/// Runs something while commits of Millpond do not wait for the log.
pub(super) fn without_waiting<R>(
    server: &Server,
    run: impl FnOnce() -> Result<R, String>,
) -> Result<R, String> {
    let set = |value: u8| {
        let set = format!("SET GLOBAL millpond_flush_log_at_trx_commit = {value}");
        output(server.client().args(["--execute", &set])).map(drop)
    };
    set(0)?;
    let result = run();
    set(1)?;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_found_in_what_sysbench_prints() {
        let said = "    transactions:                        2003   (1000.87 per sec.)\n    \
                    99th percentile:                       21.50\n";
        assert_eq!(transactions(said), Some((2003.0, 1000.87)));
        assert_eq!(after(said, "99th percentile:"), Some(21.5));
        assert_eq!(transactions("FATAL: no"), None);
    }
}
