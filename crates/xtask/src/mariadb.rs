//! `cargo xtask mariadb`: the program of the crate `sqltests`. That crate has dependencies that the
//! other checks can do without.

use checkout::{cargo, cargo_program, root};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Becomes the program, with its status. Returns only if cargo cannot be started: why not. Paths in
/// the words are relative to the working directory, which stays.
pub(crate) fn become_program(words: &[OsString]) -> String {
    let mut command = Command::new(cargo_program());
    command.args(["run", "--quiet", "--package", "sqltests", "--manifest-path"]);
    let error = command.arg(root().join("Cargo.toml")).arg("--").args(words).exec();
    format!("cannot start cargo: {error}")
}

/// The checks of the plugin: builds it and runs its tests. Elsewhere than on Debian, and where
/// packages are missing and the user is not root, this is an error that names the packages.
pub(crate) fn check() -> Result<(), String> {
    cargo(&["run", "--quiet", "--package", "sqltests", "--", "test"])
}
