//! How fast a replica applies a backlog of writes, with Millpond and with InnoDB.
//!
//! The primary gets writes of sysbench while the replica is stopped. When the replica has received
//! all of them, its appliers start, and the time is taken until they have ended. The engines take
//! turns. Both servers have both engines, and every commit is synced, in the binary logs too.

use super::super::steps::in_own_directory;
use super::super::steps::try_until;
use super::super::sysbench::sysbench_command;
use super::super::{build_for_figures, output};
use super::group::{Group, Setting};
use std::time::Instant;

const ENGINES: [&str; 2] = ["Millpond", "InnoDB"];
/// Clients of the primary.
const CLIENTS: u32 = 16;
/// How the replica applies: the name, its threads and their mode.
const MODES: [(&str, u32, &str); 2] =
    [("optimistic, 4 threads", 4, "optimistic"), ("serial", 0, "conservative")];

/// How much.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of writes, for each backlog
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Backlogs of each engine, for each mode
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Rows of each of the four tables
    #[arg(long, default_value_t = 100_000)]
    rows: u32,
    /// Buffer pool of each engine, MiB
    #[arg(long, default_value_t = 512)]
    memory: u32,
}

/// Measures, and prints.
pub(in super::super) fn run(args: &Args) -> Result<(), String> {
    build_for_figures()?;
    in_own_directory(|dir| {
        let setting = Setting { dir: dir.to_owned(), engine: "Millpond".to_owned() };
        let memory =
            ENGINES.map(|name| format!("--{}-buffer-pool-size={}M", name.to_lowercase(), args.memory));
        let options = [memory[0].as_str(), memory[1].as_str(), "--innodb-log-file-size=1G"];
        let group = Group::start(&setting, &[&options, &options])?;
        group.follow(1, 0, "")?;
        for engine in ENGINES {
            let name = database(engine);
            group.sql(0, &format!("CREATE DATABASE {name}"))?;
            output(sysbench(&group, engine, args)?.args(["oltp_write_only", "prepare"]))?;
        }
        group.catch_up(1, 0)?;
        MODES.into_iter().try_for_each(|mode| measure(&group, mode, args))
    })
}

fn database(engine: &str) -> String {
    format!("bench_{}", engine.to_lowercase())
}

/// Returns sysbench for the tables of an engine on the primary. Of an option that comes twice the
/// last one counts.
fn sysbench(group: &Group, engine: &str, args: &Args) -> Result<std::process::Command, String> {
    let mut bench = sysbench_command(group.server(0)?, CLIENTS);
    bench.args([
        format!("--mysql-db={}", database(engine)),
        format!("--mysql-storage-engine={engine}"),
        format!("--table-size={}", args.rows),
        format!("--time={}", args.seconds),
        "--rand-type=uniform".to_owned(),
    ]);
    Ok(bench)
}

/// Measures in one mode, and prints the rates and the median of the ratios.
fn measure(group: &Group, (name, threads, mode): (&str, u32, &str), args: &Args) -> Result<(), String> {
    let set =
        format!("SET GLOBAL slave_parallel_threads = {threads}; SET GLOBAL slave_parallel_mode = {mode}");
    group.sql(1, &format!("STOP SLAVE; {set}"))?;
    let (mut ratios, mut rates) = (Vec::new(), [Vec::new(), Vec::new()]);
    for pair in 0..args.pairs {
        for turn in [pair, pair + 1] {
            let which = turn as usize % 2;
            rates[which].push(backlog(group, ENGINES[which], args)?);
        }
        let [ours, theirs] = rates.each_ref().map(|of| of.last().copied().unwrap_or(f64::NAN));
        ratios.push(ours / theirs);
    }
    let [ours, theirs] = rates.map(median);
    println!(
        "{name}: Millpond {ours:.0}, InnoDB {theirs:.0} transactions a second, ratio {:.2} ({:.2?})",
        median(ratios.clone()),
        ratios
    );
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Makes a backlog, and returns at what rate the replica, which is stopped, applies it.
fn backlog(group: &Group, engine: &str, args: &Args) -> Result<f64, String> {
    let last = || -> Result<u64, String> {
        let position = group.sql(0, "SELECT @@gtid_binlog_pos")?;
        position.rsplit('-').next().and_then(|n| n.parse().ok()).ok_or_else(|| format!("what is {position}"))
    };
    let before = last()?;
    output(sysbench(group, engine, args)?.args(["oltp_write_only", "run"]))?;
    let transactions = last()? - before;
    group.sql(1, "START SLAVE IO_THREAD")?;
    let position = group.sql(0, "SELECT @@gtid_binlog_pos")?;
    try_until("the relay log", || Ok(group.status(1, "Gtid_IO_Pos")? == position))?;
    let began = Instant::now();
    group.sql(1, "START SLAVE SQL_THREAD")?;
    group.catch_up(1, 0)?;
    let seconds = began.elapsed().as_secs_f64();
    group.sql(1, "STOP SLAVE")?;
    group.equal_in(&database(engine), 0, 1)?;
    Ok(transactions as f64 / seconds)
}
