//! The program of the packages, as one static file. The C library is in it, so the same file runs
//! beside every C library and without one.
//!
//! The build has a directory of its own, because its flags change all that is compiled. No other
//! toolchain is needed: the target is the machine's own, and `libc.a` comes with the headers of C.

use super::target::Target;
use checkout::{cargo_program, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How the program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// As users get it: optimised as a whole.
    Shipped,
    /// In a fraction of the time.
    Tried,
}

impl Build {
    /// Returns the profile of cargo, and the name of its directory.
    fn profile(self) -> (&'static str, &'static str) {
        match self {
            Build::Shipped => ("packed", "packed"),
            Build::Tried => ("dev", "debug"),
        }
    }

    /// Returns what the profile has otherwise, as cargo's variables.
    fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Build::Shipped => &[],
            Build::Tried => &[("CARGO_PROFILE_DEV_OPT_LEVEL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "false")],
        }
    }
}

/// Builds the program below `dir`, and returns its bytes.
pub(super) fn build(target: Target, build: Build, dir: &Path) -> Result<Vec<u8>, String> {
    println!("building millpond for {}, static", target.triple);
    let (profile, profile_dir) = build.profile();
    let status = Command::new(cargo_program())
        .args(["build", "--quiet", "--locked", "--package", "lab", "--bin", "millpond"])
        .args(["--profile", profile, "--target", target.triple, "--target-dir"])
        .arg(dir)
        // These flags replace those of the environment. With `--target`, programs that run during
        // the build do not get them.
        .envs(build.variables().iter().copied())
        .env("CARGO_ENCODED_RUSTFLAGS", flags(&root(), cargo_home().as_deref()).join("\x1f"))
        .current_dir(root())
        .status()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !status.success() {
        return Err(
            "the static program cannot be built; does this system have libc.a (Debian: libc6-dev)?".into()
        );
    }
    let path = dir.join(target.triple).join(profile_dir).join("millpond");
    let program = std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    match needs_loader(&program) {
        Some(false) => Ok(program),
        Some(true) => Err(format!("{} needs shared libraries: it is not static", path.display())),
        None => Err(format!("{} is no program of 64 bits for Linux", path.display())),
    }
}

/// Paths of this machine stand in messages of panics. They are replaced, so that the program does
/// not depend on where it was built.
fn flags(root: &Path, cargo_home: Option<&Path>) -> Vec<String> {
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned()];
    let places = [(Some(root), "/millpond"), (cargo_home, "/cargo")];
    for (from, to) in places.into_iter().filter_map(|(from, to)| Some((from?, to))) {
        flags.push(format!("--remap-path-prefix={}={to}", from.display()));
    }
    flags
}

fn cargo_home() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home)
}

/// Tells whether an ELF program names a loader of shared libraries (a header of the kind
/// `PT_INTERP`). None if it is no ELF file of 64 bits, little-endian.
fn needs_loader(elf: &[u8]) -> Option<bool> {
    const PT_INTERP: u64 = 3;
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let digits = elf.get(at..at.checked_add(bytes)?)?;
        Some(digits.iter().rev().fold(0, |number, digit| number << 8 | u64::from(*digit)))
    };
    let (table, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for header in 0..count {
        let at = usize::try_from(table.checked_add(header * size)?).ok()?;
        if number(at, 4)? == PT_INTERP {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with program headers of these kinds.
    fn elf(kinds: &[u8]) -> Vec<u8> {
        let mut elf = vec![0; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (elf[32], elf[54], elf[56]) = (64, 56, kinds.len() as u8);
        for kind in kinds {
            let start = elf.len();
            elf.resize(start + 56, 0);
            elf[start] = *kind;
        }
        elf
    }

    #[test]
    fn a_static_program_names_no_loader() {
        assert_eq!(needs_loader(&elf(&[1, 2, 1])), Some(false));
        assert_eq!(needs_loader(&elf(&[1, 3])), Some(true));
        let tests = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(needs_loader(&tests), Some(!cfg!(target_feature = "crt-static")));
    }

    #[test]
    fn what_is_no_whole_program_is_refused() {
        assert_eq!((needs_loader(b"#!/bin/sh"), needs_loader(b"\x7fELF\x02\x01")), (None, None));
        assert_eq!(needs_loader(&elf(&[1, 1])[..100]), None);
    }

    #[test]
    fn the_flags_hide_where_it_was_built() {
        let flags = flags(Path::new("/a/b"), Some(Path::new("/c")));
        assert_eq!(flags[1..], ["--remap-path-prefix=/a/b=/millpond", "--remap-path-prefix=/c=/cargo"]);
    }
}
