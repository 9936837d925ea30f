//! All checks, the fast ones first. To add a check, add a line to [`CARGO_CHECKS`]. Those of the
//! plugin for MariaDB are apart: they install Debian's packages of the server, as root.

use crate::{api, dependencies, mariadb, package, plugin_licences, tidy};
use checkout::{TESTED, cargo, cargo_with, git, root, seed, step, target};
use std::process::Command;

/// A check that is a cargo command.
struct CargoCheck {
    name: &'static str,
    /// Arguments for cargo.
    args: &'static [&'static str],
}

/// All checks that are cargo commands.
const CARGO_CHECKS: &[CargoCheck] = &[
    CargoCheck { name: "format", args: &["fmt", "--all", "--", "--check"] },
    CargoCheck {
        name: "clippy",
        args: &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"],
    },
    // The program without its features; they are what most of its packages are for.
    CargoCheck {
        name: "clippy of the small program",
        args: &[
            "clippy",
            "--package",
            "lab",
            "--no-default-features",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    },
    CargoCheck {
        name: "documentation",
        args: &["doc", "--workspace", "--no-deps", "--document-private-items"],
    },
    // The loom models: every order of steps of latch, log ring, locks, status, snapshots and the
    // purge queue. They have a build of their own, because `--cfg loom` changes every crate.
    CargoCheck {
        name: "orders of steps",
        args: &[
            "run",
            "--manifest-path",
            "loom/Cargo.toml",
            "--config",
            "build.rustflags=[\"--cfg\",\"loom\"]",
            "--target-dir",
            "target/loom",
        ],
    },
];

/// How long the simulator runs here, on two cores.
const SIMULATOR_SECONDS: &str = "240";

/// Workloads that need many seeds and few states of each, with times of their own.
const MANY_LIVES: [(&str, &str); 2] = [("lives", "40"), ("lives-big-pages", "20")];

/// Which checks.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    /// Only those of the plugin for MariaDB: needs Debian, and root if packages are missing
    #[arg(long)]
    plugin: bool,
}

/// Runs the checks. Stops at the first failure.
pub(crate) fn run(args: Args) -> Result<(), String> {
    let before = changes()?;
    if args.plugin { step("plugin for MariaDB", mariadb::check) } else { all_but_plugin() }?;
    if changes()? == before {
        Ok(())
    } else {
        Err("a check changed files of the repository; see git status".into())
    }
}

/// Runs what needs neither MariaDB nor root. Tests that need root say so and end without it.
fn all_but_plugin() -> Result<(), String> {
    step("tidy", tidy::run)?;
    step("dependencies", check_dependencies)?;
    for check in CARGO_CHECKS {
        step(check.name, || cargo(check.args))?;
    }
    step("build of the tests", || cargo(&[&["test", "--no-run"], &TESTED[..]].concat()))?;
    // This includes the examples of the documentation, and a part of the planted mistakes.
    let seed = seed().to_string();
    step("tests", || cargo_with(&[&["test"], &TESTED[..]].concat(), &[("MILLPOND_PLANTED_SEED", &seed)]))?;
    step("public API", api::check)?;
    step("header", || header(false))?;
    // The build of the program without shared libraries, and three ways to install it.
    step("packages", package::check)?;
    step("simulator", simulate)
}

/// Checks what all crates depend on, and the licences of what is linked with MariaDB.
pub(crate) fn check_dependencies() -> Result<(), String> {
    dependencies::check(plugin_licences::problems)
}

/// Runs the simulator with a seed that follows from the commit. If it finds a mistake, it prints
/// the command that replays it.
fn simulate() -> Result<(), String> {
    let seed = seed().to_string();
    simulator(&["--seconds", SIMULATOR_SECONDS, "--seed", &seed])?;
    MANY_LIVES.iter().try_for_each(|(workload, seconds)| {
        simulator(&["--seconds", seconds, "--seed", &seed, "--workload", workload])
    })
}

/// Compares the header of the C interface with its sources, or writes it. cbindgen, which makes it,
/// is in a workspace of its own.
pub(crate) fn header(write: bool) -> Result<(), String> {
    let run =
        ["run", "--quiet", "--manifest-path", "header/Cargo.toml", "--target-dir", "target/header", "--"];
    cargo(&[&run[..], if write { &["--write"] } else { &[] }].concat())
}

/// Runs the simulator that its tests have built: the same with all assertions and optimised as they
/// are. Asked for it alone, cargo would build what it depends on with other features.
fn simulator(args: &[&str]) -> Result<(), String> {
    let program = target().join("debug/sim");
    println!("{} {}", program.display(), args.join(" "));
    let ended = Command::new(&program).args(args).status();
    let status = ended.map_err(|e| format!("cannot start {}: {e}", program.display()))?;
    if status.success() { Ok(()) } else { Err(format!("{} failed", program.display())) }
}

/// Returns the changes that git sees. If they differ after the checks, a check has written to the
/// repository. Without git there is nothing to compare.
fn changes() -> Result<String, String> {
    if !root().join(".git").exists() {
        return Ok(String::new());
    }
    git(&["status", "--porcelain"])
}
