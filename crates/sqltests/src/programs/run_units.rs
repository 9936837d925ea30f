//! Runs the programs' tests with both engines at the same time, each with a server of its own.

use super::fetch::Fetched;
use super::lists::list_dir;
use super::units::{Program, Unit};
use crate::server::{self, Server};
use crate::tree::place;
use crate::{make_dir, output, target};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The engines, the oracle first.
pub(super) const ENGINES: [&str; 2] = ["InnoDB", "Millpond"];

/// The longest time of one program's tests. The servers end by themselves after both programs.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);
/// Databases that SQLAlchemy's tests want. Django's tests make theirs.
const DATABASES: &str = "CREATE DATABASE test; CREATE DATABASE test_schema; CREATE DATABASE test_schema_2";

/// A server with its engine and a directory for copies of the programs.
#[derive(Debug)]
struct Place {
    engine: &'static str,
    dir: PathBuf,
    server: Server,
}

/// Runs units, and keeps how their tests ended.
pub(super) fn run(fetched: &Fetched, units: &[Unit]) -> Result<(), String> {
    let dir = place().join(format!("millpond-programs-{}", std::process::id()));
    let mut places = Vec::new();
    let mut done = Ok(());
    for engine in ENGINES {
        match start(&dir.join(engine), engine) {
            Ok(place) => places.push(place),
            Err(why) => done = done.and(Err(why)),
        }
    }
    if done.is_ok() {
        done = Program::of(units).try_for_each(|program| run_program(fetched, &places, program, units));
    }
    let stopped = places.iter().map(|place| server::stop(&place.dir.join("server")));
    let stopped = stopped.fold(Ok(()), Result::and);
    if done.is_ok() && stopped.is_ok() {
        return std::fs::remove_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()));
    }
    println!("the servers' files and what the programs printed are left in {}", dir.display());
    done.and(stopped)
}

fn start(dir: &Path, engine: &'static str) -> Result<Place, String> {
    let engine_option = format!("--default-storage-engine={engine}");
    let options = [
        &*engine_option,
        // Nothing here has to survive the machine.
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-doublewrite=0",
        "--millpond-flush-log-at-trx-commit=0",
        "--character-set-server=utf8mb4",
        "--collation-server=utf8mb4_general_ci",
    ];
    make_dir(dir)?;
    let server = server::start(&dir.join("server"), PATIENCE * 2, &options)?;
    let place = Place { engine, dir: dir.to_owned(), server };
    output(place.server.client().args(["--execute", DATABASES]))?;
    Ok(place)
}

/// Runs the units of a program with all engines at once.
fn run_program(fetched: &Fetched, places: &[Place], program: Program, units: &[Unit]) -> Result<(), String> {
    let names: Vec<&str> =
        units.iter().filter(|unit| unit.program == program).map(|unit| unit.name.as_str()).collect();
    println!("{}: {} of its files or apps", program.name(), names.len());
    let mut running = Vec::new();
    for place in places {
        running.push((place, spawn(fetched, place, program, &names)?));
    }
    let ends: Vec<_> = running.into_iter().map(|(place, child)| end(place, program, child)).collect();
    ends.into_iter().collect()
}

fn spawn(fetched: &Fetched, place: &Place, program: Program, names: &[&str]) -> Result<Child, String> {
    let source = place.dir.join(program.name());
    output(Command::new("cp").arg("--recursive").arg(fetched.source(program.name())?).arg(&source))?;
    let outcomes = kept(program, place.engine);
    let _ = std::fs::remove_file(&outcomes);
    let mut command = Command::new("timeout");
    command.arg("--kill-after=60").arg(PATIENCE.as_secs().to_string()).arg(fetched.python());
    let socket = &place.server.socket;
    let lists = list_dir();
    match program {
        Program::Sqlalchemy => {
            name_engine(&source.join("test"), place.engine)?;
            let url = format!(
                "--dburi=mysql+pymysql://root@localhost/test?unix_socket={}&charset=utf8mb4",
                socket.display()
            );
            command.args([
                "-m",
                "pytest",
                "-p",
                "outcomes",
                "-p",
                "no:cacheprovider",
                "--quiet",
                "--tb=line",
            ]);
            // Its own options end a run after 250 failures.
            command.args(["-o", "addopts=-p warnings -p logging", &url]).args(names);
            command.current_dir(&source).env("PYTHONPATH", &lists).env("OUTCOMES_OF", "pytest");
        }
        Program::Django => {
            command.args(["runtests.py", "--settings=settings", "--parallel=1", "--noinput"]).args(names);
            let path = format!("{}:{}", lists.display(), source.display());
            command.current_dir(source.join("tests")).env("PYTHONPATH", path).env("OUTCOMES_OF", "django");
        }
    }
    command.env("SOCKET", socket).env("OUTCOMES", &outcomes).env("RUN_DIR", &place.dir);
    command.env("PYTHONHASHSEED", "0").env("PYTHONDONTWRITEBYTECODE", "1");
    let file = File::create(log(place, program)).map_err(|e| format!("{}: {e}", place.dir.display()))?;
    let errors = file.try_clone().map_err(|e| e.to_string())?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    command.spawn().map_err(|e| format!("cannot start {}: {e}", program.name()))
}

/// Returns the file with what a program prints.
fn log(place: &Place, program: Program) -> PathBuf {
    place.dir.join(format!("{}.log", program.name()))
}

/// Waits for the end of a program's tests. That some of them fail is no error.
fn end(place: &Place, program: Program, mut child: Child) -> Result<(), String> {
    let status = child.wait().map_err(|e| e.to_string())?;
    let said = std::fs::read_to_string(log(place, program)).unwrap_or_default();
    if matches!(status.code(), Some(0 | 1)) && came_to_its_end(program, &said) {
        return Ok(());
    }
    let lines: Vec<&str> = said.lines().collect();
    let last = lines[lines.len().saturating_sub(20)..].join("\n");
    Err(format!("{} with {}: {status}: {last}", program.name(), place.engine))
}

/// Tells from what a program has printed whether it ran all tests.
fn came_to_its_end(program: Program, said: &str) -> bool {
    match program {
        Program::Sqlalchemy => {
            said.lines().rev().take(3).any(|line| line.contains(" passed") && line.contains(" in "))
        }
        Program::Django => said.lines().any(|line| line.starts_with("Ran ")),
    }
}

/// Puts the engine's name where SQLAlchemy's tests name the engine of a table.
fn name_engine(path: &Path, engine: &str) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    if path.is_dir() {
        let mut entries = std::fs::read_dir(path).map_err(failed)?.flatten();
        return entries.try_for_each(|entry| name_engine(&entry.path(), engine));
    }
    if path.extension().is_some_and(|kind| kind == "py") {
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let named = text.replace("InnoDB", engine).replace("MyISAM", engine);
        std::fs::write(path, named).map_err(failed)?;
    }
    Ok(())
}

/// Returns the file that keeps how a program's tests ended with an engine.
pub(super) fn kept(program: Program, engine: &str) -> PathBuf {
    target().join("programs-kept").join(format!("{}-{engine}", program.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_breaks_off_is_seen() {
        let all = "F\n10 failed, 90 passed, 3 skipped in 61.20s (0:01:01)\n";
        assert!(came_to_its_end(Program::Sqlalchemy, all));
        assert!(!came_to_its_end(Program::Sqlalchemy, "......\nTraceback"));
        assert!(came_to_its_end(Program::Django, "....\nRan 190 tests in 3.000s\n\nOK\n"));
        assert!(!came_to_its_end(Program::Django, "Creating test database\nTraceback"));
    }
}
