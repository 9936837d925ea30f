//! The header and the static library, as a program in C uses them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the static library that cargo has built beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let deps = test.parent().expect("a directory");
    let dirs = [deps, deps.parent().expect("a directory")];
    let files = dirs.iter().flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten());
    let libraries = files.map(|file| file.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libmillpond_ffi") && name.ends_with(".a")
    });
    let changed = |path: &PathBuf| path.metadata().and_then(|file| file.modified()).ok();
    libraries.max_by_key(changed).expect("cargo builds the static library with its tests")
}

fn run(command: &mut Command) {
    let out = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {}\n{text}", out.status);
}

#[test]
fn a_program_in_c_uses_every_part_of_the_interface() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("smoke");
    run(Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers", "-o"])
        .arg(&program)
        .arg(dir.join("smoke.c"))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm"]));
    run(&mut Command::new(&program));
}

#[test]
fn the_header_is_one_of_cpp_too() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/millpond.h");
    run(Command::new("c++")
        .args([
            "-std=c++11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsyntax-only",
            "-include",
            "stdlib.h",
            "-x",
            "c++",
        ])
        .arg(&header));
}
