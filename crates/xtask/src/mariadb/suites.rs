//! MariaDB's own suites for storage engines, run against the plugin.
//!
//! The test driver looks for a plugin beside the server's own, so it gets a tree of links in a
//! directory of its own; nothing under `/usr` is written. The suite itself is copied, because the
//! driver patches expected results in place. `mariadb/suites` is the overlay: it names the engine,
//! and holds the differences (`.rdiff`) that are right for it.

use super::packages::install;
use super::{is_root, make_dir, output, plugin_path};
use crate::root;
use std::path::{Path, PathBuf};
use std::process::Command;

const SHARE: &str = "/usr/share/mysql";
const PLUGINS: &str = "/usr/lib/mysql/plugin";
const SUITES: &str = "storage_engine-millpond,storage_engine/trx-millpond,storage_engine/parts-millpond";
/// Some tests are skipped for root.
const USER: &str = "nobody";

/// Runs the suites, or only the named tests of them.
pub(super) fn run(tests: &[String]) -> Result<(), String> {
    install(&["mariadb-test"])?;
    let tree = std::env::temp_dir().join(format!("millpond-suites-{}", std::process::id()));
    make_tree(&tree)?;
    let program = "./mariadb-test-run.pl";
    let mut driver = if is_root() {
        output(Command::new("chown").args(["-R", "-h", USER]).arg(&tree))?;
        let mut driver = Command::new("runuser");
        driver.args(["-u", USER, "--", "perl", program]);
        driver
    } else {
        let mut driver = Command::new("perl");
        driver.arg(program);
        driver
    };
    driver.arg(format!("--vardir={}", tree.join("var").display())).arg(format!("--suite={SUITES}"));
    driver.args(["--force", "--nowarnings", "--max-test-fail=0", "--parallel=2"]).args(tests);
    driver.current_dir(tree.join("share/mysql/mysql-test"));
    let status = driver.status().map_err(|e| format!("cannot start the test driver: {e}"))?;
    if status.success() {
        return std::fs::remove_dir_all(&tree).map_err(|e| format!("{}: {e}", tree.display()));
    }
    Err(format!("tests failed; what they printed is in {}", tree.join("var").display()))
}

/// Makes the tree: links to the installed server, the plugin, a copy of the suite, and the overlay.
fn make_tree(tree: &Path) -> Result<(), String> {
    let tests = tree.join("share/mysql/mysql-test");
    for dir in [tests.join("plugin"), tests.join("suite"), tree.join("lib/mysql/plugin")] {
        make_dir(&dir)?;
    }
    link(Path::new("/usr/bin"), &tree.join("bin"))?;
    link(Path::new("/usr/sbin"), &tree.join("sbin"))?;
    link_all(Path::new(SHARE), &tree.join("share/mysql"), &["mysql-test"])?;
    link_all(&Path::new(SHARE).join("mysql-test"), &tests, &["plugin", "suite"])?;
    link_all(&Path::new(SHARE).join("mysql-test/suite"), &tests.join("suite"), &["storage_engine"])?;
    link_all(Path::new(PLUGINS), &tree.join("lib/mysql/plugin"), &[])?;
    let suite = Path::new(SHARE).join("mysql-test/suite/storage_engine");
    copy(&suite, &tests.join("suite/storage_engine"))?;
    copy(&root().join("mariadb/suites"), &tests.join("plugin/millpond"))?;
    copy(&plugin_path(), &tree.join("lib/mysql/plugin/ha_millpond.so"))
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

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    output(Command::new("cp").args(["-r", "-L"]).arg(from).arg(to)).map(drop)
}
