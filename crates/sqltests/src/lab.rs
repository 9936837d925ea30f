//! `millpond run --target`, `age`, `collect`, `plot`, `top`, `trace-fsync` and `explain` against a
//! live server: InnoDB and Millpond under load, a wrong password, a wrong certificate, a server
//! that ends and comes back, Ctrl-C. [`figures`] compares with second sources, [`caching_sha2`] is
//! half a server of MySQL. [`hindered`] gets in the way of collections, [`cost`] measures what one
//! costs. [`workloads`] runs loads, [`advised`] asks for advice, [`redo`] reads logs, [`recorded`]
//! looks back, [`stalked`] waits for a stall, [`reproduced`] repeats experiments of articles.
//! [`place`] is what all cases have, [`runs`] how they run the program.

mod advised;
mod caching_sha2;
mod certificates;
mod cost;
mod figures;
mod hindered;
mod place;
mod recorded;
mod redo;
mod reproduced;
mod runs;
mod served;
mod stalked;
mod workloads;

use super::packages::{FOR_TESTS, install, unpack};
use super::places::Profile;
use super::release::{self, Release};
use super::server;
use super::share::Share;
use super::steps::in_own_directory;
use super::steps::{build_program, expect, until};
use super::{make_dir, output};
use place::{Lab, start};
use runs::{collecting, interrupt, refused};
use std::io::{BufRead, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

type Case = fn(&Lab<'_>) -> Result<(), String>;

const CASES: [(&str, Case); 34] = [
    ("age knows InnoDB's limits", age),
    ("commits are counted, with and without the server's own counter", commits),
    ("levels are what the server's own text says", figures::levels),
    ("counters grow as the load has counted", figures::counters),
    ("metrics are switched on for a time", figures::switched_on),
    ("a server without InnoDB is not said to be well", figures::without_innodb),
    ("a password is asked for in words, and accepted", passwords),
    ("an account with ed25519 is let in", ed25519),
    ("a certificate is verified", certificates::verified),
    ("caching_sha2_password lets in over TLS and under the server's key", caching_sha2::logins),
    ("collect and plot under load, of InnoDB", innodb),
    ("collect and plot under load, of the plugin's database", millpond),
    ("top, trace-fsync and explain know the server", live),
    ("serve tells of the server", served::metrics),
    ("advise has figures of this server", advised::servers),
    ("redo finds the index that writes the log", redo::by_index),
    ("what advise tries is kept or put back as its proof says", advised::tried),
    ("collect goes on when the server comes back", restart),
    ("Ctrl-C ends a collection that is whole", interrupted),
    ("settings of the server spoil no figure", hindered::settings),
    ("what passes by itself ends no collection", hindered::passing),
    ("a workload's output is passed on as it is", hindered::piped),
    ("a second collection in a directory is refused", hindered::busy),
    ("option files are read as the server's own program reads them", hindered::option_files),
    ("workloads run over SQL, on each engine", workloads::engines),
    ("TPC-C runs over SQL, and its conditions find a mistake", workloads::tpcc),
    ("a load that is kept is used again, and no other schema is touched", workloads::schemas_of_runs),
    ("engines are compared in turns", workloads::comparisons),
    ("a recorder goes on after a kill, and the past is read back", recorded::past),
    ("a stall is kept, with who blocks whom", stalked::read_lock),
    ("a sweep measures each point and puts the settings back", workloads::sweeps),
    ("what hinders a run over SQL is one sentence", workloads::refusals),
    ("experiments of articles run on servers of their own", reproduced::articles),
    ("what a collection costs", cost::measure),
];

/// What is tried with MySQL. The other cases use what only MariaDB has.
const OF_MYSQL: [(&str, Case); 8] = [
    ("levels are what the server's own text says", figures::levels),
    ("metrics are switched on for a time", figures::switched_on),
    ("a password is asked for in words, and accepted", passwords),
    ("collect and plot under load, of InnoDB", innodb),
    ("top, trace-fsync and explain know the server", live),
    ("serve tells of the server", served::metrics),
    ("collect goes on when the server comes back", restart),
    ("Ctrl-C ends a collection that is whole", interrupted),
];

/// What is tried, and how long.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// A server of this release, without the plugin, instead of the installed one
    #[arg(long)]
    server: Option<Release>,
    /// For how long the cost of a collection is measured
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Only the cases whose names have this text
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    case: String,
    /// Chooses the order of the cases [default: from the commit]
    #[arg(long)]
    seed: Option<u32>,
}

impl Default for Args {
    fn default() -> Args {
        Args { server: None, seconds: 5, case: String::new(), seed: None }
    }
}

/// Runs all cases, in a directory of their own.
pub(super) fn run_alone(args: &Args) -> Result<(), String> {
    match args.server {
        None => super::build_for_tests()?,
        Some(_) => install(&FOR_TESTS)?,
    }
    let seed = args.seed.unwrap_or_else(checkout::seed);
    in_own_directory(|dir| run(dir, args, Share::whole(seed.into())))
}

/// Runs a share of the cases in a server of their own.
pub(super) fn run(dir: &Path, args: &Args, share: Share) -> Result<(), String> {
    let program = build_program(Profile::Debug)?;
    let base = args.server.map(release::fetch).transpose()?;
    let server_dir = dir.join("server");
    make_dir(&server_dir)?;
    let server = start(base.as_deref(), &server_dir, &[])?;
    let lab = Lab { program, base, server: &server, server_dir: &server_dir, dir, seconds: args.seconds };
    let cases: &[(&str, Case)] = if lab.is_mysql() { &OF_MYSQL } else { &CASES };
    let wanted = cases.iter().filter(|(name, _)| share.has(name) && name.contains(&args.case));
    // No case may need what another one leaves: the order is another one for each commit.
    let mut wanted: Vec<_> = wanted.collect();
    wanted.sort_by_key(|(name, _)| share.place(name));
    let outcome = wanted.iter().try_for_each(|(name, case)| {
        let began = Instant::now();
        case(&lab).map_err(|why| format!("{name}: {why}"))?;
        println!("ok      {name}, {:.1} s", began.elapsed().as_secs_f64());
        Ok(())
    });
    outcome.and(server::stop(&server_dir))
}

fn age(lab: &Lab<'_>) -> Result<(), String> {
    let target = lab.target("root");
    let said = lab.ok(&["age", &target, "--json"])?;
    // The server computes this limit itself; ours comes with it.
    let limit = lab.sql("SHOW GLOBAL STATUS LIKE 'Innodb_checkpoint_max_age'")?;
    let limit = limit.split_whitespace().nth(1).unwrap_or_default().to_owned();
    expect("age", &said, &format!("\"checkpoint_age_limit\":{limit}.0"))?;
    let all = lab.ok(&["age", &target, "--all"])?;
    expect("age --all", &all, "not there: InnoDB has nothing like it")?;
    let (status, said) = refused(&mut lab.millpond(&["age", "mysql://root:secret@localhost/"]))?;
    expect("a password in the URL", &format!("{status:?} {said}"), "Some(2) millpond: a password in a URL")
}

/// Transactions with changes that one round makes.
const ROUND: f64 = 100.0;
/// Transactions of InnoDB itself that a round may fall together with: it saves its statistics.
const BESIDES: f64 = 20.0;

/// Commits in three ways, and transactions that change nothing, are compared with the figure.
fn commits(lab: &Lab<'_>) -> Result<(), String> {
    lab.sql("CREATE DATABASE counted; CREATE TABLE counted.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB")?;
    round_of_commits(lab, "innodb_max_trx_id / 2")?;
    lab.sql("SET GLOBAL innodb_monitor_enable = 'trx_commits_insert_update'")?;
    let outcome = round_of_commits(lab, "metric.trx_commits_insert_update");
    lab.sql("SET GLOBAL innodb_monitor_disable = 'trx_commits_insert_update'")?;
    outcome
}

fn round_of_commits(lab: &Lab<'_>, source: &str) -> Result<(), String> {
    let target = lab.target("root");
    let figure = || -> Result<f64, String> {
        let all = lab.ok(&["age", &target, "--all"])?;
        let line = all.lines().find(|line| line.starts_with("commits ")).unwrap_or_default();
        expect("the source of commits", line, &format!("[from {source}]"))?;
        let digits = line.trim_start_matches("commits").split("count").next().unwrap_or_default();
        let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
        digits.parse().map_err(|_| format!("no number of commits: {line:?}"))
    };
    let many = |n: usize, text: &str| text.repeat(n);
    let before = figure()?;
    lab.sql(&format!(
        "USE counted; TRUNCATE t; {}{}{}{}",
        (0..40).map(|id| format!("INSERT INTO t VALUES ({id}, 0);")).collect::<String>(),
        many(40, "UPDATE t SET v = v + 1 WHERE id < 9;"),
        many(20, "BEGIN; UPDATE t SET v = v + 1; DELETE FROM t WHERE id = 39; UPDATE t SET v = 0; COMMIT;"),
        many(50, "BEGIN; SELECT COUNT(*) INTO @n FROM t; COMMIT;")
    ))?;
    let commits = figure()? - before;
    if (ROUND..=ROUND + BESIDES).contains(&commits) {
        return Ok(());
    }
    Err(format!("{ROUND} transactions with changes are counted as {commits} by {source}"))
}

fn passwords(lab: &Lab<'_>) -> Result<(), String> {
    lab.sql("CREATE USER watcher@localhost IDENTIFIED BY 'right'")?;
    let target = lab.target("watcher");
    let (status, said) = refused(&mut lab.millpond(&["age", &target]))?;
    expect("no password", &format!("{status:?} {said}"), "no password was given")?;
    let (_, said) =
        refused(lab.millpond(&["collect", &target, "--out", "denied"]).env("MYSQL_PWD", "wrong"))?;
    expect("a wrong password", &said, "the password is wrong")?;
    if lab.dir.join("denied").exists() {
        return Err("a refused collection leaves a directory".to_owned());
    }
    expect("age", &output(lab.millpond(&["age", &target]).env("MYSQL_PWD", "right"))?, "checkpoint age")?;
    expect("an answer on a terminal", &asked_on_a_terminal(lab, &target)?, "checkpoint age")?;
    // Without PROCESS some figures are missing, and the line says which grant is.
    let all = output(lab.millpond(&["age", &target, "--all"]).env("MYSQL_PWD", "right"))?;
    expect("age --all", &all, "GRANT PROCESS")?;
    let collect = ["collect", &target, "--out", "few", "-l", "1"];
    let out = lab.millpond(&collect).env("MYSQL_PWD", "right").output().map_err(|e| e.to_string())?;
    expect("collect", &String::from_utf8_lossy(&out.stderr), "GRANT PROCESS")?;
    super::write(&lab.dir.join(".my.cnf"), "[client]\nuser=watcher\npassword=right\n")?;
    let bare = format!("mysql://localhost/?socket={}", lab.server.socket.display());
    let from_file = lab.ok(&["age", &bare]);
    let _ = std::fs::remove_file(lab.dir.join(".my.cnf"));
    expect("an option file", &from_file?, "checkpoint age")
}

/// Answers the question for a password on a terminal, which the program `script` makes. Returns
/// what is shown after the question.
fn asked_on_a_terminal(lab: &Lab<'_>, target: &str) -> Result<String, String> {
    let asked = format!("{} age '{target}' --password", lab.program.display());
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &asked, "/dev/null"]).env("HOME", lab.dir);
    let mut terminal =
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|e| format!("script: {e}"))?;
    let (mut keys, screen) = (terminal.stdin.take(), terminal.stdout.take());
    let mut screen = std::io::BufReader::new(screen.ok_or("script shows nothing")?);
    let mut shown = Vec::new();
    screen.read_until(b':', &mut shown).map_err(|e| format!("script: {e}"))?;
    expect("a question", &String::from_utf8_lossy(&shown), "password of watcher:")?;
    if let Some(keys) = &mut keys {
        keys.write_all(b"wrong\x15right\n").map_err(|e| format!("script: {e}"))?;
    }
    let mut rest = String::new();
    screen.read_to_string(&mut rest).map_err(|e| format!("script: {e}"))?;
    terminal.wait().map_err(|e| format!("script: {e}"))?;
    drop(keys);
    if rest.contains("right") { Err(format!("the password is shown: {rest:?}")) } else { Ok(rest) }
}

