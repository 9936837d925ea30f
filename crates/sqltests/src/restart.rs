//! How long a killed server needs until it commits durably again, with Millpond and with InnoDB.
//!
//! Each engine has a server of its own, with equal memory, a redo log of the same size and the
//! binary log. Clients write until the engine's redo since its last checkpoint is near the wanted
//! amount, and their commits are not synced; from there on each commit is. Then the server is
//! killed. The time goes from the exec of the new one to the end of the first UPDATE of a row of
//! those tables. The files are in the page cache. Beside it stands the same time after a shutdown.

use super::server::{self, Server};
use super::steps::in_own_directory;
use super::steps::{try_until_within, until};
use super::sysbench::sysbench_command;
use super::{build_for_figures, make_dir, output, sql};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A server of a measurement ends by itself, even if the measurement is killed.
const LIFE: Duration = Duration::from_secs(3 * 3600);
const ENGINES: [&str; 2] = ["Millpond", "InnoDB"];
const CLIENTS: u32 = 16;
/// How long the redo may take to become that much, and how often it is looked at.
const PATIENCE: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_millis(100);
/// Between two tries of an UPDATE.
const TRY: Duration = Duration::from_millis(5);
/// Of the wanted redo so much is made with commits that are not synced.
const UNSYNCED: f64 = 0.9;

/// How much.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Redo since the last checkpoint when the server is killed, MiB
    #[arg(long, default_value_t = 500)]
    redo: u32,
    /// Kills of each engine
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// Rows of each of the four tables
    #[arg(long, default_value_t = 250_000)]
    rows: u32,
    /// Buffer pool of each engine, MiB
    #[arg(long, default_value_t = 2048)]
    memory: u32,
}

/// Measures, and prints.
pub(super) fn run(args: &Args) -> Result<(), String> {
    build_for_figures()?;
    in_own_directory(|dir| {
        make_dir(dir)?;
        let mut ratios = Vec::new();
        for pair in 0..args.pairs {
            let mut seconds = [0.0; 2];
            for turn in [pair, pair + 1] {
                let which = turn as usize % 2;
                let place = dir.join(format!("{}-{pair}", ENGINES[which]));
                seconds[which] = Killed { dir: &place, engine: ENGINES[which], args }.measure()?;
                std::fs::remove_dir_all(&place).map_err(|e| format!("{}: {e}", place.display()))?;
            }
            ratios.push(seconds[0] / seconds[1]);
        }
        ratios.sort_by(f64::total_cmp);
        println!("Millpond's time over InnoDB's: {:.2} ({ratios:.2?})", ratios[ratios.len() / 2]);
        Ok(())
    })
}

/// A server that is killed.
struct Killed<'a> {
    dir: &'a Path,
    engine: &'static str,
    args: &'a Args,
}

