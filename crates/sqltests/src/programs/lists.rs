//! The lists of `mariadb/programs`.

use checkout::root;
use std::path::PathBuf;

/// Returns the directory of the lists.
pub(super) fn list_dir() -> PathBuf {
    root().join("mariadb/programs")
}

/// Returns the text of a list.
pub(super) fn read(list: &str) -> Result<String, String> {
    let file = list_dir().join(list);
    std::fs::read_to_string(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))
}
