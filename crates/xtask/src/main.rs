//! Checks of the repository. `cargo xtask ci` runs all checks. `cargo xtask tidy` runs only those
//! of structure and style, `cargo xtask api` only that of the public API. `cargo xtask
//! instructions` counts the instructions of an operation.

mod api;
mod ci;
mod instructions;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND
  ci            all checks: tidy, format, clippy, documentation, public API, tests, power cuts
  tidy          structure and style only: layers, lengths, columns, words, links
  api           the public API of the crate only, against docs/api.txt
  api --write   update docs/api.txt; refused if that breaks programs and CHANGELOG.md does not say so
  instructions  how many instructions an update and a read take, and where; needs valgrind";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => ci::run(),
        ["tidy"] => run_tidy(),
        ["api"] => api::check(),
        ["api", "--write"] => api::write(),
        ["instructions"] => instructions::run(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
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

/// Returns the root of the workspace.
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
