//! `cargo xtask package`: the program `millpond` as a wheel for pip, as a package for npm and as a
//! package for Debian. Nothing is published; docs/install.md says how one does that.

mod archive;
mod check;
mod contents;
mod deb;
mod licences;
mod npm;
mod program;
mod target;
mod wheel;

use check::Files;
use contents::Contents;
use program::Build;
use std::path::{Path, PathBuf};
use target::Target;

/// Where to, and whether to try them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the packages are written [default: target/packages]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Also install each package into an empty directory, and run the program there
    #[arg(long)]
    check: bool,
}

/// A file that is not written yet: its name and its bytes.
type Packed = (String, Vec<u8>);

/// Builds the program as users get it, packs it, and prints the paths of the packages.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    make(args, Build::Shipped)
}

fn make(args: &Args, build: Build) -> Result<(), String> {
    let target = checkout::target();
    let out = args.out.clone().unwrap_or_else(|| target.join("packages"));
    let contents = contents(build, &target.join("packed"))?;
    let packed = pack(&contents)?;
    if args.check && pack(&contents)? != packed {
        return Err("the same program was packed twice, and the packages differ".into());
    }
    let [wheel, npm, deb] = packed;
    let files = Files { wheel: write(&out, &wheel)?, npm: write(&out, &npm)?, deb: write(&out, &deb)? };
    if args.check {
        check::check(&files, contents.version, &target.join("packages-installed"))
    } else {
        Ok(())
    }
}

/// Runs `package --check` with a program that is not optimised: the build that users get takes
/// minutes, and the packages are made in the same way. Elsewhere than on Debian it says so and
/// ends: the licence of the C library is not where it looks for it.
pub(crate) fn check() -> Result<(), String> {
    if !Path::new("/etc/debian_version").exists() {
        println!("this system is not Debian, so no package is made");
        return Ok(());
    }
    make(&Args { out: None, check: true }, Build::Tried)
}

fn contents(build: Build, build_dir: &Path) -> Result<Contents, String> {
    let target = Target::of(std::env::consts::ARCH)?;
    // The licences first: if one is missing, one knows it before the long build.
    let licences = licences::collect(target)?;
    let program = program::build(target, build, build_dir)?;
    Ok(Contents { target, version: env!("CARGO_PKG_VERSION"), program, licences })
}

fn pack(contents: &Contents) -> Result<[Packed; 3], String> {
    let failed = |e: std::io::Error| format!("cannot pack: {e}");
    Ok([
        wheel::pack(contents).map_err(failed)?,
        npm::pack(contents).map_err(failed)?,
        deb::pack(contents).map_err(failed)?,
    ])
}

/// Writes a package, and returns its path, which it prints.
fn write(out: &Path, (name, bytes): &Packed) -> Result<PathBuf, String> {
    std::fs::create_dir_all(out).map_err(|e| format!("{}: {e}", out.display()))?;
    let path = std::path::absolute(out.join(name)).map_err(|e| format!("{}: {e}", out.display()))?;
    std::fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("{}", path.display());
    Ok(path)
}
