//! How fast `millpond run --target` drives a server, beside sysbench: the same statements on the
//! same tables, one after the other in turns. The figure is the median of the pairs' ratios.

use super::places::Profile;
use super::server::{self, Server};
use super::steps::{build_program, in_own_directory};
use super::{build_for_figures, output};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A server of a measurement ends by itself, even if the measurement is killed.
const LIFE: Duration = Duration::from_secs(3600);
/// The workloads, and sysbench's names of them.
const WORKLOADS: [(&str, &str); 2] = [("point-select", "oltp_point_select"), ("insert", "oltp_insert")];

/// How much, and by how many clients.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Engine of the tables
    #[arg(long, default_value = "InnoDB")]
    engine: String,
    /// Clients
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    threads: u32,
    /// Seconds of each run
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Pairs of runs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pairs: u32,
    /// Tables
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    tables: u32,
    /// Rows of each table
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    rows: u32,
}

/// Measures both in a server of their own.
pub(super) fn run(args: &Args) -> Result<(), String> {
    build_for_figures()?;
    let program = build_program(Profile::Release)?;
    in_own_directory(|dir| {
        let place = dir.join("server");
        let options = [
            "--innodb-buffer-pool-size=1G",
            "--innodb-log-file-size=1G",
            "--max-connections=1100",
            "--millpond-buffer-pool-size=1G",
        ];
        let server = server::start(&place, LIFE, &options)?;
        let drivers = Drivers { program: &program, dir, server: &server, args };
        let measured = WORKLOADS.iter().try_for_each(|workload| drivers.measure(*workload));
        measured.and(server::stop(&place))
    })
}

struct Drivers<'a> {
    program: &'a Path,
    dir: &'a Path,
    server: &'a Server,
    args: &'a Args,
}

impl Drivers<'_> {
    /// Loads the tables of a workload, and runs it in pairs.
    fn measure(&self, (workload, script): (&str, &str)) -> Result<(), String> {
        // The load is the program's own; sysbench finds its tables there.
        self.millpond(workload, 1)?;
        println!("{workload}, {} clients, {}", self.args.threads, self.args.engine);
        println!("{:>12} {:>12} {:>7}", "sysbench", "millpond", "ratio");
        let mut ratios = Vec::new();
        for pair in 0..self.args.pairs {
            let (ours, theirs);
            if pair % 2 == 0 {
                theirs = self.sysbench(workload, script)?;
                ours = self.millpond(workload, self.args.seconds)?;
            } else {
                ours = self.millpond(workload, self.args.seconds)?;
                theirs = self.sysbench(workload, script)?;
            }
            println!("{theirs:>12.0} {ours:>12.0} {:>7.2}", ours / theirs);
            ratios.push(ours / theirs);
        }
        ratios.sort_by(f64::total_cmp);
        println!("{:>12} {:>12} {:>7.2}  median", "", "", ratios[ratios.len() / 2]);
        Ok(())
    }

    /// Returns the rate of `millpond run`, transactions a second.
    fn millpond(&self, workload: &str, seconds: u64) -> Result<f64, String> {
        let json = self.dir.join("run.json");
        let target = format!("mysql://root@localhost/?socket={}", self.server.socket.display());
        let Args { engine, threads, tables, rows, .. } = self.args;
        let mut command = Command::new(self.program);
        command.args(["run", workload, "--target", &target, "--engine", engine, "--keep", "--warmup", "0"]);
        command.args(["--schema", &schema(workload), "--threads", &threads.to_string()]);
        command.args(["--tables", &tables.to_string(), "--rows", &rows.to_string()]);
        command.args(["--seconds", &seconds.to_string()]).arg("--json").arg(&json);
        output(command.env("HOME", self.dir).env_remove("MYSQL_PWD"))?;
        let text = std::fs::read_to_string(&json).map_err(|e| format!("{}: {e}", json.display()))?;
        let result: Value = serde_json::from_str(&text).map_err(|e| format!("{text}: {e}"))?;
        result.get("tps").and_then(Value::as_f64).ok_or_else(|| format!("no rate in {text}"))
    }

    /// Returns the rate of sysbench, transactions a second.
    fn sysbench(&self, workload: &str, script: &str) -> Result<f64, String> {
        let Args { threads, seconds, tables, rows, .. } = self.args;
        let mut command = Command::new("sysbench");
        command.args(["--db-driver=mysql", "--mysql-user=root", "--rand-type=uniform"]);
        command.arg(format!("--mysql-socket={}", self.server.socket.display()));
        command.arg(format!("--mysql-db={}", schema(workload)));
        command.args([format!("--tables={tables}"), format!("--table-size={rows}")]);
        command.args([format!("--threads={threads}"), format!("--time={seconds}")]);
        let said = output(command.args([script, "run"]))?;
        let rate = said.lines().find_map(|line| line.trim().strip_prefix("transactions:"));
        let rate = rate.and_then(|rest| rest.split_once('(')?.1.split_whitespace().next()?.parse().ok());
        rate.ok_or_else(|| format!("sysbench prints no rate: {said}"))
    }
}

/// Returns the schema of a workload's tables.
fn schema(workload: &str) -> String {
    workload.replace('-', "_")
}
