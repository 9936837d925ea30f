//! Everything that must hold, in the order in which it fails fastest. To add a check, add a line to [`HOOKS`].

use crate::{api, root, run_tidy};
use std::process::Command;
use std::time::Instant;

/// One check.
struct Hook {
    name: &'static str,
    /// Arguments for cargo.
    args: &'static [&'static str],
    when: When,
}

/// Whether a check applies.
enum When {
    Always,
    /// The cargo subcommand is installed.
    Installed(&'static str),
}

/// All checks that are cargo commands.
const HOOKS: &[Hook] = &[
    Hook { name: "format", args: &["fmt", "--all", "--", "--check"], when: When::Always },
    Hook { name: "licences and bans", args: &["deny", "check"], when: When::Installed("deny") },
    Hook {
        name: "clippy",
        args: &["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"],
        when: When::Always,
    },
    Hook {
        name: "documentation",
        args: &["doc", "--workspace", "--no-deps", "--document-private-items"],
        when: When::Always,
    },
    // Documentation examples are part of it.
    Hook { name: "tests", args: &["test", "--workspace"], when: When::Always },
    // Every order of steps over latch, log ring, locks, status, snapshots and purge's queue: built apart, for all below is.
    Hook {
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
        when: When::Always,
    },
];

/// How long the simulator explores here, on two cores; by hand it takes any number.
const SIMULATOR_SECONDS: &str = "300";

/// Runs everything; the first failure ends it.
pub(crate) fn run() -> Result<(), String> {
    let before = changes()?;
    step("tidy", run_tidy)?;
    for hook in HOOKS {
        if applies(&hook.when) {
            step(hook.name, || cargo(hook.args))?;
        } else {
            println!("== {}: skipped", hook.name);
        }
    }
    step("public surface", api::check)?;
    step("simulator", simulate)?;
    if changes()? == before {
        Ok(())
    } else {
        Err("a check changed files of the repository; see git status".into())
    }
}

/// Lets the simulator explore from a seed that each commit has for itself; a finding prints the command that replays it.
fn simulate() -> Result<(), String> {
    let seed = git(&["rev-parse", "--short=8", "HEAD"]).ok();
    let seed = seed.and_then(|hash| u32::from_str_radix(hash.trim(), 16).ok()).unwrap_or(1).to_string();
    simulator(&["--seconds", SIMULATOR_SECONDS, "--seed", &seed])
}

fn simulator(args: &[&str]) -> Result<(), String> {
    cargo(&[&["run", "--release", "--package", "sim", "--"], args].concat())
}

fn applies(when: &When) -> bool {
    match when {
        When::Always => true,
        When::Installed(subcommand) => Command::new(cargo_program())
            .args([subcommand, "--version"])
            .output()
            .is_ok_and(|out| out.status.success()),
    }
}

fn step(name: &str, run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    println!("== {name}");
    let start = Instant::now();
    run().map_err(|what| format!("{name}: {what}"))?;
    println!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn cargo_program() -> std::ffi::OsString {
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

/// What git sees as changed: the same before and after, or a check wrote where it should only look. A copy without
/// git has nothing to compare.
fn changes() -> Result<String, String> {
    if !root().join(".git").exists() {
        return Ok(String::new());
    }
    git(&["status", "--porcelain"])
}

fn git(args: &[&str]) -> Result<String, String> {
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
