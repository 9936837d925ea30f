//! `cargo xtask ci` runs everything that must hold; `cargo xtask tidy` only the checks of structure and style.

mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const USAGE: &str = "usage: cargo xtask ci | tidy";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => ci(),
        ["tidy"] => run_tidy(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("xtask: {what}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/xtask lies two below").to_owned()
}

fn run_tidy() -> Result<(), String> {
    let problems = tidy::problems(&root());
    problems.iter().for_each(|p| eprintln!("{p}"));
    if problems.is_empty() {
        Ok(())
    } else {
        Err(format!("{} problems of structure or style", problems.len()))
    }
}

fn ci() -> Result<(), String> {
    step("tidy", run_tidy)?;
    step("format", || cargo(&["fmt", "--all", "--", "--check"]))?;
    step("clippy", || {
        cargo(&["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"])
    })?;
    step("documentation", || cargo(&["doc", "--workspace", "--no-deps", "--document-private-items"]))?;
    step("tests", || cargo(&["test", "--workspace"]))
}

fn step(name: &str, run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    println!("== {name}");
    let start = Instant::now();
    run().map_err(|what| format!("{name}: {what}"))?;
    println!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn cargo(args: &[&str]) -> Result<(), String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(program)
        .args(args)
        .current_dir(root())
        .env("RUSTDOCFLAGS", "-D warnings")
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {} failed", args.join(" "))) }
}
