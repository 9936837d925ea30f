//! The compiler of the plugin's files, with the headers that they need.

use super::headers::Headers;
use checkout::root;
use std::path::PathBuf;
use std::process::Command;

/// Returns the compiler with everything that any file of the plugin needs.
///
/// The installed headers come before those of the source: they have the configuration and the
/// version of the installed server.
pub(super) fn compiler(headers: &Headers) -> Command {
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-O2", "-g1", "-fPIC", "-fvisibility=hidden"]);
    compiler.args([
        "-DMYSQL_DYNAMIC_PLUGIN",
        "-DHAVE_CONFIG_H",
        "-DDISABLE_DTRACE",
        "-DDBUG_OFF",
        "-DNDEBUG",
    ]);
    compiler.arg("-isystem").arg("/usr/include/mariadb/server");
    for part in ["include", "sql", "wsrep-lib/include", "wsrep-lib/wsrep-API/v26"] {
        compiler.arg("-isystem").arg(headers.source.join(part));
    }
    compiler.arg("-I").arg(sources()).arg("-I").arg(interface());
    compiler
}

/// Returns the directory of the engine's C interface.
pub(super) fn interface() -> PathBuf {
    root().join("crates/ffi/include")
}

/// Returns the directory of the plugin's files.
pub(super) fn sources() -> PathBuf {
    root().join("mariadb/plugin")
}
