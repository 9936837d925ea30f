//! `millpond trace-fsync`: which files a process syncs, why, how often and how long.
//!
//! There are four ways. A database of Millpond counts its syncs itself ([`own`]). Any other
//! process is watched through the kernel's tracepoints of system calls ([`watch`], by an instance
//! of tracing from [`tracefs`]), which needs root; or by strace ([`strace`]), if the user asks for
//! it. A server that is named by its URL is watched so too, if it runs here; else its own summary
//! of files is read ([`server`]).
//!
//! [`mod@line`] reads the kernel's events, [`pairing`] makes syncs of them, [`result`] adds them
//! up, [`purpose`] says what a file is for, [`histogram`] and [`show`] print. [`beside`] traces for
//! commands that do other work meanwhile.

pub(crate) mod beside;
mod histogram;
mod line;
mod own;
mod pairing;
mod process;
mod purpose;
mod request;
mod result;
mod server;
mod show;
mod strace;
#[cfg(test)]
mod tests;
mod tracefs;
mod watch;

use client::LoginFlags;
use output::existing::existing_database;
use output::failure::{Failure, Outcome};
use output::stop;
use process::Process;
use result::{Counted, Trace};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use request::Request;
pub(crate) use show::{json, text};

/// Where MariaDB's plugin keeps its database, below the server's data directory.
const IN_DATADIR: &str = "#millpond";

/// What can be traced.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Process(u32),
    Database(PathBuf),
    Server,
}

/// Traces. `login` is for servers.
pub(crate) fn trace(request: &Request, login: &LoginFlags) -> Outcome<Trace> {
    match target(&request.target)? {
        Target::Server if request.strace => {
            Err(Failure::misuse("--strace is for processes: give the number of the server's process"))
        }
        Target::Server => server::trace(request, login),
        Target::Process(pid) => of_process(Process(pid), request),
        Target::Database(dir) => of_database(&dir, request),
    }
}

/// Returns what a target means: digits are a process, `://` is in a URL. A directory is one of a
/// database, or of a server: then it means the database in it, or else the server's process. What
/// is no directory is the name of a process.
fn target(text: &str) -> Outcome<Target> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && !Path::new(text).exists() {
        let pid = text.parse().map_err(|_| Failure::misuse(format!("there is no process {text}")))?;
        return Ok(Target::Process(pid));
    }
    if text.contains("://") {
        return Ok(Target::Server);
    }
    let dir = Path::new(text);
    if !text.is_empty() && !text.contains('/') && !dir.exists() {
        return named(text, &process::named(text));
    }
    let inside = dir.join(IN_DATADIR);
    if !dir.join("root").is_file() {
        if inside.join("root").is_file() {
            return Ok(Target::Database(inside));
        }
        if is_of_a_server(dir) {
            return of_a_server(dir);
        }
    }
    existing_database(dir)?;
    Ok(Target::Database(dir.to_owned()))
}

/// Returns whether a directory is the data directory of a MariaDB or MySQL server.
fn is_of_a_server(dir: &Path) -> bool {
    ["ibdata1", "aria_log_control", "auto.cnf"].iter().any(|file| dir.join(file).is_file())
        && dir.join("mysql").is_dir()
}

/// Returns the process of a server by its data directory, in which it works.
fn of_a_server(dir: &Path) -> Outcome<Target> {
    let name = dir.display();
    match process::working_in(dir).as_slice() {
        [process] => Ok(Target::Process(process.0)),
        [] => Err(Failure::misuse(format!(
            "{name} is the data directory of a server without a database of Millpond, and no process that is \
             visible here works in it; start the server, or run this as root"
        ))),
        several => Err(Failure::misuse(format!(
            "several processes work in {name}: {}; give the number of one",
            numbers(several)
        ))),
    }
}

/// Returns the only process of a name.
fn named(name: &str, found: &[Process]) -> Outcome<Target> {
    match found {
        [process] => Ok(Target::Process(process.0)),
        [] => Err(Failure::misuse(format!("there is no directory and no process {name}"))),
        several => {
            let numbers = numbers(several);
            Err(Failure::misuse(format!("several processes are {name}: {numbers}; give the number of one")))
        }
    }
}

fn numbers(processes: &[Process]) -> String {
    processes.iter().map(|process| process.0.to_string()).collect::<Vec<_>>().join(", ")
}

fn of_process(process: Process, request: &Request) -> Outcome<Trace> {
    if !process.runs() {
        return Err(Failure::misuse(format!("there is no process {}", process.0)));
    }
    stop::install();
    let name = process.name();
    let ponds = process.ponds();
    let mut trace = if request.strace {
        let _ = writeln!(std::io::stderr(), "millpond: {}", strace::COST);
        strace::trace(process, request.length, request.step_us)?
    } else {
        watch::trace(process, request.length, request.step_us)?
    };
    trace.target = format!("process {} ({name})", process.0);
    let own: Vec<_> = ponds.iter().map(|pond| (pond, of_pond(pond, trace.seconds))).collect();
    let commits = own.iter().filter_map(|(_, own)| own.as_ref().ok()?.commits()).sum();
    if own.iter().any(|(_, own)| own.is_ok()) {
        let by = "by the recorders of its databases of Millpond".to_owned();
        // Other files may be synced for commits of others.
        trace.counted = Some(Counted { commits, by, all: false });
    }
    trace.notes.extend(own.iter().map(|(pond, own)| note_of_pond(pond, own)));
    Ok(trace)
}

/// Returns what the recorder of a database that the process has open says of about the same time.
fn of_pond(dir: &Path, seconds: f64) -> Result<Trace, String> {
    let own = millpond::inspect::recording(dir).map_err(|e| e.to_string());
    own.and_then(|recording| own::trace(&recording, Duration::from_secs_f64(seconds)))
}

fn note_of_pond(dir: &Path, own: &Result<Trace, String>) -> String {
    let name = dir.display();
    match own {
        Ok(own) => {
            let (syncs, commits) = (own.syncs(), own.commits().unwrap_or(0));
            let each = commits as f64 / syncs.max(1) as f64;
            format!(
                "the recorder of {name} has {syncs} syncs of its last {:.1} s, and {commits} commits, {each:.2} for \
                 each sync; `millpond trace-fsync {name}` shows their reasons",
                own.seconds
            )
        }
        Err(error) => format!("{name} is a database of Millpond whose recorder tells nothing: {error}"),
    }
}

fn of_database(dir: &Path, request: &Request) -> Outcome<Trace> {
    let name = dir.display();
    if request.strace || request.step_us.is_some() {
        let flag = if request.strace { "--strace" } else { "--step" };
        return Err(Failure::misuse(format!("{flag} is for processes, and {name} is a directory")));
    }
    let recording = crate::sources::recording(dir)?;
    let trace = own::trace(&recording, request.length);
    let trace = trace.map_err(|why| Failure::failed(format!("{name} cannot be traced: {why}")))?;
    Ok(Trace { target: name.to_string(), ..trace })
}
