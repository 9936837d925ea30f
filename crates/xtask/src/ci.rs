//! All checks, the fast ones first. To add a check, add a line to [`CARGO_CHECKS`].

use crate::{api, dependencies, mariadb, root, run_tidy};
use std::process::Command;
use std::time::Instant;

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
    CargoCheck {
        name: "documentation",
        args: &["doc", "--workspace", "--no-deps", "--document-private-items"],
    },
    // This includes the examples of the documentation.
    CargoCheck { name: "tests", args: &["test", "--workspace"] },
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

/// Runs all checks. Stops at the first failure.
pub(crate) fn run() -> Result<(), String> {
    let before = changes()?;
    step("tidy", run_tidy)?;
    step("dependencies", dependencies::check)?;
    for check in CARGO_CHECKS {
        step(check.name, || cargo(check.args))?;
    }
    step("public API", api::check)?;
    step("header", || header(false))?;
    step("simulator", simulate)?;
    step("plugin for MariaDB", mariadb::check)?;
    if changes()? == before {
        Ok(())
    } else {
        Err("a check changed files of the repository; see git status".into())
    }
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

/// Returns the seed of checks that are random: it follows from the commit. Without git it is 1.
pub(crate) fn seed() -> u32 {
    let hash = git(&["rev-parse", "--short=8", "HEAD"]).ok();
    hash.and_then(|hash| u32::from_str_radix(hash.trim(), 16).ok()).unwrap_or(1)
}

/// Compares the header of the C interface with its sources, or writes it. cbindgen, which makes it,
/// is in a workspace of its own.
pub(crate) fn header(write: bool) -> Result<(), String> {
    let run =
        ["run", "--quiet", "--manifest-path", "header/Cargo.toml", "--target-dir", "target/header", "--"];
    cargo(&[&run[..], if write { &["--write"] } else { &[] }].concat())
}

fn simulator(args: &[&str]) -> Result<(), String> {
    cargo(&[&["run", "--release", "--package", "sim", "--"], args].concat())
}

/// Runs a check, and prints its name and how long it took.
pub(crate) fn step(name: &str, run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    println!("== {name}");
    let start = Instant::now();
    run().map_err(|what| format!("{name}: {what}"))?;
    println!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

pub(crate) fn cargo_program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

pub(crate) fn cargo(args: &[&str]) -> Result<(), String> {
    println!("cargo {}", args.join(" "));
    let status = Command::new(cargo_program())
        .args(args)
        .current_dir(root())
        .env("RUSTDOCFLAGS", "-D warnings")
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {} failed", args.join(" "))) }
}

/// Returns the changes that git sees. If they differ after the checks, a check has written to the
/// repository. Without git there is nothing to compare.
fn changes() -> Result<String, String> {
    if !root().join(".git").exists() {
        return Ok(String::new());
    }
    git(&["status", "--porcelain"])
}

pub(crate) fn git(args: &[&str]) -> Result<String, String> {
    let out = Command::new("git")
        .args(args)
        .current_dir(root())
        .output()
        .map_err(|e| format!("cannot start git: {e}"))?;
    if out.status.success() {
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    } else {
        Err(format!("git {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr).trim()))
    }
}
