//! Compiles and links the plugin.

use super::compiler::{compiler, interface, sources};
use super::headers::Headers;
use super::places::{Profile, plugin_of};
use super::{layout, make_dir, output, target, write};
use checkout::{TESTED, cargo, cargo_program, root};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Warnings that the plugin's own code must not have.
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"];

/// What is said of a panic.
const FAILED: &str = "a compiling thread has failed";

/// The crate of the engine's C interface, as files are named after it.
const ENGINE: &str = "millpond_ffi";

/// Builds the plugin of a profile, and returns its path.
pub(super) fn plugin(headers: &Headers, profile: Profile) -> Result<PathBuf, String> {
    let objects = target().join("objects");
    make_dir(&objects)?;
    // A second build would compile with a precompiled header that the first one is writing. The
    // lock ends with the file.
    let lock = objects.join("LOCK");
    let lock = File::create(&lock).map_err(|e| format!("{}: {e}", lock.display()))?;
    lock.lock().map_err(|e| format!("cannot lock {}: {e}", objects.display()))?;
    if !headers.are_exact() {
        layout::check(headers)?;
        println!("headers of {} fit the server {}", headers.version, headers.server);
    }
    // The engine is one unit of code, which keeps one processor busy. So the plugin's own files are
    // compiled beside it.
    let (engine, compiled) = std::thread::scope(|scope| {
        let own = scope.spawn(|| compile_own(headers, &objects));
        let engine = engine(profile);
        let own = own.join().unwrap_or_else(|_| Err(FAILED.to_owned()));
        Ok::<_, String>((engine?, own?))
    })?;
    let plugin = plugin_of(profile);
    link(&compiled, &engine, &plugin).map(|()| plugin)
}

/// Builds the engine as a static library, and returns its path. For tests it is what the tests of
/// its C interface are linked with.
fn engine(profile: Profile) -> Result<PathBuf, String> {
    if profile == Profile::Release {
        cargo(&["build", "--release", "--package", "millpond-ffi"])?;
        return Ok(checkout::target().join(format!("release/lib{ENGINE}.a")));
    }
    let mut cargo = Command::new(cargo_program());
    cargo.args(["test", "--quiet", "--no-run", "--test", "smoke"]).args(TESTED);
    let built = output(cargo.arg("--message-format=json-render-diagnostics").current_dir(root()))?;
    let library = built.lines().find_map(static_library);
    library.ok_or_else(|| format!("cargo test has built no static library of {ENGINE}"))
}

/// Returns the engine's static library, if a line of cargo's messages says that it is built.
fn static_library(line: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message.pointer("/target/name")? != ENGINE {
        return None;
    }
    let files = message["filenames"].as_array()?.iter().filter_map(Value::as_str).map(PathBuf::from);
    files.into_iter().find(|file| file.extension().is_some_and(|extension| extension == "a"))
}

/// Compiles the plugin's own files, and returns the objects. If none of them is older than what it
/// is made of, they stay.
fn compile_own(headers: &Headers, objects: &Path) -> Result<Vec<PathBuf>, String> {
    let is_source = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "cc");
    let mut inputs = files_in(&sources())?;
    let own: Vec<PathBuf> = inputs.iter().filter(is_source).cloned().collect();
    inputs.extend(files_in(&interface())?);
    // This program has the compiler's options.
    inputs.push(std::env::current_exe().map_err(|e| format!("where this program is: {e}"))?);
    let made: Vec<PathBuf> = own.iter().map(|file| object_of(file, objects)).collect();
    let (of, with) = (objects.join("headers"), format!("{} {}", headers.version, headers.server));
    let newest = inputs.iter().map(|input| changed_at(input)).max();
    let is_newer = made.iter().all(|object| changed_at(object) > newest.flatten());
    if is_newer && std::fs::read_to_string(&of).is_ok_and(|was| was == with) {
        return Ok(made);
    }
    write(&of, "")?;
    // The server's headers take most of the time; they are compiled once for all files.
    let precompiled = objects.join("server.h.gch");
    let mut compiler = compiler(headers);
    output(compiler.args(["-x", "c++-header", "-o"]).arg(&precompiled).arg(sources().join("server.h")))?;
    let made = compile_all(headers, &own, objects)?;
    write(&of, &with).map(|()| made)
}

/// Returns the files of a directory in order.
fn files_in(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(dir).map_err(|e| format!("cannot read {}: {e}", dir.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    Ok(files)
}

/// Returns when a file was last changed, if it is there.
fn changed_at(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|file| file.modified()).ok()
}

/// Returns where the object of a source file is.
fn object_of(file: &Path, objects: &Path) -> PathBuf {
    objects.join(file.file_name().unwrap_or_default()).with_extension("o")
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
    let object = object_of(file, objects);
    let mut compiler = compiler(headers);
    // The directory of the precompiled header comes first, so that `server.h` means that one.
    compiler.arg("-include").arg(objects.join("server.h")).args(WARNINGS);
    output(compiler.arg("-c").arg("-o").arg(&object).arg(file)).map(|_| object)
}

/// Links the plugin. The engine has thread-locals, so the library can never be unloaded. The
/// symbols of `libmysqlservices` stay visible: the server puts its services there.
fn link(objects: &[PathBuf], engine: &Path, plugin: &Path) -> Result<(), String> {
    make_dir(plugin.parent().unwrap_or(plugin))?;
    let hidden = engine.file_name().unwrap_or_default().display();
    // A server may start meanwhile, with the whole file of the last build.
    let linked = plugin.with_extension("linked");
    let mut linker = Command::new("g++");
    linker.args(["-shared", "-o"]).arg(&linked).args(objects).arg(engine);
    linker.args(["-lmysqlservices", "-Wl,-z,nodelete", "-Wl,--gc-sections"]);
    linker.arg(format!("-Wl,--exclude-libs,{hidden}"));
    output(linker.args(["-lpthread", "-ldl", "-lm"]))?;
    std::fs::rename(&linked, plugin).map_err(|e| format!("{}: {e}", plugin.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_static_library_is_found_in_what_cargo_says() {
        let other = r#"{"reason":"compiler-artifact","target":{"name":"lab"},"filenames":["/t/liblab.a"]}"#;
        let engine = r#"{"reason":"compiler-artifact","target":{"name":"millpond_ffi"},
            "filenames":["/t/deps/libmillpond_ffi-3a.rlib","/t/deps/libmillpond_ffi-3a.a"]}"#;
        assert_eq!(static_library("running 3 tests"), None);
        assert_eq!(static_library(other), None);
        assert_eq!(static_library(engine), Some(PathBuf::from("/t/deps/libmillpond_ffi-3a.a")));
    }
}