impl Killed<'_> {
    /// Returns the seconds from a start to the first commit.
    fn measure(&self) -> Result<f64, String> {
        let server = self.start(&[])?;
        sql(&server, "CREATE DATABASE sb")?;
        output(self.sysbench(&server).args(["oltp_write_only", "prepare"]))?;
        let (age, logged) = self.load_and_kill(&server)?;
        let (server, seconds) = self.first_update(&server)?;
        let checked = sql(&server, "CHECK TABLE sb.sbtest1, sb.sbtest2, sb.sbtest3, sb.sbtest4")?;
        server::stop(self.dir)?;
        if checked.matches("\tOK").count() != 4 {
            return Err(format!("after a kill of {}: {checked}", self.engine));
        }
        let (_, least) = self.first_update(&server)?;
        server::stop(self.dir)?;
        println!(
            "{}: {seconds:.3} s after a kill, {least:.3} s after a shutdown; redo {:.0} MiB, binary log {:.0} MiB",
            self.engine,
            mib(age),
            mib(logged)
        );
        Ok(seconds)
    }

    /// Starts the server. Returns the seconds until it has updated a row.
    fn first_update(&self, server: &Server) -> Result<(Server, f64), String> {
        let began = self.dir.join("began");
        // The time stands there before the server's program is executed.
        let note = format!("date +%s.%N > '{}'; exec \"$@\"", began.display());
        let watcher = ["sh", "-c", &note, "sh"].map(str::to_owned);
        let started = std::thread::scope(|scope| {
            let starting = scope.spawn(|| self.start(&watcher));
            self.update_until_done(server)?;
            let ended = now();
            let server = starting.join().map_err(|_| "the thread that starts the server has ended")??;
            Ok::<_, String>((server, ended))
        });
        let (server, ended) = started?;
        let text = std::fs::read_to_string(&began).map_err(|e| format!("{}: {e}", began.display()))?;
        let began: f64 = text.trim().parse().map_err(|e| format!("{text}: {e}"))?;
        Ok((server, ended - began))
    }

    fn start(&self, watcher: &[String]) -> Result<Server, String> {
        let memory =
            ENGINES.map(|name| format!("--{}-buffer-pool-size={}M", name.to_lowercase(), self.args.memory));
        let redo = 4 * u64::from(self.args.redo);
        let size = [format!("--innodb-log-file-size={redo}M"), format!("--millpond-redo-capacity={redo}M")];
        let options = [
            "--log-bin=binlog",
            "--server-id=1",
            "--sync-binlog=1",
            "--binlog-format=ROW",
            "--innodb-flush-neighbors=0",
            "--innodb-flush-method=O_DIRECT",
            "--innodb-io-capacity=10000",
            "--innodb-max-dirty-pages-pct=99",
            "--innodb-adaptive-flushing-lwm=70",
            memory[0].as_str(),
            memory[1].as_str(),
            size[0].as_str(),
            size[1].as_str(),
        ];
        server::start_under(watcher, self.dir, LIFE, &options)
    }

    fn sysbench(&self, server: &Server) -> Command {
        let mut bench = sysbench_command(server, CLIENTS);
        bench.args([
            format!("--mysql-storage-engine={}", self.engine),
            format!("--table-size={}", self.args.rows),
            "--rand-type=uniform".to_owned(),
        ]);
        bench
    }

    /// Returns the redo since the checkpoint and the size of the binary log at the kill, in bytes.
    fn load_and_kill(&self, server: &Server) -> Result<(f64, f64), String> {
        let wanted = f64::from(self.args.redo) * f64::from(1 << 20);
        let durable = |value: u8| {
            sql(
                server,
                &format!(
                    "SET GLOBAL sync_binlog = {value}, innodb_flush_log_at_trx_commit = {value}, \
                     millpond_flush_log_at_trx_commit = {value}"
                ),
            )
        };
        durable(0)?;
        let load = Load::start(self.sysbench(server))?;
        let until_age =
            |bytes: f64| try_until_within("so much redo", PATIENCE, LOOK, || Ok(self.redo(server)? >= bytes));
        until_age(UNSYNCED * wanted)?;
        durable(1)?;
        until_age(wanted)?;
        let (age, logged) = (self.redo(server)?, sql(server, "SHOW BINARY LOGS")?);
        let process = server.process()?;
        output(Command::new("kill").args(["-9", &process]))?;
        until("the end of a killed server", || !Path::new("/proc").join(&process).exists())?;
        drop(load);
        let sizes = logged.lines().filter_map(|line| line.split('\t').nth(1)?.parse::<f64>().ok());
        Ok((age, sizes.sum()))
    }

    /// Returns the redo since the last checkpoint, in bytes.
    fn redo(&self, server: &Server) -> Result<f64, String> {
        let name = format!("{}_checkpoint_age", self.engine);
        let said = sql(server, &format!("SHOW GLOBAL STATUS LIKE '{name}%'"))?;
        let value = said.split_whitespace().nth(1).and_then(|value| value.parse().ok());
        value.ok_or_else(|| format!("the server has no figure {name}"))
    }

    /// Tries to update a row until the server has done it.
    fn update_until_done(&self, server: &Server) -> Result<(), String> {
        let update = "UPDATE sb.sbtest1 SET k = k + 1 WHERE id = 1";
        try_until_within("an UPDATE", PATIENCE, TRY, || Ok(sql(server, update).is_ok()))
    }
}

/// A running load. It ends with this.
struct Load(Child);

impl Load {
    fn start(mut bench: Command) -> Result<Load, String> {
        bench.args(["--time=3000", "oltp_write_only", "run"]);
        bench.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        bench.spawn().map(Load).map_err(|e| format!("cannot start sysbench: {e}"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}
