//! A tree for MariaDB's test driver.
//!
//! The driver looks for tests and plugins beside the server's own, so it gets a directory with
//! links to the installed ones, and the plugin. Nothing under `/usr` is written.

use super::{is_root, make_dir, output, plugin_path};
use std::path::{Path, PathBuf};
use std::process::Command;

const SHARE: &str = "/usr/share/mysql";
const PLUGINS: &str = "/usr/lib/mysql/plugin";
/// Some tests are skipped for root.
const USER: &str = "nobody";

/// A file system in memory, and how much of it must be free, KiB. These tests cut no power, and
/// most of their time goes to syncs.
const MEMORY: &str = "/dev/shm";
const MEMORY_KIB_MIN: u64 = 4 << 20;

/// Returns where trees are made: where the environment says, else in memory if there is room.
pub(super) fn place() -> PathBuf {
    let free = || output(Command::new("df").args(["--output=avail", MEMORY])).ok();
    let free_kib = || free()?.lines().last()?.trim().parse::<u64>().ok();
    let is_roomy = || free_kib().is_some_and(|kib| kib >= MEMORY_KIB_MIN);
    if std::env::var_os("TMPDIR").is_none() && is_roomy() { MEMORY.into() } else { std::env::temp_dir() }
}

/// The tree.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Makes a tree. The suites and directories of tests in `copied` are left out: the caller puts
    /// copies in their place, because the driver writes into them.
    pub(super) fn new(name: &str, copied: &[&str]) -> Result<Tree, String> {
        let root = place().join(format!("millpond-{name}-{}", std::process::id()));
        let tree = Tree { root };
        let tests = tree.tests();
        for dir in [tests.join("plugin"), tests.join("suite"), tree.plugins()] {
            make_dir(&dir)?;
        }
        link(Path::new("/usr/bin"), &tree.root.join("bin"))?;
        link(Path::new("/usr/sbin"), &tree.root.join("sbin"))?;
        link_all(Path::new(SHARE), &tree.root.join("share/mysql"), &["mysql-test"])?;
        let mut others = vec!["plugin", "suite"];
        others.extend(copied);
        link_all(&installed_tests(), &tests, &others)?;
        link_all(&installed_tests().join("suite"), &tests.join("suite"), copied)?;
        link_all(Path::new(PLUGINS), &tree.plugins(), &[])?;
        copy(&plugin_path(), &tree.plugins().join("ha_millpond.so"))?;
        Ok(tree)
    }

    /// Returns the directory of the tests.
    pub(super) fn tests(&self) -> PathBuf {
        self.root.join("share/mysql/mysql-test")
    }

    /// Returns the directory of the plugins.
    pub(super) fn plugins(&self) -> PathBuf {
        self.root.join("lib/mysql/plugin")
    }

    /// Returns the directory of everything.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the test driver, which goes on after a failed test. Its servers and tests write into
    /// the directory `var` of the tree. Where root calls, it runs as another user, who gets the
    /// tree.
    pub(super) fn driver(&self, var: &str) -> Result<Command, String> {
        let program = "./mariadb-test-run.pl";
        let mut driver = if is_root() {
            output(Command::new("chown").args(["-R", "-h", USER]).arg(&self.root))?;
            let mut driver = Command::new("runuser");
            driver.args(["-u", USER, "--", "perl", program]);
            driver
        } else {
            let mut driver = Command::new("perl");
            driver.arg(program);
            driver
        };
        driver.arg(format!("--vardir={}", self.root.join(var).display()));
        driver.args(["--force", "--nowarnings", "--max-test-fail=0"]);
        driver.current_dir(self.tests());
        Ok(driver)
    }

    /// Removes the tree.
    pub(super) fn remove(self) -> Result<(), String> {
        std::fs::remove_dir_all(&self.root).map_err(|e| format!("{}: {e}", self.root.display()))
    }
}

/// Returns the directory of the installed tests.
pub(super) fn installed_tests() -> PathBuf {
    Path::new(SHARE).join("mysql-test")
}

fn link_all(from: &Path, to: &Path, but: &[&str]) -> Result<(), String> {
    let entries = std::fs::read_dir(from).map_err(|e| format!("cannot read {}: {e}", from.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default();
        if !but.iter().any(|but| *but == name) {
            link(&path, &to.join(name))?;
        }
    }
    Ok(())
}

fn link(from: &Path, to: &PathBuf) -> Result<(), String> {
    std::os::unix::fs::symlink(from, to).map_err(|e| format!("cannot link {}: {e}", to.display()))
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    output(Command::new("cp").args(["-r", "-L"]).arg(from).arg(to)).map(drop)
}
