//! Installs each package into an empty directory, as its users do, and runs the program there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What each installed program must do, besides telling its version.
const RUN: [&str; 7] = ["run", "--seconds", "1", "--rows", "1000", "--tables", "1"];

/// The files of the packages.
pub(super) struct Files {
    pub(super) wheel: PathBuf,
    pub(super) npm: PathBuf,
    pub(super) deb: PathBuf,
}

/// Installs one package into a directory. Returns the program.
type Install = fn(&Path, &Path) -> Result<PathBuf, String>;

/// Checks all packages. Works below `place`, which is removed if nothing is wrong.
pub(super) fn check(files: &Files, version: &str, place: &Path) -> Result<(), String> {
    if place.exists() {
        fs::remove_dir_all(place).map_err(|e| format!("{}: {e}", place.display()))?;
    }
    let all: [(&str, &Path, Install); 3] =
        [("wheel", &files.wheel, pip), ("npm", &files.npm, npm), ("deb", &files.deb, dpkg)];
    for (name, file, install) in all {
        let dir = place.join(name);
        let empty = make(&dir.join("empty"))?;
        let program = install(file, &dir).map_err(|what| format!("{}: {what}", file.display()))?;
        let said = run(&mut clean(&program, &empty, &["--version"]))?;
        if said.trim() != format!("millpond {version}") {
            return Err(format!("{}: the program says it is {:?}", file.display(), said.trim()));
        }
        run(&mut clean(&program, &empty, &RUN))?;
        println!("{name}: `millpond {}` works", RUN.join(" "));
    }
    fs::remove_dir_all(place).map_err(|e| format!("{}: {e}", place.display()))
}

/// Installs a wheel into a virtual environment, without an index of packages.
fn pip(file: &Path, dir: &Path) -> Result<PathBuf, String> {
    let venv = dir.join("venv");
    let make = || run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
    if let Err(what) = make() {
        // Debian's Python has the module `venv`, but not the pip that goes into it.
        apt("python3-venv").map_err(|why| format!("{what}; {why}"))?;
        make()?;
    }
    let quiet = ["install", "--quiet", "--no-index", "--disable-pip-version-check"];
    run(Command::new(venv.join("bin/python")).args(["-m", "pip"]).args(quiet).arg(file))?;
    Ok(venv.join("bin/millpond"))
}

/// Installs an npm package. Without npm, which is large, the archive is only unpacked.
fn npm(file: &Path, dir: &Path) -> Result<PathBuf, String> {
    if Command::new("npm").arg("--version").output().is_err() {
        println!("npm: is not installed, so the package is only unpacked");
        run(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(dir))?;
        return Ok(dir.join("package/bin/millpond"));
    }
    let mut npm = Command::new("npm");
    npm.args(["install", "--offline", "--no-audit", "--no-fund", "--prefix"]).arg(dir);
    run(npm.arg("--cache").arg(dir.join("cache")).arg(file))?;
    Ok(dir.join("node_modules/.bin/millpond"))
}

/// Installs a Debian package into a root of its own. Where there is no dpkg, `ar` and `tar` unpack
/// it.
fn dpkg(file: &Path, dir: &Path) -> Result<PathBuf, String> {
    let root = make(&dir.join("root"))?;
    let program = root.join("usr/bin/millpond");
    if Command::new("dpkg").arg("--version").output().is_err() {
        println!("deb: dpkg is not installed, so the package is only unpacked");
        run(Command::new("ar").arg("x").arg(file).current_dir(dir))?;
        run(Command::new("tar").args(["-xzf", "data.tar.gz", "-C", "root"]).current_dir(dir))?;
        return Ok(program);
    }
    let state = make(&root.join("var/lib/dpkg/info"))?;
    make(&root.join("var/lib/dpkg/updates"))?;
    fs::write(state.with_file_name("status"), "").map_err(|e| format!("{}: {e}", state.display()))?;
    let mut dpkg = Command::new("dpkg");
    // Without root, dpkg asks for the programs that maintainers' scripts use; there are none here.
    dpkg.args(["--force-not-root", "--force-bad-path", "--log=/dev/null"]);
    run(dpkg.arg(format!("--root={}", root.display())).arg("--install").arg(file))?;
    Ok(program)
}

/// Installs a package of Debian, as root.
fn apt(package: &str) -> Result<(), String> {
    println!("apt-get install {package}");
    let apt = |words: &[&str]| {
        run(Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet").args(words))
    };
    let install = ["install", "--yes", "--no-install-recommends", package];
    let done = apt(&["update"]).and_then(|_| apt(&install));
    done.map(drop).map_err(|_| format!("as root: apt-get install {package}"))
}

/// Returns a program that gets nothing of this environment.
fn clean(program: &Path, dir: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(words).env_clear().current_dir(dir);
    command
}

/// Returns what a program prints.
fn run(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("cannot start {program}: {e}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    // pip and venv write some errors to their output.
    let said = [out.stdout, out.stderr].concat();
    Err(format!("{program} failed ({}): {}", out.status, String::from_utf8_lossy(&said).trim()))
}

fn make(dir: &Path) -> Result<PathBuf, String> {
    fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(dir.to_owned())
}
