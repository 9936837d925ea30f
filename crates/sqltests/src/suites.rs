//! MariaDB's own suites for storage engines, run against the plugin.
//!
//! The suite itself is copied, because the driver patches expected results in place.
//! `mariadb/suites` is the overlay: it names the engine, and holds the differences (`.rdiff`) that
//! are right for it. `mariadb/suites/README.md` says why each of them is right.

use super::packages::install;
use super::tree::{Tree, copy, installed_tests};
use checkout::root;

const SUITES: &str = "storage_engine-millpond,storage_engine/trx-millpond,storage_engine/parts-millpond";

/// Runs the suites, or only the named tests of them.
pub(super) fn run(tests: &[String]) -> Result<(), String> {
    install(&["mariadb-test"])?;
    let tree = Tree::new("suites", &["storage_engine"])?;
    let suite = installed_tests().join("suite/storage_engine");
    copy(&suite, &tree.tests().join("suite/storage_engine"))?;
    copy(&root().join("mariadb/suites"), &tree.tests().join("plugin/millpond"))?;
    let mut driver = tree.driver("var")?;
    driver.arg("--parallel=2").arg(format!("--suite={SUITES}")).args(tests);
    let status = driver.status().map_err(|e| format!("cannot start the test driver: {e}"))?;
    if status.success() {
        return tree.remove();
    }
    Err(format!("tests failed; what they printed is in {}", tree.root().join("var").display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the names of the overlay's files that end with `kind`, such as `trx/xa`.
    fn files(dir: &str, kind: &str) -> BTreeSet<String> {
        let overlay = root().join("mariadb/suites/storage_engine").join(dir);
        let names = std::fs::read_dir(overlay).unwrap().map(|entry| entry.unwrap().file_name());
        let names = names.filter_map(|name| Some(name.to_str()?.strip_suffix(kind)?.to_owned()));
        names.map(|name| if dir.is_empty() { name } else { format!("{dir}/{name}") }).collect()
    }

    #[test]
    fn each_difference_is_listed_with_its_reason() {
        let mut differences = BTreeSet::new();
        for dir in ["", "trx", "parts"] {
            differences.extend(files(dir, ".rdiff"));
        }
        let readme = std::fs::read_to_string(root().join("mariadb/suites/README.md")).unwrap();
        let rows = readme.lines().filter(|line| line.starts_with("| `"));
        let names = rows.filter_map(|line| line.split('|').nth(1)).flat_map(|names| names.split(','));
        let listed: BTreeSet<String> = names.map(|name| name.trim().trim_matches('`').to_owned()).collect();
        assert_eq!(differences, listed);
    }

    #[test]
    fn at_most_ten_tests_are_disabled() {
        let mut disabled = 0;
        for dir in ["", "trx", "parts"] {
            let list = root().join("mariadb/suites/storage_engine").join(dir).join("disabled.def");
            let text = std::fs::read_to_string(list).unwrap_or_default();
            disabled += text.lines().filter(|line| line.contains(':')).count();
        }
        assert!((1..=10).contains(&disabled), "{disabled}");
    }
}
