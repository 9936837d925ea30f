//! The layers: which crates a crate may use, and which modules a module of the engine may use. Only
//! those below it. Tests may use all.

use super::problem::Report;
use super::reach::Reach;
use super::source::{File, Tree, is_ident, line_of, whole_words, without_tests};
use std::collections::BTreeMap;

/// The crates, and the crates that each may depend on. A new dependency is a change here, so that a
/// reviewer sees it.
const CRATES: &[(&str, &[&str])] = &[
    ("args", &[]),
    ("base", &[]),
    ("cuts", &["base"]),
    ("metrics", &["base"]),
    ("pace", &[]),
    ("vfs", &["base"]),
    ("millpond", &["base", "vfs", "metrics", "pace"]),
    ("sim", &["args", "base", "vfs", "metrics", "pace", "millpond"]),
    ("history", &["args", "base", "vfs", "millpond"]),
    ("ffi", &["base", "vfs", "metrics", "millpond"]),
    ("output", &["base", "metrics", "millpond"]),
    ("client", &["base", "output"]),
    ("watch", &["base", "client", "metrics", "millpond", "output"]),
    ("lab", &["args", "base", "cuts", "vfs", "metrics", "pace", "millpond", "output", "client", "watch"]),
    ("compare", &["base", "metrics", "millpond", "lab"]),
    ("against", &["millpond"]),
    ("checkout", &[]),
    ("sqltests", &["args", "base", "checkout", "cuts"]),
    ("xtask", &["args", "checkout"]),
];

/// The engine's modules from the bottom up. `lib.rs` is above all of them.
const MODULES: &[&str] = &[
    "planted",
    "role",
    "error",
    "options",
    "ballast",
    "environment",
    "recorder",
    "page",
    "page_file",
    "log",
    "buffer",
    "mtr",
    "space",
    "tree_store",
    "flush",
    "checkpoint",
    "btree",
    "lock",
    "undo",
    "mvcc",
    "txn",
    "recover",
    "engine",
    "fuzz",
    "catalog",
    "table_handle",
    "db",
    "sim",
    "inspect",
    "rescue",
];

const ENGINE: &str = "crates/millpond/src/";

pub(super) fn check(tree: &Tree, reach: &Reach, report: &mut Report<'_>) {
    for file in &tree.files {
        if let Some(name) = file.path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml")) {
            check_manifest(name, file, report);
        }
    }
    let exports = tree.get(&format!("{ENGINE}lib.rs")).map(exports).unwrap_or_default();
    for file in tree.rust() {
        let Some(inside) = file.path.strip_prefix(ENGINE) else { continue };
        if inside != "lib.rs" && !inside.starts_with("bin/") && !reach.is_test(&file.path) {
            check_module(inside, file, &exports, report);
        }
    }
}

/// Checks `[dependencies]`. All `[dev-dependencies]` are allowed.
fn check_manifest(name: &str, file: &File, report: &mut Report<'_>) {
    let Some((_, allowed)) = CRATES.iter().find(|(n, _)| *n == name) else {
        return report(
            &file.path,
            1,
            format!("crate {name} has no place in the order of crates (xtask, layers.rs)"),
        );
    };
    let mut section = "";
    for (n, line) in file.text.lines().enumerate() {
        if line.starts_with('[') {
            section = line;
        }
        let used = line.split(['.', ' ', '=']).next().unwrap_or("");
        let is_ours = CRATES.iter().any(|(n, _)| *n == used);
        if section.ends_with("dependencies]")
            && !section.contains("dev-dependencies")
            && is_ours
            && !allowed.contains(&used)
        {
            report(&file.path, n + 1, format!("{name} may not depend on {used}"));
        }
    }
}

/// Returns the names that `lib.rs` re-exports, and the module of each.
fn exports(lib: &File) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for at in whole_words(&lib.code, "use") {
        let statement = lib.code[at + 3..].split(';').next().unwrap_or("").trim();
        let path = statement.trim_start_matches("crate::").trim_start_matches("self::");
        let Some((module, names)) = path.split_once("::") else { continue };
        for name in names.split(|c| !is_ident(c)).filter(|n| n.starts_with(char::is_uppercase)) {
            found.insert(name.to_owned(), module.to_owned());
        }
    }
    found
}