/// The server's half is a plugin of Debian's package `mariadb-server`, which is not installed.
fn ed25519(lab: &Lab<'_>) -> Result<(), String> {
    if lab.base.is_some() {
        println!("        this server has another plugin");
        return Ok(());
    }
    let plugin = "auth_ed25519.so";
    let from = unpack("mariadb-server", "usr/lib/mysql/plugin")?.join(plugin);
    let to = lab.server_dir.join("plugin").join(plugin);
    std::fs::copy(&from, &to).map_err(|e| format!("cannot copy {}: {e}", from.display()))?;
    lab.sql("INSTALL SONAME 'auth_ed25519'")?;
    lab.sql("CREATE USER edward@localhost IDENTIFIED VIA ed25519 USING PASSWORD('right')")?;
    let target = lab.target("edward");
    let age = |password| {
        let mut command = lab.millpond(&["age", &target]);
        command.env("MYSQL_PWD", password);
        command
    };
    expect("age", &output(&mut age("right"))?, "checkpoint age")?;
    expect("a wrong password", &refused(&mut age("wrong"))?.1, "the password is wrong")
}

fn innodb(lab: &Lab<'_>) -> Result<(), String> {
    lab.sql("SET GLOBAL innodb_monitor_enable = 'module_buffer'")?;
    let plots = ["index.html", "checkpoint-age.svg", "buffer-pool.svg", "log-an-hour.svg", "rows.svg"];
    lab.collect_and_plot(&lab.target("root"), "InnoDB", "innodb", &plots)
}

