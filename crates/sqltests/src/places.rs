//! Where what is built lies.

use checkout::root;
use std::path::PathBuf;

/// Returns the directory of everything that is built here.
pub(super) fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    target.join("mariadb")
}

pub(super) fn plugin_path() -> PathBuf {
    target().join("ha_millpond.so")
}
