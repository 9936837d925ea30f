//! `millpond trace-fsync` on a live server, with tables of InnoDB and of Millpond under a small
//! load: from outside by the kernel's tracepoints, where this machine lets us, by the server's URL,
//! and from the engine's own recorder, also after the server is killed. `millpond top` shows both.

use super::places::Profile;
use super::server::{self, Server};
use super::steps::build_program;
use super::{output, target};
use serde_json::Value;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server of this test ends by itself.
const LIFE: Duration = Duration::from_secs(300);
/// More statements than the load can do meanwhile.
const STATEMENTS: usize = 400_000;
/// How long it may take until the recorder has what is looked for.
const PATIENCE: Duration = Duration::from_secs(60);
/// What the program says where the kernel may not be asked.
const REFUSALS: [&str; 3] = ["needs root", "no tracing", "no tracepoints"];

/// Runs the test in a directory of its own.
pub(super) fn run(dir: &Path) -> Result<(), String> {
    let program = build_program(Profile::Debug)?;
    let server = server::start(dir, LIFE, &["--performance-schema=ON"])?;
    let outcome = Load::start(&server).and_then(|load| {
        let outcome = from_outside(&program, &server);
        let outcome = outcome.and_then(|()| by_url(&program, &server));
        let outcome = outcome.and_then(|()| from_inside(&program, &server, Some(&load)));
        let outcome = outcome.and_then(|()| pictures(&program, &server));
        outcome.and_then(|()| after_a_kill(&program, &server))
    });
    if outcome.is_err() {
        let _ = server::stop(dir);
    }
    outcome
}

/// A client that inserts rows into a table of InnoDB and into one of Millpond, in turns. Dropping
/// it ends it.
struct Load(Child);

