//! `cargo xtask mariadb bench`: figures beside InnoDB, in the same server.
//!
//! A private server has the same tables in both engines, with equal memory. A workload runs in
//! pairs: one engine after the other, the order alternating, and the other engine's dirty pages
//! written before. The figure is the median of the pairs' ratios. This is done once with InnoDB
//! tuned for writes and once with InnoDB's defaults. BLACKHOLE and MEMORY run beside some
//! workloads: they show what the server itself costs.
//!
//! Figures from a machine that does other work at the same time mean little.

mod alter;
mod args;
mod cpu;
mod drop;
mod ideal_log;
mod idle;
mod locking;
mod report;
mod size;
mod stats;
mod syncs;
mod sysbench;
mod workloads;

use super::packages::install;
use super::server::{self, Server};
use super::{make_dir, output, target};
pub(crate) use args::Args;
use report::{Row, Value};
use size::Size;
use std::time::Duration;
use sysbench::Data;
use workloads::{Kind, Workload};

/// A server of a benchmark ends by itself, even if the benchmark is killed.
const LIFE: Duration = Duration::from_secs(6 * 3600);

/// The name of the run in which commits of Millpond do not wait for the log. It does all the work
/// of the server and of the engine but the wait. So nothing that makes the wait cheaper brings a
/// durable run beyond it.
const NOT_WAITING: &str = "not waiting";

/// The rate that an ideal log would leave of [`NOT_WAITING`], by a model: see [`ideal_log`].
const IDEAL_LOG: &str = "ideal log";
/// The same, and the work takes as much longer as the client's own code did.
const IDEAL_LOG_COLD: &str = "ideal log, cold";

/// How many times as long the client's own code takes for a transaction if commits wait.
const CLIENT_SLOWER: &str = "client slower";

/// The binary log of `--binlog`.
const BINLOG: [&str; 4] = ["--log-bin=binlog", "--server-id=1", "--sync-binlog=1", "--binlog-format=ROW"];

/// The engine that keeps nothing, a part of Debian's package mariadb-server.
const BLACKHOLE: &str = "/usr/lib/mysql/plugin/ha_blackhole.so";

/// How InnoDB is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rival {
    Tuned,
    Defaults,
}

impl Rival {
    fn name(self) -> &'static str {
        match self {
            Rival::Tuned => "InnoDB tuned",
            Rival::Defaults => "InnoDB defaults",
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Rival::Tuned => &[
                "--innodb-log-file-size=4G",
                "--innodb-flush-neighbors=0",
                "--innodb-io-capacity=10000",
                "--innodb-io-capacity-max=20000",
                "--innodb-flush-method=O_DIRECT",
            ],
            Rival::Defaults => &[],
        }
    }
}

/// Runs the workloads, prints a table of their figures and writes them as JSON.
pub(super) fn run(args: &Args) -> Result<(), String> {
    if args.sync_delay.is_some() {
        install(&[syncs::PACKAGE])?;
    }
    let wanted = workloads::named(&args.workloads)?;
    let size = Size::of(args);
    let rivals: &[Rival] =
        if args.quick || args.tuned { &[Rival::Tuned] } else { &[Rival::Tuned, Rival::Defaults] };
    let mut rows = Vec::new();
    for &rival in rivals {
        rows.extend(against(rival, &wanted, size)?);
    }
    let json = args.json.clone().unwrap_or_else(|| target().join("bench.json"));
    report::write_json(&json, &rows, size)?;
    println!("\n{}", report::table(&rows));
    println!("as JSON: {}", json.display());
    Ok(())
}

/// Runs the workloads in a server of their own.
fn against(rival: Rival, wanted: &[&'static Workload], size: Size) -> Result<Vec<Row>, String> {
    let dir = std::env::temp_dir().join(format!("millpond-bench-{}", std::process::id()));
    let memory = [
        format!("--innodb-buffer-pool-size={}M", size.memory_mib),
        format!("--millpond-buffer-pool-size={}M", size.memory_mib),
        "--max-heap-table-size=4G".to_owned(),
        format!("--max-connections={}", idle::CONNECTIONS + 600),
    ];
    let mut options: Vec<&str> = memory.iter().map(String::as_str).collect();
    options.extend(rival.options());
    options.extend(size.pool.then_some("--thread-handling=pool-of-threads"));
    // The private server looks for plugins only in its own directory.
    let plugins = dir.join("plugin");
    make_dir(&plugins)?;
    match std::fs::copy(BLACKHOLE, plugins.join("ha_blackhole.so")) {
        Ok(_) => options.push("--plugin-load-add=ha_blackhole.so"),
        Err(_) => println!("there is no {BLACKHOLE}, so BLACKHOLE is left out"),
    }
    options.extend(size.binlog.then_some(BINLOG).into_iter().flatten());
    let watcher = size.sync_delay.map(|delay| syncs::watcher(&dir, delay)).unwrap_or_default();
    let server = server::start_under(&watcher, &dir, LIFE, &options)?;
    let measured = Bench { server: &server, rival, size }.measure_all(wanted);
    let stopped = server::stop(&dir);
    let _ = std::fs::remove_dir_all(&dir);
    stopped.and(measured)
}

/// The workloads against one server.
struct Bench<'s> {
    server: &'s Server,
    rival: Rival,
    size: Size,
}

