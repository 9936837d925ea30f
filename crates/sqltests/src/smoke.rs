//! The plugin's tests: SQL scripts with expected output, and sysbench's OLTP workloads.
//!
//! A script `mariadb/tests/NAME.sql` is run by the client, which goes on after an error. A script
//! `NAME.sessions` has several connections ([`super::sessions`]). What a script prints, errors
//! included, must be `NAME.out`; `UPDATE_EXPECT=1` writes that file. The comments above the first
//! statement may say how it runs ([`super::variants`]); `server: OPTIONS` is for a server of its
//! own with these options.

use super::hardships;
use super::lab;
use super::places::Profile;
use super::proof::Amount;
use super::serve;
use super::server::{self, Server};
use super::sessions;
use super::share::Share;
use super::steps::{build_program, definitions_fit, in_own_directory};
use super::sysbench::{compare_indexes, sysbench_command};
use super::trace;
use super::variants::{self, Head, Variant};
use super::{make_dir, output, target};
use checkout::{root, step};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A server of a test ends by itself, even if the test is killed.
const LIFE: Duration = Duration::from_secs(1800);
const WORKLOADS: [&str; 9] = [
    "oltp_point_select",
    "oltp_read_only",
    "oltp_insert",
    "oltp_update_index",
    "oltp_update_non_index",
    "oltp_delete",
    "oltp_write_only",
    "oltp_read_write",
    "select_random_ranges",
];
const CLIENTS: [u32; 4] = [1, 16, 64, 512];
const SECONDS: u32 = 2;
/// CI runs one of so many of sysbench's runs, each a workload with a number of clients.
const SYSBENCH_PARTS: u64 = 2;
/// CI runs one of so many cases of the program's commands.
const LAB_PARTS: u64 = 2;
/// CI runs one of so many parts of the hardships that take minutes.
const HARDSHIPS_PARTS: u64 = 5;

/// Which tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// SQL scripts
    Scripts,
    /// Sysbench, from 1 to 512 clients
    Sysbench,
    /// What can happen to a server
    Hardships,
    /// The program's commands against a live server
    Lab,
    /// `millpond serve`, with a real Prometheus and a real Chromium
    Serve,
    /// `millpond trace-fsync` on a server under load
    Trace,
    /// MariaDB's own suites, and comparisons with InnoDB
    Proofs,
}

/// Runs all tests, or only a part, against servers of their own.
pub(super) fn run(only: Option<Part>, amount: Amount) -> Result<(), String> {
    in_own_directory(|dir| {
        in_one_server(dir, only, amount)?;
        let runs = |part| only.is_none_or(|only| only == part);
        if runs(Part::Lab) || runs(Part::Serve) || runs(Part::Trace) {
            step("the program of the tests", || build_program(Profile::Debug).map(drop))?;
        }
        if runs(Part::Lab) {
            let share = amount.share_of(LAB_PARTS);
            step("lab", || lab::run(&dir.join("lab"), &lab::Args::default(), share))?;
        }
        if runs(Part::Serve) {
            step("serve", || serve::run(&dir.join("serve"), None))?;
        }
        if runs(Part::Trace) {
            step("trace", || trace::run(&dir.join("trace")))?;
        }
        if runs(Part::Hardships) {
            let share = amount.share_of(HARDSHIPS_PARTS);
            step("hardships", || hardships::run(&dir.join("hardships"), "", share))?;
        }
        Ok(())
    })
}

/// Writes the pictures of the dashboard.
pub(super) fn pictures() -> Result<(), String> {
    in_own_directory(|dir| serve::run(&dir.join("serve"), Some(&root().join("docs/pictures"))))
}

/// Runs the scripts with a name against a server of their own.
pub(super) fn run_script(name: &str) -> Result<(), String> {
    in_own_directory(|dir| {
        let server = start(dir)?;
        scripts(&server, dir, |file| name_of(file) == name).and(server::stop(dir))
    })
}

/// Runs the hardships whose names have `part`.
pub(super) fn run_hardships(part: &str) -> Result<(), String> {
    in_own_directory(|dir| hardships::run(dir, part, Share::WHOLE))
}

/// Starts the server that scripts share.
fn start(dir: &Path) -> Result<Server, String> {
    server::start(dir, LIFE, &["--innodb-buffer-pool-size=32M"])
}

fn in_one_server(dir: &Path, only: Option<Part>, amount: Amount) -> Result<(), String> {
    let runs = |part| only.is_none_or(|only| only == part);
    if !runs(Part::Scripts) && !runs(Part::Sysbench) {
        return Ok(());
    }
    let server = start(dir)?;
    let scripts = || scripts(&server, dir, |_| true);
    let sysbench = || sysbench(&server, amount.share_of(SYSBENCH_PARTS));
    let outcome = if runs(Part::Scripts) { step("scripts", scripts) } else { Ok(()) };
    let outcome = outcome.and_then(|()| definitions_fit(&server));
    let outcome =
        outcome.and_then(|()| if runs(Part::Sysbench) { step("sysbench", sysbench) } else { Ok(()) });
    outcome.and(server::stop(dir))
}

