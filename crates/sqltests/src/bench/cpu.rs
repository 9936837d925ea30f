//! The processor time of the plugin for a row: what its C++ and the C interface use themselves.
//! The engine below and the server above are left out. `perf` samples the server.
//!
//! A thread that sleeps in each commit comes back to cold caches, so the same code takes longer.
//! To tell this from the work itself, writes are measured once more while commits do not wait, and
//! the time of the server's own program is shown beside both: no engine has a part in it.

use super::super::server::Server;
use super::super::{output, target};
use super::report::Value;
use super::size::Size;
use super::sysbench::{database, status, without_waiting};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

/// Processor time between two samples, microseconds.
const SAMPLE_US: f64 = 250.0;
const CLIENTS: u32 = 8;
/// Rows of one range that is read.
const RANGE: u32 = 100;

/// What the server counts for each row that an engine reads or changes.
const ROWS: [&str; 10] = [
    "Handler_read_first",
    "Handler_read_key",
    "Handler_read_last",
    "Handler_read_next",
    "Handler_read_prev",
    "Handler_read_rnd",
    "Handler_read_rnd_next",
    "Handler_write",
    "Handler_update",
    "Handler_delete",
];

/// What runs: its name, sysbench's script, and options of it.
const WORK: [(&str, &str, &[&str]); 5] = [
    ("rows by key", "oltp_point_select", &[]),
    (
        "rows of ranges",
        "oltp_read_only",
        &[
            "--skip-trx=on",
            "--point-selects=0",
            "--simple-ranges=10",
            "--sum-ranges=0",
            "--order-ranges=0",
            "--distinct-ranges=0",
        ],
    ),
    ("updates", "oltp_update_non_index", &[]),
    ("updates of an index", "oltp_update_index", &[]),
    ("inserts", "oltp_insert", &[]),
];

/// Scripts that commit nothing.
const READS: [&str; 2] = ["oltp_point_select", "oltp_read_only"];

/// Measures each kind of row. Without `perf` there are no figures.
pub(super) fn measure(server: &Server, size: Size) -> Result<Vec<Value>, String> {
    if Command::new("perf").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("  cpu: perf is not installed (Debian's package linux-perf)");
        return Ok(Vec::new());
    }
    let ours = plugin_symbols()?;
    WORK.iter()
        .map(|(name, script, options)| {
            let run = || sample(server, size, script, options, &ours);
            let durable = run()?;
            let mut value = Value::of_plugin(name, durable.plugin);
            value.beside.push(("server", durable.server));
            if !READS.contains(script) {
                let free = without_waiting(server, run)?;
                value.beside.extend([("not waiting", free.plugin), ("server not waiting", free.server)]);
            }
            Ok(value)
        })
        .collect()
}

/// Microseconds of the processor for a row.
struct Cost {
    /// Of the plugin's C++ and the C interface.
    plugin: f64,
    /// Of the server's own program.
    server: f64,
}

/// Returns the functions of the plugin's C++.
fn plugin_symbols() -> Result<BTreeSet<String>, String> {
    let objects = target().join("objects");
    let mut nm = Command::new("nm");
    nm.arg("--defined-only");
    for file in std::fs::read_dir(&objects).map_err(|e| format!("{}: {e}", objects.display()))? {
        let path = file.map_err(|e| e.to_string())?.path();
        if path.extension().is_some_and(|kind| kind == "o") {
            nm.arg(path);
        }
    }
    let said = output(&mut nm)?;
    let words = said.lines().filter_map(|line| line.split_whitespace().nth(2));
    Ok(words.map(str::to_owned).collect())
}

/// Returns what a row costs during a workload.
fn sample(
    server: &Server,
    size: Size,
    script: &str,
    options: &[&str],
    ours: &BTreeSet<String>,
) -> Result<Cost, String> {
    let data = target().join("perf.data");
    let rows_before = rows(server)?;
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "--event=cpu-clock", "--pid", &server.process()?, "--output"]).arg(&data);
    perf.args(["--count", &format!("{}", (SAMPLE_US * 1000.0) as u64), "--", "sysbench"]);
    perf.args(["--db-driver=mysql", "--mysql-user=root", "--rand-type=uniform", script]).args(options);
    perf.arg(format!("--mysql-socket={}", server.socket.display()));
    perf.arg(format!("--mysql-db={}", database("Millpond"))).arg(format!("--range-size={RANGE}"));
    perf.arg(format!("--tables={}", size.data.tables)).arg(format!("--table-size={}", size.data.rows));
    perf.args([format!("--threads={CLIENTS}"), format!("--time={}", size.seconds), "run".to_owned()]);
    output(&mut perf)?;
    let counted = rows(server)? - rows_before;
    let mut report = Command::new("perf");
    report.args(["report", "--stdio", "--no-children", "--no-demangle", "--fields=sample,dso,symbol"]);
    let said = output(report.args(["--field-separator=|", "--input"]).arg(&data))?;
    let us = |samples: f64| samples * SAMPLE_US / counted.max(1.0);
    Ok(Cost {
        plugin: us(said.lines().filter_map(|line| samples_of(line, ours)).sum()),
        server: us(said.lines().filter_map(samples_of_server).sum()),
    })
}

fn rows(server: &Server) -> Result<f64, String> {
    ROWS.iter().map(|name| status(server, name)).sum()
}

/// The samples, the object and the symbol of a line of perf's report.
fn fields(line: &str) -> Option<(f64, &str, &str)> {
    let mut fields = line.split('|').map(str::trim);
    let (count, object, symbol) = (fields.next()?.parse().ok()?, fields.next()?, fields.next()?);
    Some((count, object, symbol.trim_start_matches("[.]").trim()))
}

/// Returns the samples of a line of perf's report if they belong to the plugin.
fn samples_of(line: &str, ours: &BTreeSet<String>) -> Option<f64> {
    let (count, object, symbol) = fields(line)?;
    let own = ours.contains(symbol) || symbol.starts_with("millpond_") || symbol.contains("12millpond_ffi");
    (object == "ha_millpond.so" && own).then_some(count)
}

/// Returns the samples of a line of perf's report if they belong to the server's program.
fn samples_of_server(line: &str) -> Option<f64> {
    fields(line).filter(|(_, object, _)| *object == "mariadbd").map(|(count, ..)| count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_plugin_and_the_c_interface_count() {
        let ours = BTreeSet::from(["_ZN8millpond7Handler8rnd_nextEPh".to_owned()]);
        let count = |line| samples_of(line, &ours);
        assert_eq!(count(" 12|ha_millpond.so  |[.] _ZN8millpond7Handler8rnd_nextEPh"), Some(12.0));
        assert_eq!(count("3|ha_millpond.so|[.] millpond_get"), Some(3.0));
        assert_eq!(count("3|ha_millpond.so|[.] _ZN12millpond_ffi3row4read17h1E"), Some(3.0));
        assert_eq!(count("9|ha_millpond.so|[.] _ZN8millpond5btree4Tree4leaf17h1E"), None);
        assert_eq!(count("9|mariadbd|[.] millpond_get"), None);
        assert_eq!(count("# Samples: 12"), None);
        assert_eq!(samples_of_server("9|mariadbd|[.] millpond_get"), Some(9.0));
        assert_eq!(samples_of_server("3|ha_millpond.so|[.] millpond_get"), None);
    }
}
