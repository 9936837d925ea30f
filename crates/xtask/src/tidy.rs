//! The structure and the style of the code, as a test: layers, file length, a first line that says what a file is for,
//! where `unsafe` may stand, and leftovers.

use std::fs;
use std::path::{Path, PathBuf};

/// Engine modules from the bottom up: each may use only those before it.
const LAYERS: &[&str] = &[
    "error",
    "options",
    "page",
    "log",
    "buffer",
    "mtr",
    "space",
    "store",
    "flush",
    "checkpoint",
    "btree",
    "lock",
    "undo",
    "mvcc",
    "recover",
    "engine",
];
/// Crates from the bottom up: each may depend only on those before it.
const CRATES: &[&str] = &["base", "metrics", "pace", "vfs", "millpond", "xtask"];
/// Files that may hold `unsafe` blocks.
const UNSAFE: &[&str] = &[
    "crates/base/src/aligned.rs",
    "crates/millpond/src/buffer/arena.rs",
    "crates/millpond/src/buffer/frame.rs",
    "crates/millpond/src/log/commit.rs",
    "crates/millpond/src/log/ring.rs",
];
/// The longest file, lines.
const LINES_MAX: usize = 600;
/// What must not be left behind. Split here, so that this file does not hold them.
const LEFTOVERS: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:"), concat!("dbg", "!(")];

/// Everything that is wrong below `root`, one line each.
pub(crate) fn problems(root: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    for path in sources(&root.join("crates")) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        check_file(&name, &text, &mut problems);
    }
    for name in CRATES {
        let manifest =
            fs::read_to_string(root.join("crates").join(name).join("Cargo.toml")).unwrap_or_default();
        check_manifest(name, &manifest, &mut problems);
    }
    problems
}

/// All Rust files below `dir`, sorted.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}

fn check_file(name: &str, text: &str, problems: &mut Vec<String>) {
    if !text.starts_with("//!") {
        problems.push(format!("{name}: the first line is not `//!` saying what the file is for"));
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        problems.push(format!(
            "{name}: {lines} lines, at most {LINES_MAX} serve; which idea wants its own file?"
        ));
    }
    for (n, line) in text.lines().enumerate() {
        let n = n + 1;
        for word in LEFTOVERS {
            if line.contains(word) {
                problems.push(format!("{name}:{n}: {word} left behind"));
            }
        }
        let code = line.split("//").next().unwrap_or("");
        if (code.contains("unsafe {") || code.contains("unsafe impl") || code.contains("unsafe fn"))
            && !name.ends_with("tidy.rs")
            && !UNSAFE.contains(&name)
        {
            problems.push(format!("{name}:{n}: `unsafe` outside the files that may hold it"));
        }
    }
    if let Some(inside) = name.strip_prefix("crates/millpond/src/") {
        check_layers(name, inside, text, problems);
    }
}

/// The engine module that a file belongs to.
fn module(inside: &str) -> &str {
    inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs")
}

fn check_layers(name: &str, inside: &str, text: &str, problems: &mut Vec<String>) {
    let own = module(inside);
    let is_test = inside.ends_with("tests.rs") || inside.contains("/tests/");
    if own == "lib" || is_test {
        return;
    }
    let Some(own_layer) = LAYERS.iter().position(|l| *l == own) else {
        return problems.push(format!("{name}: module {own} has no place in the order of layers"));
    };
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    for (n, line) in code.lines().enumerate() {
        let line = line.split("//").next().unwrap_or("");
        for used in line.split("crate::").skip(1) {
            let used: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if let Some(layer) = LAYERS.iter().position(|l| *l == used)
                && layer > own_layer
            {
                problems.push(format!("{name}:{}: {own} uses {used}, which stands above it", n + 1));
            }
        }
    }
}

fn check_manifest(name: &str, manifest: &str, problems: &mut Vec<String>) {
    let own = CRATES.iter().position(|c| *c == name);
    for line in manifest.lines() {
        let used = line.split(['.', ' ', '=']).next().unwrap_or("");
        let used = CRATES.iter().position(|c| *c == used);
        if used.is_some() && used >= own {
            problems.push(format!("crates/{name}/Cargo.toml: `{line}` points up"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        check_file(name, text, &mut problems);
        problems
    }

    #[test]
    fn the_tree_is_tidy() {
        assert_eq!(problems(&crate::root()), Vec::<String>::new());
    }

    #[test]
    fn each_rule_can_fail() {
        let up = "//! x\nuse crate::engine::Engine;\n";
        assert_eq!(found("crates/millpond/src/log/ring.rs", up).len(), 1);
        assert_eq!(
            found("crates/millpond/src/engine.rs", "//! x\nuse crate::log::Log;\n"),
            Vec::<String>::new()
        );
        assert_eq!(found("crates/millpond/src/stray.rs", "//! x\n").len(), 1, "no layer");
        assert_eq!(found("crates/base/src/a.rs", "fn a() {}\n").len(), 1, "no first line");
        assert_eq!(found("crates/base/src/a.rs", "//! x\nunsafe { }\n").len(), 1, "unsafe");
        assert_eq!(found("crates/base/src/a.rs", &"//! x\n".repeat(LINES_MAX + 1)).len(), 1, "too long");
        let left = format!("//! x\n// {}\n", LEFTOVERS[0]);
        assert_eq!(found("crates/base/src/a.rs", &left).len(), 1, "leftover");
        let mut problems = Vec::new();
        check_manifest("base", "vfs.workspace = true", &mut problems);
        assert_eq!(problems.len(), 1, "an edge that points up");
    }
}