/// Runs the scripts that are wanted.
fn scripts(server: &Server, servers: &Path, wanted: impl Fn(&Path) -> bool) -> Result<(), String> {
    let dir = root().join("mariadb/tests");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&dir)
        .map_err(|e| format!("cannot read {}: {e}", dir.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|kind| kind == "sql" || kind == "sessions"))
        .filter(|path| wanted(path))
        .collect();
    files.sort();
    let mut failed = Vec::new();
    for file in &files {
        match script_in_its_server(server, file, &servers.join("own")) {
            Ok(()) => println!("ok      {}", name_of(file)),
            Err(why) => {
                println!("FAILED  {}: {why}", name_of(file));
                failed.push(name_of(file));
            }
        }
    }
    match (files.len(), failed.len()) {
        (0, _) => Err(format!("there is no script in {}", dir.display())),
        (all, 0) => {
            println!("{all} scripts passed");
            Ok(())
        }
        _ => Err(format!("scripts failed: {}", failed.join(", "))),
    }
}

/// Runs one script in the common server, or in one of its own in `dir`.
fn script_in_its_server(server: &Server, file: &Path, dir: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let Some(options) = Head::of(file, &text).server() else { return script(server, file, &text) };
    let own = server::start(dir, LIFE, &options)?;
    let outcome = script(&own, file, &text);
    outcome.and(server::stop(dir)).and(std::fs::remove_dir_all(dir).map_err(|e| e.to_string()))
}

/// Runs one script, `text`, and compares what it prints.
fn script(server: &Server, file: &Path, text: &str) -> Result<(), String> {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let (mut updated, head) = (BTreeSet::new(), Head::of(file, text));
    for variant in head.variants() {
        output(server.client().args(["--execute", "DROP DATABASE IF EXISTS test; CREATE DATABASE test"]))?;
        let mut found = match variants::is_sql(file) {
            true => printed_by(server, &name_of(file), text, &variant),
            false => sessions::run(server, text, &variant),
        }
        .map(|printed| variant.in_common(printed))?;
        if let Some(column) = head.rounded_column() {
            found = variants::rounded(&found, column);
        }
        let expected = file.with_extension(variant.extension());
        // What the first run prints is expected of the others.
        if update && updated.insert(expected.clone()) {
            std::fs::write(&expected, &found).map_err(|e| format!("{}: {e}", expected.display()))?;
        }
        let wanted =
            std::fs::read_to_string(&expected).map_err(|e| format!("{}: {e}", expected.display()))?;
        if let Some(difference) = first_difference(&wanted, &found) {
            return Err(format!("{variant:?}: {difference}"));
        }
    }
    Ok(())
}

/// Runs the SQL script `name`, `text`, and returns what the client prints.
fn printed_by(server: &Server, name: &str, text: &str, variant: &Variant<'_>) -> Result<String, String> {
    let dir = target().join("printed");
    make_dir(&dir)?;
    let (printed, script) = (dir.join(name), dir.join(format!("{name}.sql")));
    // In the first line, so that the places of errors are those of the script.
    std::fs::write(&script, variant.statements() + text).map_err(|e| format!("{}: {e}", script.display()))?;
    let input = File::open(&script).map_err(|e| format!("{}: {e}", script.display()))?;
    let out = File::create(&printed).map_err(|e| format!("{}: {e}", printed.display()))?;
    let errors = out.try_clone().map_err(|e| e.to_string())?;
    let mut client = server.client();
    // One line a row, errors in their place, and a warning where there is one.
    client.args(["--batch", "--force", "--unbuffered", "--show-warnings", "--default-character-set=utf8mb4"]);
    client.arg("test").stdin(input).stdout(out).stderr(errors);
    client.status().map_err(|e| format!("cannot start the client: {e}"))?;
    std::fs::read_to_string(&printed).map_err(|e| format!("{}: {e}", printed.display()))
}

/// Returns where two texts differ first.
fn first_difference(wanted: &str, found: &str) -> Option<String> {
    let (mut left, mut right) = (wanted.lines(), found.lines());
    for number in 1.. {
        match (left.next(), right.next()) {
            (None, None) => return None,
            (wanted, found) if wanted == found => {}
            (wanted, found) => {
                let text = |line: Option<&str>| line.unwrap_or("the end").to_owned();
                return Some(format!("line {number}: wanted {:?}, found {:?}", text(wanted), text(found)));
            }
        }
    }
    None
}

/// Runs every workload with the numbers of clients of a share, then compares the indexes of each
/// table.
fn sysbench(server: &Server, share: Share) -> Result<(), String> {
    output(server.client().args(["--execute", "DROP DATABASE IF EXISTS sb; CREATE DATABASE sb"]))?;
    output(sysbench_command(server, 4).args(["oltp_read_write", "prepare"]))?;
    for workload in WORKLOADS {
        for clients in CLIENTS.into_iter().filter(|clients| share.has(&format!("{workload} {clients}"))) {
            let time = format!("--time={SECONDS}");
            let said = output(sysbench_command(server, clients).args([&time, workload, "run"]))?;
            let rate = said.lines().find_map(|line| line.trim().strip_prefix("transactions:"));
            let rate = rate.ok_or_else(|| format!("sysbench {workload} prints no transactions: {said}"))?;
            println!("{workload} {clients}: {}", rate.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        compare_indexes(server).map_err(|why| format!("after {workload}: {why}"))?;
    }
    Ok(())
}

fn name_of(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
