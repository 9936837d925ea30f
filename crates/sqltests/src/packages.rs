//! Debian's packages: which ones are needed, and their installation.

use super::{is_root, make_dir, output, target};
use std::path::PathBuf;
use std::process::Command;

/// The server without its service: nothing starts and nothing listens after the installation.
pub(super) const SERVER: &str = "mariadb-server-core";

/// Packages of `mariadb build` and `mariadb start`.
pub(super) const FOR_BUILDING: [&str; 7] = [
    SERVER,
    "mariadb-client-core",
    "libmariadb-dev",
    "libmariadbd-dev",
    "g++",
    "dpkg-dev",
    "ca-certificates",
];

/// What tests and measurements need besides: `mariadb-client` has `mariadb-binlog` and
/// `mariadb-dump`.
pub(super) const FOR_TESTS: [&str; 3] = ["sysbench", "openssl", "mariadb-client"];

/// Installs what is missing of `packages`; that needs root.
pub(super) fn install(packages: &[&str]) -> Result<(), String> {
    let missing: Vec<&str> = packages.iter().copied().filter(|name| version(name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let line = format!("apt-get install --no-install-recommends {}", missing.join(" "));
    if Command::new("apt-get").arg("--version").output().is_err() {
        return Err(format!("this needs Debian's packages: {}", missing.join(" ")));
    }
    if !is_root() {
        return Err(format!("packages are missing; as root: {line}"));
    }
    println!("{line}");
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet");
        apt
    };
    output(apt().arg("update"))?;
    output(apt().args(["install", "--yes", "--no-install-recommends"]).args(&missing)).map(drop)
}

/// Unpacks a package below `target` without installing it, as an installation would start a
/// service. Returns a directory in it.
pub(super) fn unpack(package: &str, inside: &str) -> Result<PathBuf, String> {
    let dir = target().join(package);
    let wanted = dir.join(inside);
    if wanted.exists() {
        return Ok(wanted);
    }
    make_dir(&dir)?;
    let fetch = || output(Command::new("apt-get").args(["download", package]).current_dir(&dir));
    if fetch().is_err() {
        output(Command::new("apt-get").args(["--quiet", "update"]))?;
        fetch()?;
    }
    let unpack = "dpkg-deb --extract *.deb . && rm *.deb";
    output(Command::new("sh").args(["-c", unpack]).current_dir(&dir))?;
    Ok(wanted)
}

/// Returns the version of an installed package.
pub(super) fn version(package: &str) -> Option<String> {
    let mut query = Command::new("dpkg-query");
    let said = output(query.args(["--show", "--showformat=${db:Status-Status} ${Version}", package])).ok()?;
    said.strip_prefix("installed ").map(str::to_owned)
}

/// Returns the source package of the server, and its version.
pub(super) fn source_of_server() -> Result<(String, String), String> {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${source:Package} ${source:Version}", SERVER]);
    let said = output(&mut query)?;
    let (name, version) = said.split_once(' ').ok_or("dpkg-query names no source package of the server")?;
    Ok((name.to_owned(), version.trim().to_owned()))
}
