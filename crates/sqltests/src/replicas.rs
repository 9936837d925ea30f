//! A primary and its replica under load, both killed again and again: in the end they have the same
//! rows.

use super::clients::{self, Killed};
use super::server::{self, Server};
use super::{build_for_tests, make_dir, output, sql};
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A server of a test ends by itself, even if the test is killed.
const LIFE: Duration = Duration::from_secs(3 * 3600);
/// How long the replica may stand still before it has what the primary has, once that gets no load.
/// One thread applies for minutes what many clients have written.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked whether the replica goes on.
const LOOK: Duration = Duration::from_millis(500);
const APPLIERS: u32 = 4;

/// How the replica applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// One thread
    Serial,
    /// Only the commits of transactions in parallel
    Minimal,
    /// What the primary has committed together
    Conservative,
    /// All, with a look back at waits on the primary
    Optimistic,
    /// All
    Aggressive,
}

/// The default engine of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engines {
    /// Millpond on both
    Both,
    /// Millpond on the primary, InnoDB on the replica
    Primary,
    /// InnoDB on the primary, Millpond on the replica
    Replica,
    /// InnoDB on both: what the server itself does
    Neither,
}

impl Engines {
    /// Returns the default engine of a server.
    fn of(self, which: usize) -> &'static str {
        match (self, which) {
            (Engines::Both, _) | (Engines::Primary, PRIMARY) | (Engines::Replica, REPLICA) => "Millpond",
            _ => "InnoDB",
        }
    }
}

/// How.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this mode
    #[arg(long)]
    mode: Option<Mode>,
    /// Only these engines. Without it each but `neither`
    #[arg(long)]
    engines: Option<Engines>,
    /// The first case has this variant of other settings, the next one the next
    #[arg(long, default_value_t = 0)]
    variant: usize,
    /// Seconds under load, for each
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Which are killed
    #[arg(long, value_enum, default_value_t = Killed::Both)]
    kill: Killed,
    /// Seconds between two kills
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    kill_every: u64,
}

/// One run.
#[derive(Clone, Copy, Debug)]
struct Case {
    mode: Mode,
    engines: Engines,
    load: Duration,
    kill: Killed,
    kill_every: Duration,
    /// Chooses between settings of the servers that any run may have.
    variant: usize,
}

/// Runs what was asked for.
pub(super) fn run(args: &Args) -> Result<(), String> {
    build_for_tests()?;
    let modes = args.mode.map_or_else(|| Mode::value_variants().to_vec(), |mode| vec![mode]);
    let three = [Engines::Both, Engines::Primary, Engines::Replica];
    let engines = args.engines.map_or_else(|| three.to_vec(), |one| vec![one]);
    let cases = engines.iter().flat_map(|&engines| modes.iter().map(move |&mode| (mode, engines)));
    super::steps::in_own_directory(|dir| {
        for (n, (mode, engines)) in cases.enumerate() {
            let variant = args.variant + n;
            let [load, kill_every] = [args.seconds, args.kill_every].map(Duration::from_secs);
            let case = Case { mode, engines, load, kill: args.kill, kill_every, variant };
            println!("{}", follow(&dir.join(variant.to_string()), case)?);
        }
        Ok(())
    })
}

/// The test: a replica follows a primary, in a mode that the seed of the commit chooses.
pub(super) fn follows(dir: &Path) -> Result<(), String> {
    let seed = checkout::seed() as usize;
    let (modes, engines) = (Mode::value_variants(), [Engines::Both, Engines::Primary, Engines::Replica]);
    let killed = [Killed::Both, Killed::Primary, Killed::None];
    let case = Case {
        mode: modes[seed % modes.len()],
        engines: engines[seed / 5 % 3],
        load: Duration::from_secs(8),
        kill: killed[seed / 15 % 3],
        kill_every: Duration::from_secs(2),
        variant: seed / 45,
    };
    follow(dir, case).map(|said| println!("        {said}"))
}

/// Runs a case in a directory. Returns what it has seen.
fn follow(dir: &Path, case: Case) -> Result<String, String> {
    make_dir(dir)?;
    let mut pair = Pair::new(dir, case)?;
    let done = pair.run().map_err(|why| format!("{case:?} in {}: {why}", dir.display()));
    for which in [PRIMARY, REPLICA] {
        let stopped = server::stop(&pair.places[which]);
        if done.is_ok() {
            stopped?;
        }
    }
    done
}

const PRIMARY: usize = 0;
const REPLICA: usize = 1;