impl Load {
    fn start(server: &Server) -> Result<Load, String> {
        let tables = "DROP DATABASE IF EXISTS trace; CREATE DATABASE trace; \
                      CREATE TABLE trace.i (id INT PRIMARY KEY AUTO_INCREMENT) ENGINE=InnoDB; \
                      CREATE TABLE trace.m (id INT PRIMARY KEY AUTO_INCREMENT) ENGINE=Millpond";
        output(server.client().args(["--execute", tables]))?;
        let script = server.data().with_file_name("load.sql");
        let text = "INSERT INTO i VALUES (); INSERT INTO m VALUES ();\n".repeat(STATEMENTS / 2);
        let written = File::create(&script).and_then(|mut file| file.write_all(text.as_bytes()));
        let input = written.and_then(|()| File::open(&script)).map_err(|e| e.to_string())?;
        let mut client = server.client();
        client.arg("trace").stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
        client.spawn().map(Load).map_err(|e| format!("cannot start the client: {e}"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Traces the server's process. Both engines' logs are synced, and nothing of the tracing is left.
fn from_outside(program: &Path, server: &Server) -> Result<(), String> {
    let before = instances();
    let pid = server.process()?;
    let trace = match trace(program, &pid, "2") {
        Ok(trace) => trace,
        Err(why) if REFUSALS.iter().any(|refusal| why.contains(refusal)) => {
            println!("ok      trace-fsync of a process: this machine does not let us: {why}");
            return Ok(());
        }
        Err(why) => return Err(why),
    };
    let syncs = |part: &str| -> u64 {
        let rows = trace["by_file"].as_array().into_iter().flatten();
        let rows = rows.filter(|row| {
            row["reason"] == "redo log" && row["file"].as_str().is_some_and(|f| f.contains(part))
        });
        rows.filter_map(|row| row["syncs"].as_u64()).sum()
    };
    let (innodb, millpond) = (syncs("ib_logfile0"), syncs("#millpond/redo/"));
    if trace["way"] != "tracepoints" || innodb == 0 || millpond == 0 {
        return Err(format!("trace-fsync {pid} has not seen both logs: {trace:#}"));
    }
    if !trace["notes"].to_string().contains("#millpond") {
        return Err(format!("trace-fsync {pid} does not name the recorder of Millpond: {trace:#}"));
    }
    let after = instances();
    if before != after {
        return Err(format!("trace-fsync leaves tracing behind: {after:?} instead of {before:?}"));
    }
    println!("ok      trace-fsync of a process: {innodb} syncs of InnoDB's log, {millpond} of Millpond's");
    Ok(())
}

/// Traces the server by its URL. It counts commits; without rights its summary of files is used.
fn by_url(program: &Path, server: &Server) -> Result<(), String> {
    let url = url(server);
    let trace = trace(program, &url, "2")?;
    let way = trace["way"].as_str().unwrap_or_default();
    let known = ["tracepoints", "performance_schema"].contains(&way);
    let counted = trace["commits_per_sync"].as_f64() > Some(0.0) && trace["commits_counted_by"].is_string();
    if !known || trace["syncs"].as_u64() == Some(0) || !counted {
        return Err(format!("trace-fsync {url}: {trace:#}"));
    }
    println!("ok      trace-fsync of a server's URL, by its {way}");
    Ok(())
}

/// Looks at the server and at the engine's directory with `millpond top`.
fn pictures(program: &Path, server: &Server) -> Result<(), String> {
    for target in [url(server), server.data().join("#millpond").display().to_string()] {
        let mut command = Command::new(program);
        command.args(["top", &target, "--print", "80x24", "--seconds", "3"]);
        let picture = output(&mut command)?;
        let shown =
            picture.contains("checkpoint age") && picture.contains(" of ") && !picture.contains("no sample");
        if !shown || picture.lines().count() != 24 {
            return Err(format!("top {target} shows:\n{picture}"));
        }
        println!("ok      top {target}");
    }
    Ok(())
}

fn url(server: &Server) -> String {
    format!("mysql://root@localhost/?socket={}", server.socket.display())
}

/// Traces the data directory: commits and their syncs, with reasons.
fn from_inside(program: &Path, server: &Server, load: Option<&Load>) -> Result<(), String> {
    let dir = server.data().display().to_string();
    let began = Instant::now();
    loop {
        let trace = trace(program, &dir, "5");
        let rows = |trace: &Value| trace["by_file"].as_array().cloned().unwrap_or_default();
        if let Ok(trace) = &trace
            && trace["way"] == "recorder"
            && trace["commits"].as_u64() > Some(0)
            && rows(trace).iter().any(|row| row["reason"] == "commit" && row["syncs"].as_u64() > Some(0))
        {
            let when = if load.is_some() { "under load" } else { "after kill -9" };
            println!(
                "ok      trace-fsync of a directory {when}: {} commits for each sync",
                trace["commits_per_sync"]
            );
            return Ok(());
        }
        // Samples come once a second.
        if began.elapsed() > PATIENCE || load.is_none() {
            return Err(format!("trace-fsync {dir} shows no syncs of commits: {trace:?}"));
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Kills the server. Its recorder is still there, and its process is not.
fn after_a_kill(program: &Path, server: &Server) -> Result<(), String> {
    let pid = server.process()?;
    output(Command::new("kill").args(["-KILL", &pid]))?;
    from_inside(program, server, None)?;
    let began = Instant::now();
    while trace(program, &pid, "0.1").is_ok() && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
    match trace(program, &pid, "0.1") {
        Err(why) if why.contains(&format!("there is no process {pid}")) => Ok(()),
        other => Err(format!("trace-fsync of a process that was killed: {other:?}")),
    }
}

/// Runs `millpond trace-fsync` and returns what it has found.
fn trace(program: &Path, what: &str, seconds: &str) -> Result<Value, String> {
    let file = target().join("trace.json");
    let mut command = Command::new(program);
    command.args(["trace-fsync", what, "--seconds", seconds, "--json"]).arg(&file);
    output(&mut command)?;
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))
}

/// Returns the instances of tracing that there are; none if tracefs is not mounted.
fn instances() -> Vec<String> {
    let names = std::fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