impl Bench<'_> {
    fn measure_all(&self, wanted: &[&'static Workload]) -> Result<Vec<Row>, String> {
        println!("{}:", self.rival.name());
        let needs = |kind: fn(&Kind) -> bool| wanted.iter().any(|workload| kind(&workload.kind));
        let mut space = None;
        if needs(Kind::uses_tables) {
            let pages = sysbench::pages_in_use(self.server)?;
            sysbench::prepare(self.server, "Millpond", self.size.data)?;
            let bytes = (sysbench::pages_in_use(self.server)? - pages) * sysbench::PAGE_BYTES;
            sysbench::prepare(self.server, "InnoDB", self.size.data)?;
            space = Some((bytes, sysbench::innodb_bytes(self.server)?));
        }
        for engine in ["Millpond", "InnoDB"] {
            if needs(|kind| matches!(kind, Kind::HotRow)) {
                sysbench::prepare_hot_row(self.server, engine)?;
            }
        }
        let mut rows = Vec::new();
        for workload in wanted {
            let values = match workload.kind {
                Kind::Sysbench { .. } | Kind::HotRow => self.rates(workload)?,
                Kind::Idle { .. } => {
                    vec![idle::measure(self.server, workload, self.pairs(workload), self.size)?]
                }
                Kind::Alter => vec![alter::measure(self.server, self.pairs(workload), self.size.alter_rows)?],
                Kind::Drop => {
                    vec![drop::measure(self.server, self.pairs(workload), self.size.dropped_tables)?]
                }
                Kind::Locking => locking::measure(self.server, self.pairs(workload), self.size.locked_rows)?,
                Kind::Space => {
                    space.map(|(ours, theirs)| Value::of_one("bytes", ours, theirs)).into_iter().collect()
                }
                // InnoDB has no part in it.
                Kind::Cpu if self.rival == Rival::Tuned => cpu::measure(self.server, self.size)?,
                Kind::Cpu => Vec::new(),
            };
            for value in values {
                let limits = match value.is_of_syncs() {
                    true => syncs::LIMITS,
                    false => self.size.limits(workload),
                };
                let row = Row { rival: self.rival.name(), workload, limits, value };
                println!("  {}", row.line());
                rows.push(row);
            }
        }
        Ok(rows)
    }

    fn pairs(&self, workload: &Workload) -> usize {
        self.size.pairs.unwrap_or(workload.pairs)
    }

    /// Runs a workload in pairs, and once each what shows its limits: commits that do not wait, and
    /// the server's own engine.
    fn rates(&self, workload: &Workload) -> Result<Vec<Value>, String> {
        let run = |engine: &str, seconds| {
            sysbench::settle(self.server)?;
            sysbench::run(self.server, workload, engine, self.size.data, seconds)
        };
        for engine in ["Millpond", "InnoDB"] {
            run(engine, 2)?;
        }
        let mut value = Value::new("a second");
        for pair in 0..self.pairs(workload) {
            let order = if pair % 2 == 0 { ["Millpond", "InnoDB"] } else { ["InnoDB", "Millpond"] };
            for engine in order {
                value.add(engine, run(engine, self.size.seconds)?);
            }
        }
        if workload.durable_writes && !self.size.binlog && self.size.sync_delay.is_none() {
            let free = sysbench::without_waiting(self.server, || run("Millpond", self.size.seconds))?;
            let slower = value.client_slower_than(&free).unwrap_or(1.0).max(1.0);
            let dir = std::env::temp_dir().join(format!("millpond-ideal-log-{}", std::process::id()));
            let ideal = ideal_log::commits(workload.clients, free.rate, slower, &dir);
            let _ = std::fs::remove_dir_all(&dir);
            let ideal = ideal?;
            value.beside.extend([(NOT_WAITING, free.rate), (CLIENT_SLOWER, slower)]);
            value.beside.extend([(IDEAL_LOG, ideal.rate), (IDEAL_LOG_COLD, ideal.cold)]);
        }
        let engines = output(self.server.client().args(["--execute", "SHOW ENGINES"]))?;
        if let Some(engine) = workload.beside.filter(|engine| engines.contains(engine)) {
            sysbench::prepare(
                self.server,
                engine,
                Data { rows: self.size.data.rows.min(50_000), ..self.size.data },
            )?;
            run(engine, 1)?;
            value.beside.push((engine, run(engine, self.size.seconds)?.rate));
            let drop_it = format!("DROP DATABASE {}", sysbench::database(engine));
            output(self.server.client().args(["--execute", &drop_it]))?;
        }
        let syncs = value.syncs();
        Ok(std::iter::once(value).chain(syncs).collect())
    }
}