fn check_module(inside: &str, file: &File, exports: &BTreeMap<String, String>, report: &mut Report<'_>) {
    let own = inside.split('/').next().unwrap_or(inside).trim_end_matches(".rs");
    let Some(own_place) = MODULES.iter().position(|m| *m == own) else {
        return report(
            &file.path,
            1,
            format!("module {own} has no place in the order of modules (xtask, layers.rs)"),
        );
    };
    let code = without_tests(&file.code);
    for (offset, name) in uses(inside, &code) {
        let module = exports.get(&name).unwrap_or(&name);
        if let Some(place) = MODULES.iter().position(|m| m == module)
            && place > own_place
        {
            report(&file.path, line_of(&code, offset), format!("{own} uses {module}, which stands above it"));
        }
    }
}

/// Returns the modules that code uses from the crate's root: by `crate::x`, by `crate::{x::…, y}`,
/// or by as many `super::` as lead to the root.
fn uses(inside: &str, code: &str) -> Vec<(usize, String)> {
    let parts = inside.split('/').count();
    let depth = if inside.ends_with("/mod.rs") { parts - 1 } else { parts };
    let to_root = "super::".repeat(depth);
    let mut found = Vec::new();
    for prefix in ["crate::", to_root.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            let before = code[..at].chars().next_back().unwrap_or(' ');
            if is_ident(before) || before == ':' {
                continue;
            }
            let rest = &code[at + prefix.len()..];
            if let Some(group) = rest.strip_prefix('{') {
                found.extend(heads(group).map(|(i, name)| (at + prefix.len() + 1 + i, name)));
            } else {
                found.push((at, rest.chars().take_while(|c| is_ident(*c)).collect()));
            }
        }
    }
    found
}

/// Returns the first name of each member of a `{…}` group.
fn heads(group: &str) -> impl Iterator<Item = (usize, String)> {
    let mut found = Vec::new();
    let (mut depth, mut expect) = (1, true);
    for (i, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            ',' if depth == 1 => expect = true,
            c if is_ident(c) && expect => {
                found.push((i, group[i..].chars().take_while(|c| is_ident(*c)).collect()));
                expect = false;
            }
            _ => {}
        }
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::super::made;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        made::found(files, check)
    }

    #[test]
    fn crates_point_down() {
        let text = "[dependencies]\nvfs.workspace = true\n[dev-dependencies]\nmillpond = { path = \"x\" }\n";
        assert_eq!(
            found(&[("crates/base/Cargo.toml", text)]),
            ["crates/base/Cargo.toml:2: base may not depend on vfs"]
        );
        assert!(found(&[("crates/millpond/Cargo.toml", text)]).is_empty());
        assert_eq!(found(&[("crates/stray/Cargo.toml", "")]).len(), 1);
    }

    #[test]
    fn modules_point_down() {
        let lib = ("crates/millpond/src/lib.rs", "mod log; mod db; mod stray; pub use db::{Db, Options};");
        let log = |text| found(&[lib, ("crates/millpond/src/log.rs", text)]);
        assert!(log("use crate::page::Header; // crate::db\n").is_empty());
        for up in [
            "use crate::db::Db;",
            "use crate::Db;",
            "use crate::{error, db::{self, Db}};",
            "fn f() { super::db::x() }",
        ] {
            assert_eq!(log(up), ["crates/millpond/src/log.rs:1: log uses db, which stands above it"], "{up}");
        }
        assert!(log("#[cfg(test)]\nmod tests { use crate::db::Db; }").is_empty());
        let nested = found(&[
            lib,
            ("crates/millpond/src/log/mod.rs", "mod ring;"),
            ("crates/millpond/src/log/ring.rs", "//!\nuse super::super::table_handle::T;\nuse super::db;\n"),
        ]);
        assert_eq!(
            nested,
            ["crates/millpond/src/log/ring.rs:2: log uses table_handle, which stands above it"]
        );
        assert_eq!(found(&[lib, ("crates/millpond/src/stray.rs", "")]).len(), 1);
    }
}