fn millpond(lab: &Lab<'_>) -> Result<(), String> {
    if lab.base.is_some() {
        println!("        this server has no plugin");
        return Ok(());
    }
    let database = lab.server.data().join("#millpond").display().to_string();
    let plots = ["index.html", "checkpoint-age.svg", "buffer-pool.svg", "syncs.svg"];
    lab.collect_and_plot(&database, "Millpond", "plugin", &plots)?;
    // The flight recorder of the open database, without a collection.
    lab.ok(&["plot", &database, "--out", "recorder-plots"])?;
    // Each case can be the only one of its share, so the other collection is its own, too.
    lab.ok(&["collect", &lab.target("root"), "--out", "beside", "-l", "2"])?;
    lab.ok(&["plot", "beside", "plugin", "--out", "compared", "-o", "commits,Checkpoint_age", "-1"])?;
    expect("age", &lab.ok(&["age", &database])?, "checkpoint age")
}

fn live(lab: &Lab<'_>) -> Result<(), String> {
    let target = lab.target("root");
    let mut load = lab.load("InnoDB")?;
    let picture = lab.ok(&["top", &target, "--print", "80x24", "--seconds", "3"]);
    // Nobody listens on port 1.
    let several =
        lab.ok(&["top", &target, "mysql://root@127.0.0.1:1/", "--print", "100x24", "--seconds", "4"]);
    let trace = lab.ok(&["trace-fsync", &target, "--seconds", "2"]);
    let _ = load.kill();
    let _ = load.wait();
    let version = lab.sql("SELECT SUBSTRING_INDEX(@@version, '-', 1)")?;
    let picture = picture?;
    // MySQL counts transactions with changes only if its metrics are on.
    let (maker, log, commits) = if lab.is_mysql() {
        ("MySQL", "#ib_redo", "commits are not known")
    } else {
        ("MariaDB", "ib_logfile0", "for each sync")
    };
    expect("top", &picture, &format!("{maker} {version}"))?;
    expect("top", &picture, "checkpoint age")?;
    let several = several?;
    expect("top of two targets", &several, "2 targets, 1 of them with an alarm")?;
    expect("top of two targets", &several, "127.0.0.1:1")?;
    let trace = trace?;
    expect("trace-fsync", &trace, log)?;
    expect("trace-fsync", &trace, commits)?;
    expect("explain", &lab.ok(&["explain", "innodb_io_capacity"])?, "innodb_io_capacity")
}

fn restart(lab: &Lab<'_>) -> Result<(), String> {
    let child = collecting(lab, &lab.target("root"), "restarted")?;
    output(Command::new("kill").args(["-9", &lab.server.process()?]))?;
    until("the end of the server", || lab.stats("restarted").contains("\"gone\""))?;
    start(lab.base.as_deref(), lab.server_dir, &[])?;
    until("the return of the server", || {
        let stats = lab.stats("restarted");
        stats.find("\"back\"").is_some_and(|at| stats[at..].contains("\"values\""))
    })?;
    expect("the summary", &interrupt(child)?, "gone once")?;
    lab.ok(&["plot", "restarted", "--out", "restarted-plots"]).map(drop)
}

fn interrupted(lab: &Lab<'_>) -> Result<(), String> {
    let child = collecting(lab, &lab.target("root"), "interrupted")?;
    expect("the summary", &interrupt(child)?, "samples of mysql://")?;
    if !lab.stats("interrupted").ends_with("}\n") {
        return Err("the last line is not whole".to_owned());
    }
    // A second collection there keeps the first one.
    lab.ok(&["collect", &lab.target("root"), "--out", "interrupted", "-l", "1"])?;
    expect("the first collection", &lab.stats("interrupted.bak"), "\"values\"")
}