/// A primary and a replica.
struct Pair {
    case: Case,
    places: [PathBuf; 2],
    options: [Vec<String>; 2],
    servers: [Option<Server>; 2],
    port: u16,
    kills: u32,
}

/// Returns a port of the loopback interface that nobody uses now.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|e| format!("no port is free: {e}"))
}

impl Pair {
    fn new(dir: &Path, case: Case) -> Result<Pair, String> {
        let port = free_port()?;
        let (primary, replica) = (dir.join("primary"), dir.join("replica"));
        let options = [primary_options(case, port), replica_options(case)];
        Ok(Pair { case, places: [primary, replica], options, servers: [None, None], port, kills: 0 })
    }

    fn start(&mut self, which: usize) -> Result<(), String> {
        let options: Vec<&str> = self.options[which].iter().map(String::as_str).collect();
        self.servers[which] = Some(server::start(&self.places[which], LIFE, &options)?);
        Ok(())
    }

    fn server(&self, which: usize) -> Result<&Server, String> {
        self.servers[which].as_ref().ok_or_else(|| "the server does not run".to_owned())
    }

    fn run(&mut self) -> Result<String, String> {
        self.start(PRIMARY)?;
        self.start(REPLICA)?;
        let primary = self.server(PRIMARY)?;
        let user = "CREATE USER replica@'127.0.0.1'; GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'";
        sql(primary, user)?;
        sql(primary, clients::TABLES)?;
        let follow = format!(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={}, MASTER_USER='replica', \
             MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1; START SLAVE",
            self.port
        );
        sql(self.server(REPLICA)?, &follow)?;
        let began = Instant::now();
        let mut turn = 0;
        while began.elapsed() < self.case.load {
            turn += 1;
            let clients = clients::start(self.server(PRIMARY)?, &self.places[PRIMARY], turn, self.case.kill)?;
            self.watch(self.case.kill_every)?;
            match self.case.kill {
                Killed::None => {}
                Killed::Primary => self.kill(PRIMARY)?,
                Killed::Replica => self.kill(REPLICA)?,
                Killed::Both => self.kill(if turn % 2 == 1 { REPLICA } else { PRIMARY })?,
            }
            clients::end(clients);
        }
        self.decide_prepared()?;
        let transactions = self.catch_up()?;
        let tables = compare(self.server(PRIMARY)?, self.server(REPLICA)?)?;
        let Case { mode, engines, .. } = self.case;
        let kills = self.kills;
        Ok(format!(
            "{mode:?}, {engines:?}: {transactions} transactions, {kills} kills, {tables} tables equal"
        ))
    }

    /// Waits under load, and looks whether the replica goes on.
    fn watch(&self, time: Duration) -> Result<(), String> {
        let began = Instant::now();
        while began.elapsed() < time {
            std::thread::sleep(LOOK);
            self.check_replica()?;
        }
        Ok(())
    }

    /// Fails if the replica has stopped with an error.
    fn check_replica(&self) -> Result<(), String> {
        let status = status(self.server(REPLICA)?)?;
        let field = |name: &str| status.get(name).map_or("", String::as_str);
        match (field("Last_SQL_Errno"), field("Last_IO_Errno")) {
            ("0", _) => Ok(()),
            _ => Err(format!("the replica has stopped: {}", field("Last_SQL_Error"))),
        }
    }

    fn kill(&mut self, which: usize) -> Result<(), String> {
        output(Command::new("kill").args(["-9", &self.server(which)?.process()?]))?;
        self.kills += 1;
        self.start(which).map_err(|why| format!("after a kill: {why}"))
    }

    /// Rolls back what XA has prepared on the primary and nobody has decided.
    fn decide_prepared(&self) -> Result<(), String> {
        let primary = self.server(PRIMARY)?;
        for line in sql(primary, "XA RECOVER")?.lines() {
            let name = line.split('\t').nth(3).unwrap_or_default();
            sql(primary, &format!("XA ROLLBACK '{name}'"))?;
        }
        Ok(())
    }

