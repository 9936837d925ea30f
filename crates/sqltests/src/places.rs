//! Where what is built lies.

use std::path::PathBuf;
use std::sync::OnceLock;

/// How something is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Profile {
    /// For tests: with all assertions of the engine.
    Debug,
    /// For figures, and for use.
    Release,
}

/// The profile of the plugin that the servers of this process load.
static LOADED: OnceLock<Profile> = OnceLock::new();

/// Returns the directory of everything that is built here.
pub(super) fn target() -> PathBuf {
    checkout::target().join("mariadb")
}

/// Returns where the plugin of a profile is. Each has a path of its own, so that no measurement
/// takes the one for tests.
pub(super) fn plugin_of(profile: Profile) -> PathBuf {
    match profile {
        Profile::Debug => target().join("debug/ha_millpond.so"),
        Profile::Release => target().join("ha_millpond.so"),
    }
}

/// Lets the servers of this process load the plugin of a profile. The first call decides.
pub(super) fn load_plugin_of(profile: Profile) {
    let decided = *LOADED.get_or_init(|| profile);
    assert_eq!(decided, profile, "a process tests one plugin");
}

/// Returns the plugin that the servers of this process load: that for use, if nothing was said.
pub(super) fn plugin_path() -> PathBuf {
    plugin_of(LOADED.get().copied().unwrap_or(Profile::Release))
}
