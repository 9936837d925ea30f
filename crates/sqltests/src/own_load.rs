//! What `serve` and `collect` cost a server: its processor time and its statements, with the
//! program and without it. The difference is the figure, because a server that nobody asks works
//! a little too.

use super::places::Profile;
use super::server::{self, Server};
use super::steps::in_own_directory;
use super::steps::{build_program, until};
use super::{build_for_figures, output};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server of a measurement ends by itself, even if the measurement is killed.
const LIFE: Duration = Duration::from_secs(3600);
/// Time for a program to connect and to learn what the server is; that is not measured.
const WARM_UP: Duration = Duration::from_secs(3);
/// The most that a program may ask a server: statements a second.
pub(super) const STATEMENTS_A_SECOND: f64 = 3.0;
/// The most that it may cost the server: a share of a core.
const CORE: f64 = 0.01;
/// What the program `mariadb` asks by itself when it connects.
const STATEMENTS_TO_CONNECT: f64 = 1.0;

/// How long, and beside whom.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// For how long each state is measured
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Open connections besides: the server adds up the status of each for every sample
    #[arg(long, default_value_t = 0)]
    connections: usize,
    /// Only this command of the program
    #[arg(long, value_parser = ["serve", "collect"])]
    only: Option<String>,
}

/// Measures a server without the program, with `serve` and with `collect`.
pub(super) fn run(args: &Args) -> Result<(), String> {
    build_for_figures()?;
    let program = build_program(Profile::Release)?;
    in_own_directory(|dir| {
        let place = dir.join("server");
        let server =
            server::start(&place, LIFE, &["--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M"])?;
        measure(dir, &program, &server, args).and(server::stop(&place))
    })
}

fn measure(dir: &Path, program: &Path, server: &Server, args: &Args) -> Result<(), String> {
    let _idle: Vec<Running> =
        (0..args.connections).map(|_| Running::spawn(&mut server.client())).collect::<Result<_, _>>()?;
    until("the connections", || connections(server).is_ok_and(|open| open > args.connections))?;
    let target = format!("mysql://root@localhost/?socket={}", server.socket.display());
    let alone = cost(server, args.seconds)?;
    println!("{:8} {:5.2} % of a core", "alone", 100.0 * alone.core);
    let out = dir.join("collected").display().to_string();
    let commands: [(&str, &[&str]); 2] = [
        ("serve", &["serve", &target, "--listen", "127.0.0.1:0"]),
        ("collect", &["collect", &target, "--out", &out]),
    ];
    for (name, arguments) in commands {
        if args.only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        let mut command = Command::new(program);
        command.args(arguments).env("HOME", dir).env_remove("MYSQL_PWD");
        let mut running = Running::spawn(&mut command)?;
        std::thread::sleep(WARM_UP);
        let with = cost(server, args.seconds)?;
        if running.0.try_wait().map_err(|e| e.to_string())?.is_some() {
            return Err(format!("{name} has ended"));
        }
        drop(running);
        let own = with.core - alone.core;
        println!(
            "{name:8} {:5.2} % of a core; {:.2} % more than alone; {:.2} statements a second",
            100.0 * with.core,
            100.0 * own,
            with.statements
        );
        if own > CORE || with.statements > STATEMENTS_A_SECOND || with.statements < 0.5 {
            return Err(format!("{name} costs the server more than it may, or asks nothing"));
        }
    }
    Ok(())
}

/// A process that is interrupted in the end, as by Ctrl-C.
struct Running(Child);

impl Running {
    fn spawn(command: &mut Command) -> Result<Running, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let quiet = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.spawn().map(Running).map_err(|e| format!("cannot start {name}: {e}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = output(Command::new("kill").args(["-INT", &self.0.id().to_string()]));
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// What a server has done in some seconds.
pub(super) struct Cost {
    /// The share of a core that it used.
    pub(super) core: f64,
    /// Statements a second that others than this measurement sent.
    pub(super) statements: f64,
}

/// Watches a server for some seconds.
pub(super) fn cost(server: &Server, seconds: u64) -> Result<Cost, String> {
    let questions = || status(server, "Questions");
    let (before, began) = (questions()?, Instant::now());
    let cpu = cpu_seconds(server)?;
    std::thread::sleep(Duration::from_secs(seconds));
    let (cpu, seconds) = (cpu_seconds(server)? - cpu, began.elapsed().as_secs_f64());
    // The second look is a statement too, and its client asks more when it connects.
    let statements = questions()? - before - 1.0 - STATEMENTS_TO_CONNECT;
    Ok(Cost { core: cpu / seconds, statements: statements / seconds })
}

fn connections(server: &Server) -> Result<usize, String> {
    status(server, "Threads_connected").map(|open| open as usize)
}

fn status(server: &Server, name: &str) -> Result<f64, String> {
    let query = format!("SHOW GLOBAL STATUS LIKE '{name}'");
    let said = output(server.client().args(["--batch", "--skip-column-names", "--execute", &query]))?;
    let value = said.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    value.ok_or_else(|| format!("the server has no {name}"))
}

/// Returns the processor time of a server, of ended threads too. The kernel tells it in hundredths.
fn cpu_seconds(server: &Server) -> Result<f64, String> {
    let file = format!("/proc/{}/stat", server.process()?);
    let stat = std::fs::read_to_string(&file).map_err(|e| format!("{file}: {e}"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|number| number.parse::<f64>().ok());
    ticks(11).zip(ticks(12)).map(|(user, system)| (user + system) / 100.0).ok_or(format!("{file}: no times"))
}
