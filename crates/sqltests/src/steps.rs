//! Steps that the tests with a live server share: they build the program, wait, and compare what
//! was said with what was wanted.

use super::output;
use super::places::Profile;
use super::server::{Server, sql};
use checkout::{TESTED, cargo_program, root, target};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long something may take before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(50);

/// Builds the program `millpond`, and returns its path. For tests it is the one that its own tests
/// run, which is there after those.
pub(super) fn build_program(profile: Profile) -> Result<PathBuf, String> {
    let mut cargo = Command::new(cargo_program());
    cargo.current_dir(root());
    let place = match profile {
        Profile::Debug => {
            cargo.args(["test", "--quiet", "--no-run", "--test", "program"]).args(TESTED);
            "debug/millpond"
        }
        Profile::Release => {
            cargo.args(["build", "--quiet", "--release", "--package", "lab", "--bin", "millpond"]);
            "release/millpond"
        }
    };
    output(&mut cargo)?;
    Ok(target().join(place))
}

/// Checks that a text contains another.
pub(super) fn expect(what: &str, found: &str, wanted: &str) -> Result<(), String> {
    if found.contains(wanted) { Ok(()) } else { Err(format!("{what}: wanted {wanted:?}, found {found:?}")) }
}

/// Runs tests in a directory, which stays if they fail.
pub(super) fn in_own_directory(tests: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
    // Root's server runs as another user, who cannot come to every checkout.
    let dir = std::env::temp_dir().join(format!("millpond-mariadb-{}", std::process::id()));
    let outcome = tests(&dir);
    if outcome.is_ok() {
        let _ = std::fs::remove_dir_all(&dir);
    } else {
        println!("the server's files are left in {}", dir.display());
    }
    outcome
}

/// Checks that the server has found no definition that does not fit its trees: no statement makes
/// one.
pub(super) fn definitions_fit(server: &Server) -> Result<(), String> {
    let log = std::fs::read(server.log()).map_err(|e| format!("{}: {e}", server.log().display()))?;
    let log = String::from_utf8_lossy(&log);
    log.lines()
        .find(|line| line.contains("does not fit its data"))
        .map_or(Ok(()), |line| Err(line.to_owned()))
}

/// Runs a statement that has to fail, and returns its error.
pub(super) fn refused(server: &Server, text: &str) -> Result<String, String> {
    match sql(server, text) {
        Ok(said) => Err(format!("`{text}` succeeds: {said}")),
        Err(error) => Ok(error),
    }
}

/// Gives a client the statements of a file, with all the bytes that strings have there.
pub(super) fn run_file(server: &Server, file: &Path) -> Result<(), String> {
    let input = File::open(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let done = server.client().arg("--binary-mode").stdin(input).stdout(Stdio::null()).output();
    let done = done.map_err(|e| format!("cannot start a client: {e}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!("{}: {}", file.display(), String::from_utf8_lossy(&done.stderr))),
    }
}

/// Waits until `done` says so.
pub(super) fn until(what: &str, mut done: impl FnMut() -> bool) -> Result<(), String> {
    try_until(what, || Ok(done()))
}

/// Waits until `done` says so, or fails.
pub(super) fn try_until(what: &str, done: impl FnMut() -> Result<bool, String>) -> Result<(), String> {
    try_until_within(what, PATIENCE, LOOK, done)
}

/// Waits until `done` says so, or fails. It may take as long as `patience`, and is asked each
/// `look`.
pub(super) fn try_until_within(
    what: &str,
    patience: Duration,
    look: Duration,
    mut done: impl FnMut() -> Result<bool, String>,
) -> Result<(), String> {
    let began = Instant::now();
    while !done()? {
        if began.elapsed() > patience {
            return Err(format!("{what}: not after {} s", patience.as_secs()));
        }
        std::thread::sleep(look);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_and_says_what_it_was_for() {
        let mut looks = 0;
        let told = try_until_within("the end", Duration::ZERO, Duration::from_millis(1), || {
            looks += 1;
            Ok(looks > 1_000)
        });
        assert_eq!(told, Err("the end: not after 0 s".to_owned()));
        assert!(looks <= 1_000);
    }
}
