//! Builds the plugin: installs packages, fetches headers, compiles.

use super::places::{Profile, load_plugin_of};
use super::{compile, headers, packages};
use std::path::PathBuf;

/// Builds the plugin with the programs that tests use. The servers of this process load it.
pub(super) fn build_for_tests() -> Result<(), String> {
    build_and_load(Profile::Debug)
}

/// Builds the plugin with the programs that measurements use. The servers of this process load it.
pub(super) fn build_for_figures() -> Result<(), String> {
    build_and_load(Profile::Release)
}

/// Builds the plugin of a profile, with the programs that tests and measurements use. The servers
/// of this process load it.
pub(super) fn build_and_load(profile: Profile) -> Result<(), String> {
    packages::install(&packages::FOR_TESTS)?;
    load_plugin_of(profile);
    build(profile).map(drop)
}

/// Builds the plugin, and returns its path.
pub(super) fn build(profile: Profile) -> Result<PathBuf, String> {
    packages::install(&packages::FOR_BUILDING)?;
    let headers = headers::fetch()?;
    compile::plugin(&headers, profile)
}
