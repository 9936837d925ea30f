//! Programs of another release of Debian, without installing it. apt finds and downloads the
//! packages and all that they need, C library included, with a state of its own. They are unpacked
//! into a directory. There a script takes the place of each program: it starts the program with the
//! loader and the libraries of that directory, because those of this system are older.

use super::{make_dir, output, target, write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the loader and the libraries of that release lie below its root.
const LOADER: &str = "usr/lib64/ld-linux-x86-64.so.2";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Directories below that of a release: those of apt, which it does not make, and the root.
const STATE: [&str; 4] = ["lists/partial", "archives/partial", "root", "parts"];

/// Returns the root with the packages of a release of Debian, which is unpacked once. `programs`
/// are started by a script; those that the packages do not have are left out.
pub(super) fn fetch(suite: &str, packages: &[&str], programs: &[&str]) -> Result<PathBuf, String> {
    let dir = target().join(format!("debian-{suite}"));
    let (root, whole) = (dir.join("root"), dir.join("whole"));
    if whole.exists() {
        return Ok(root);
    }
    STATE.iter().try_for_each(|name| make_dir(&dir.join(name)))?;
    write(&dir.join("status"), "")?;
    write(&dir.join("sources.list"), &format!("deb [signed-by={KEYS}] {} {suite} main\n", mirror()?))?;
    println!("downloads {} of Debian {suite}", packages.join(", "));
    output(apt(&dir).arg("update"))?;
    let install = ["install", "--yes", "--no-install-recommends", "--download-only"];
    output(apt(&dir).args(install).args(packages))?;
    let unpack = "for package in archives/*.deb; do dpkg-deb --extract $package root || exit 1; done; \
                  rm -r archives lists";
    output(Command::new("sh").args(["-c", unpack]).current_dir(&dir))?;
    for program in programs {
        run_by_script(&root, program)?;
    }
    write(&whole, "")?;
    Ok(root)
}

/// apt with all it keeps in a directory, and none of this system's packages.
fn apt(dir: &Path) -> Command {
    let mut apt = Command::new("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet");
    for (option, place) in [
        ("Dir::Etc::sourcelist", "sources.list"),
        ("Dir::Etc::sourceparts", "parts"),
        ("Dir::State", ""),
        ("Dir::State::status", "status"),
        ("Dir::Cache", ""),
    ] {
        apt.arg("-o").arg(format!("{option}={}", dir.join(place).display()));
    }
    // Another user of apt holds the system's lock, not this one.
    apt.args(["-o", "Debug::NoLocking=1"]);
    // apt's own user cannot come to the directory.
    apt.args(["-o", "APT::Sandbox::User=root"]);
    apt
}

/// Returns the mirror of Debian that this system uses.
fn mirror() -> Result<String, String> {
    let mut targets = Command::new("apt-get");
    let words = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian"];
    let said = output(targets.args(words))?;
    let first = said.lines().next().ok_or("apt-get knows no mirror of Debian; is this Debian?")?;
    Ok(first.to_owned())
}

/// Puts a script in the place of a program.
fn run_by_script(root: &Path, program: &str) -> Result<(), String> {
    let script = root.join(program);
    let moved = script.with_extension("program");
    if !script.exists() {
        return Ok(());
    }
    let failed = |e: std::io::Error| format!("{}: {e}", script.display());
    std::fs::rename(&script, &moved).map_err(failed)?;
    write(&script, &script_of(root, &moved))?;
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).map_err(failed)
}

fn script_of(root: &Path, program: &Path) -> String {
    format!(
        "#!/bin/sh\nexec '{}' --argv0 \"$0\" --library-path '{}' '{}' \"$@\"\n",
        root.join(LOADER).display(),
        root.join(LIBRARIES).display(),
        program.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_another_release_has_its_own_loader() {
        let script = script_of(Path::new("/r"), Path::new("/r/usr/sbin/mysqld.program"));
        let loader = "exec '/r/usr/lib64/ld-linux-x86-64.so.2' --argv0 \"$0\" --library-path ";
        assert!(script.contains(loader), "{script}");
        assert!(script.ends_with("'/r/usr/lib/x86_64-linux-gnu' '/r/usr/sbin/mysqld.program' \"$@\"\n"));
    }
}
