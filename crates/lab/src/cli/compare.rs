//! `millpond compare`: runs `millpond-compare`, which is a separate program because the engines
//! that it includes are large. If it is not installed and the current directory is in a checkout,
//! cargo builds it.

use output::failure::{Failure, Outcome};
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "millpond-compare";
/// Its manifest in a checkout, relative to the root.
const MANIFEST: &str = "crates/compare/Cargo.toml";
/// Its peers besides Millpond; each is a feature of that name.
const PEERS: &[&str] = &["redb", "fjall", "lmdb", "sqlite", "tidesdb", "rocksdb"];
/// The peers that take part by default: written in Rust, and built in a minute.
const DEFAULT_PEERS: &str = "redb,fjall";

/// Do the same work on Millpond and on other embedded engines
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Compare {
    /// Engines to compare with: redb, fjall, lmdb, sqlite, tidesdb, rocksdb [default: redb,fjall,
    /// or all that are built in]
    #[arg(long, value_name = "LIST")]
    peers: Option<String>,
    /// Flags of millpond-compare
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    flags: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Flags of millpond-compare:
      --only <LIST>          Which work [default: all]
      --rows <ROWS>          Rows of each database [default: 1000000]
      --seconds <S>          How long each peer does each work [default: 5]
      --rounds <ROUNDS>      How often all of it is done, from fresh databases [default: 3]
      --churn-minutes <M>    Updates before the size on disk is taken again [default: 1]
      --cache <MIB>          Memory that each peer may use for pages or blocks [default: 1024]
      --db <DIR>             Where to make the databases [default: a new directory here, removed at the end]
      --json <FILE>          Write everything that was measured
      --plots <DIR>          Write a bar chart for each work";

impl Compare {
    pub(crate) fn run(self) -> Outcome {
        let features = match self.peers()? {
            Some(list) => features(&list)?,
            None => DEFAULT_PEERS.to_owned(),
        };
        let mut flags = self.flags;
        if let Some(list) = self.peers {
            flags.splice(0..0, ["--peers".into(), list.into()]);
        }
        if let Some(program) = installed() {
            return Err(cannot("start", &program, &Command::new(&program).args(&flags).exec()));
        }
        let Some(manifest) = in_checkout() else {
            return Err(Failure::failed(format!(
                "there is no {PROGRAM} next to this program or on PATH, and no checkout of Millpond here that has {MANIFEST} to build it from"
            )));
        };
        let peers = if features.is_empty() { "no other engine" } else { &features };
        eprintln!("millpond: builds {} with {peers}; the first time takes a while", manifest.display());
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let ask = |command: &str| {
            let mut asked = Command::new(&cargo);
            asked.args([command, "--release", "--no-default-features", "--features", &features]);
            asked.arg("--manifest-path").arg(&manifest);
            asked
        };
        // Builds first, so a failed build has its own exit status.
        match ask("build").status() {
            Ok(status) if status.success() => {}
            Ok(_) => return Err(Failure::failed(format!("cargo cannot build {}", manifest.display()))),
            Err(error) => return Err(cannot("start", Path::new(&cargo), &error)),
        }
        Err(cannot("start", Path::new(&cargo), &ask("run").args(["--quiet", "--"]).args(&flags).exec()))
    }

    /// Returns the list of `--peers`, at any position among the flags.
    fn peers(&self) -> Outcome<Option<String>> {
        if self.peers.is_some() {
            return Ok(self.peers.clone());
        }
        let mut flags = self.flags.iter().map(|flag| flag.to_string_lossy());
        while let Some(flag) = flags.next() {
            if let Some(list) = flag.strip_prefix("--peers=") {
                return Ok(Some(list.to_owned()));
            }
            if flag == "--peers" {
                return match flags.next() {
                    Some(list) => Ok(Some(list.into_owned())),
                    None => Err(Failure::misuse("--peers needs a list such as redb,fjall")),
                };
            }
        }
        Ok(None)
    }
}

fn cannot(what: &str, program: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot {what} {}: {error}", program.display()))
}

/// Returns the cargo features that a list of peers needs.
fn features(list: &str) -> Outcome<String> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "millpond");
    let names: Vec<&str> = names.collect();
    match names.iter().find(|name| !PEERS.contains(name)) {
        Some(name) => {
            Err(Failure::misuse(format!("there is no peer {name:?}; there are {}", PEERS.join(", "))))
        }
        None => Ok(names.join(",")),
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Returns the program next to this one or on PATH.
fn installed() -> Option<PathBuf> {
    let here = env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    let dirs = here.into_iter().chain(env::split_paths(OsStr::new(&path)));
    dirs.map(|dir| dir.join(PROGRAM)).find(|program| is_program(program))
}

/// Returns the manifest in the checkout that contains the current directory.
fn in_checkout() -> Option<PathBuf> {
    let here = env::current_dir().ok()?;
    let root =
        here.ancestors().find(|dir| dir.join("Cargo.toml").is_file() && dir.join(MANIFEST).is_file())?;
    Some(root.join(MANIFEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEIRS: &str = include_str!("../../../compare/src/main.rs");
    const MANIFEST_TEXT: &str = include_str!("../../../compare/Cargo.toml");

    /// The other program is built separately, so this test reads its source text.
    #[test]
    fn the_help_names_every_flag_and_peer_of_the_other_program() {
        let fields = THEIRS.split("#[arg(long").skip(1).filter_map(|part| part.lines().nth(1));
        let names: Vec<String> =
            fields.filter_map(|line| Some(line.trim().split_once(':')?.0.replace('_', "-"))).collect();
        assert!(names.len() >= 9, "{names:?}");
        for name in names.iter().filter(|name| *name != "peers") {
            assert!(AFTER_HELP.contains(&format!("--{name} ")), "{name}");
        }
        for peer in PEERS {
            assert!(MANIFEST_TEXT.contains(&format!("\n{peer} = [")), "{peer} is no feature there");
        }
        assert!(features(DEFAULT_PEERS).is_ok());
    }

    #[test]
    fn peers_are_found_at_any_position() {
        let asked = |flags: &[&str]| {
            let compare = Compare { peers: None, flags: flags.iter().map(OsString::from).collect() };
            compare.peers()
        };
        assert_eq!(asked(&["--rows", "5"]).unwrap(), None);
        assert_eq!(asked(&["--rows", "5", "--peers", "lmdb"]).unwrap().as_deref(), Some("lmdb"));
        assert_eq!(asked(&["--peers=sqlite,redb"]).unwrap().as_deref(), Some("sqlite,redb"));
        assert!(matches!(asked(&["--peers"]), Err(Failure::Misuse(_))));
        assert_eq!(features("millpond, lmdb,").unwrap(), "lmdb");
        assert!(matches!(features("oracle"), Err(Failure::Misuse(_))));
    }
}
