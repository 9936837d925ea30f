//! The checkout, and cargo and git at work in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// What `cargo test` tests: all crates, with the engine's planted mistakes, which the simulator
/// must find. Commands with the same words share what they build; other words mean other features
/// of some package, and all that depends on it is built once more.
pub const TESTED: [&str; 3] = ["--workspace", "--features", "millpond/planted"];

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/checkout lies two below")
        .to_owned()
}

/// Returns the directory of what cargo builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Returns the seed of checks that are random: it follows from the commit. Without git it is 1.
pub fn seed() -> u32 {
    let hash = git(&["rev-parse", "--short=8", "HEAD"]).ok();
    hash.and_then(|hash| u32::from_str_radix(hash.trim(), 16).ok()).unwrap_or(1)
}

/// Runs a check, and prints its name and how long it took.
///
/// # Errors
///
/// That of the check, behind its name.
pub fn step(name: &str, run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    println!("== {name}");
    let start = Instant::now();
    run().map_err(|what| format!("{name}: {what}"))?;
    println!("== {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Returns the program cargo: the one that runs this.
pub fn cargo_program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs cargo in the checkout, and prints its arguments.
///
/// # Errors
///
/// A sentence, if cargo fails.
pub fn cargo(args: &[&str]) -> Result<(), String> {
    cargo_with(args, &[])
}

/// The same with variables of the environment.
///
/// # Errors
///
/// A sentence, if cargo fails.
pub fn cargo_with(args: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
    let set: String = variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    println!("{set}cargo {}", args.join(" "));
    let status = Command::new(cargo_program())
        .args(args)
        .current_dir(root())
        .env("RUSTDOCFLAGS", "-D warnings")
        .envs(variables.iter().copied())
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {} failed", args.join(" "))) }
}

/// Returns what git prints in the checkout.
///
/// # Errors
///
/// What git says, if it fails.
pub fn git(args: &[&str]) -> Result<String, String> {
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
