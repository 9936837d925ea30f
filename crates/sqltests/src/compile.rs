//! Compiles and links the plugin.

use super::compiler::{compiler, sources};
use super::headers::Headers;
use super::{layout, make_dir, output, plugin_path, target};
use checkout::cargo;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Warnings that the plugin's own code must not have.
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"];

/// What is said of a panic.
const FAILED: &str = "a compiling thread has failed";

/// Builds the plugin, and returns its path.
pub(super) fn plugin(headers: &Headers) -> Result<PathBuf, String> {
    let objects = target().join("objects");
    make_dir(&objects)?;
    if !headers.are_exact() {
        layout::check(headers)?;
        println!("headers of {} fit the server {}", headers.version, headers.server);
    }
    // The engine is one unit of code, which keeps one processor busy. So the plugin's own files are
    // compiled beside it.
    let compiled = std::thread::scope(|scope| {
        let own = scope.spawn(|| compile_own(headers, &objects));
        let engine = cargo(&["build", "--release", "--package", "millpond-ffi"]);
        engine.and(own.join().unwrap_or_else(|_| Err(FAILED.to_owned())))
    })?;
    link(&compiled)
}

/// Compiles the plugin's own files, and returns the objects.
fn compile_own(headers: &Headers, objects: &Path) -> Result<Vec<PathBuf>, String> {
    // The server's headers take most of the time; they are compiled once for all files.
    let precompiled = objects.join("server.h.gch");
    let mut compiler = compiler(headers);
    output(compiler.args(["-x", "c++-header", "-o"]).arg(&precompiled).arg(sources().join("server.h")))?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(sources())
        .map_err(|e| format!("cannot read {}: {e}", sources().display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "cc"))
        .collect();
    files.sort();
    compile_all(headers, &files, objects)
}

/// Compiles all files, as many at once as there are processors.
fn compile_all(headers: &Headers, files: &[PathBuf], objects: &Path) -> Result<Vec<PathBuf>, String> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut done = Vec::new();
    for some in files.chunks(processors) {
        let results: Vec<Result<PathBuf, String>> = std::thread::scope(|scope| {
            let running: Vec<_> =
                some.iter().map(|file| scope.spawn(|| compile(headers, file, objects))).collect();
            let failed = |_| Err(FAILED.to_owned());
            running.into_iter().map(|thread| thread.join().unwrap_or_else(failed)).collect()
        });
        for result in results {
            done.push(result?);
        }
    }
    Ok(done)
}

fn compile(headers: &Headers, file: &Path, objects: &Path) -> Result<PathBuf, String> {
    let object = objects.join(file.file_name().unwrap_or_default()).with_extension("o");
    let mut compiler = compiler(headers);
    // The directory of the precompiled header comes first, so that `server.h` means that one.
    compiler.arg("-include").arg(objects.join("server.h")).args(WARNINGS);
    output(compiler.arg("-c").arg("-o").arg(&object).arg(file)).map(|_| object)
}

/// Links the plugin. The engine has thread-locals, so the library can never be unloaded. The
/// symbols of `libmysqlservices` stay visible: the server puts its services there.
fn link(objects: &[PathBuf]) -> Result<PathBuf, String> {
    let release = target().parent().map(|dir| dir.join("release")).unwrap_or_default();
    let plugin = plugin_path();
    let mut linker = Command::new("g++");
    linker.args(["-shared", "-o"]).arg(&plugin).args(objects).arg(release.join("libmillpond_ffi.a"));
    linker.args([
        "-lmysqlservices",
        "-Wl,-z,nodelete",
        "-Wl,--gc-sections",
        "-Wl,--exclude-libs,libmillpond_ffi.a",
    ]);
    output(linker.args(["-lpthread", "-ldl", "-lm"])).map(|_| plugin)
}
