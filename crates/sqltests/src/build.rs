//! Builds the plugin: installs packages, fetches headers, compiles.

use super::{compile, headers, packages};
use std::path::PathBuf;

/// Builds the plugin for tests and measurements, with the programs that these use.
pub(super) fn build_for_tests() -> Result<(), String> {
    packages::install(&packages::FOR_TESTS)?;
    build().map(drop)
}

/// Builds the plugin, and returns its path.
pub(super) fn build() -> Result<PathBuf, String> {
    packages::install(&packages::FOR_BUILDING)?;
    let headers = headers::fetch()?;
    compile::plugin(&headers)
}