    /// Waits until the replica has all that the primary has. Returns how many transactions that is.
    fn catch_up(&self) -> Result<u64, String> {
        let position = sql(self.server(PRIMARY)?, "SELECT @@gtid_binlog_pos")?;
        let (mut applied, mut moved) = (String::new(), Instant::now());
        let wait = format!("SELECT MASTER_GTID_WAIT('{position}', 2)");
        while sql(self.server(REPLICA)?, &wait)? != "0" {
            self.check_replica()?;
            let now = sql(self.server(REPLICA)?, "SELECT @@gtid_slave_pos")?;
            if now != applied {
                (applied, moved) = (now, Instant::now());
            } else if moved.elapsed() > PATIENCE {
                let found = sql(self.server(REPLICA)?, "SELECT @@gtid_slave_pos; SHOW PROCESSLIST")?;
                return Err(format!("the replica does not reach {position}: {found}"));
            }
        }
        position.rsplit('-').next().and_then(|n| n.parse().ok()).ok_or_else(|| format!("what is {position}"))
    }
}

/// Compares all tables of the database `test` of two servers. Returns how many there are.
pub(super) fn compare(primary: &Server, replica: &Server) -> Result<usize, String> {
    compare_in("test", primary, replica)
}

/// Compares all tables of a database of two servers. Returns how many there are.
pub(super) fn compare_in(database: &str, primary: &Server, replica: &Server) -> Result<usize, String> {
    let names = format!(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = '{database}' \
         AND table_type <> 'VIEW' ORDER BY 1"
    );
    let tables = sql(primary, &names)?;
    same("the tables", &tables, &sql(replica, &names)?)?;
    for table in tables.lines() {
        let columns = format!(
            "SELECT column_name, column_type, column_key FROM information_schema.columns \
             WHERE table_schema = '{database}' AND table_name = '{table}' ORDER BY 1"
        );
        let name = format!("{database}.{table}");
        let rows = format!("CHECKSUM TABLE {name} EXTENDED; SELECT COUNT(*) FROM {name}");
        for look in [columns, rows] {
            same(table, &sql(primary, &look)?, &sql(replica, &look)?)?;
        }
        for server in [primary, replica] {
            let check = sql(server, &format!("CHECK TABLE {name}"))?;
            if !check.ends_with("\tOK") && !check.ends_with("doesn't support check") {
                return Err(format!("CHECK TABLE {name}: {check}"));
            }
        }
    }
    for server in [primary, replica] {
        same("what is prepared", "", &sql(server, "XA RECOVER")?)?;
    }
    Ok(tables.lines().count())
}

fn same(what: &str, primary: &str, replica: &str) -> Result<(), String> {
    if primary == replica {
        return Ok(());
    }
    Err(format!("{what} differ: {primary:?} on the primary, {replica:?} on the replica"))
}

/// Returns the fields of SHOW SLAVE STATUS.
fn status(server: &Server) -> Result<BTreeMap<String, String>, String> {
    let text = output(server.client().args(["--execute", "SHOW SLAVE STATUS\\G"]))?;
    let fields = text.lines().filter_map(|line| line.trim().split_once(": "));
    Ok(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Options that both have. The one number is the server's id.
fn options(id: u32, engine: &str) -> Vec<String> {
    vec![
        format!("--server-id={id}"),
        format!("--default-storage-engine={engine}"),
        "--gtid-strict-mode=1".into(),
        "--sync-binlog=1".into(),
        "--innodb-lock-wait-timeout=5".into(),
        "--millpond-lock-wait-timeout=5".into(),
        "--max-binlog-size=1M".into(),
    ]
}

fn primary_options(case: Case, port: u16) -> Vec<String> {
    let engine = case.engines.of(PRIMARY);
    let format = ["ROW", "MIXED"][case.variant % 2];
    let image = ["FULL", "MINIMAL", "NOBLOB"][case.variant % 3];
    let mut all = options(1, engine);
    all.extend([
        "--log-bin=binlog".into(),
        format!("--binlog-format={format}"),
        format!("--binlog-row-image={image}"),
        // The last of several wins.
        "--skip-networking=0".into(),
        "--bind-address=127.0.0.1".into(),
        format!("--port={port}"),
    ]);
    all
}

fn replica_options(case: Case) -> Vec<String> {
    let engine = case.engines.of(REPLICA);
    let mut all = options(2, engine);
    all.push("--relay-log-recovery=1".into());
    if (case.variant / 2).is_multiple_of(2) {
        all.push(format!("--gtid-pos-auto-engines={engine}"));
    }
    if (case.variant / 4).is_multiple_of(2) {
        all.extend(["--log-bin=binlog".into(), "--log-slave-updates=1".into()]);
    }
    if case.mode != Mode::Serial {
        let mode = format!("{:?}", case.mode).to_lowercase();
        all.extend([format!("--slave-parallel-threads={APPLIERS}"), format!("--slave-parallel-mode={mode}")]);
    }
    all
}
