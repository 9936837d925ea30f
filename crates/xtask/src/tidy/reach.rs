//! No dead files: every Rust file is reached by `mod` from a crate's root. Also finds which files
//! belong to tests.

use super::problem::Report;
use super::source::{Tree, is_ident, whole_words};
use std::collections::BTreeMap;

/// The files that are reached, and whether only tests use them.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// The path, and whether the file is compiled only for tests.
    reached: BTreeMap<String, bool>,
    dead: Vec<String>,
    missing: Vec<(String, usize, String)>,
}

impl Reach {
    pub(super) fn of(tree: &Tree) -> Self {
        let mut reach = Reach::default();
        for file in tree.rust() {
            if let Some(is_test) = crate_root(&file.path) {
                reach.visit(tree, &file.path, is_test, true);
            }
        }
        reach.dead = tree.rust().map(|f| f.path.clone()).filter(|p| !reach.reached.contains_key(p)).collect();
        reach
    }

    /// Whether a file is compiled only for tests.
    pub(super) fn is_test(&self, path: &str) -> bool {
        self.reached.get(path).copied().unwrap_or(false)
    }

    pub(super) fn check(&self, report: &mut Report<'_>) {
        for path in &self.dead {
            report(path, 1, "no `mod` leads here; delete the file or name it".into());
        }
        for (path, line, name) in &self.missing {
            report(path, *line, format!("`mod {name};` has no file"));
        }
    }

    fn visit(&mut self, tree: &Tree, path: &str, is_test: bool, is_root: bool) {
        let Some(file) = tree.get(path) else { return };
        let known = self.reached.get(path).copied();
        if known == Some(false) || known == Some(is_test) {
            return;
        }
        self.reached.insert(path.to_owned(), is_test);
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let below = if is_root || name == "mod.rs" {
            dir.to_owned()
        } else {
            format!("{dir}/{}", name.trim_end_matches(".rs"))
        };
        let kept = super::source::without_tests(&file.code);
        for at in whole_words(&file.code, "mod") {
            let rest = file.code[at + 3..].trim_start();
            let module: String = rest.chars().take_while(|c| is_ident(*c)).collect();
            if module.is_empty() || !rest[module.len()..].trim_start().starts_with(';') {
                continue;
            }
            // If `without_tests` has blanked it, it is under #[cfg(test)].
            let child_is_test = is_test || kept.as_bytes()[at] == b' ';
            let child = match path_attribute(&file.text, &file.code, at) {
                Some(named) => Some(joined(dir, &named)),
                None => [format!("{below}/{module}.rs"), format!("{below}/{module}/mod.rs")]
                    .into_iter()
                    .find(|p| tree.get(p).is_some()),
            };
            match child.filter(|p| tree.get(p).is_some()) {
                Some(child) => self.visit(tree, &child, child_is_test, false),
                None => {
                    let line = super::source::line_of(&file.code, at);
                    self.missing.push((path.to_owned(), line, module));
                }
            }
        }
    }
}

/// Returns the file that `#[path = "…"]` names on the line before `mod`. Offsets in `text` and
/// `code` may differ in bytes, but lines are the same.
fn path_attribute(text: &str, code: &str, at: usize) -> Option<String> {
    let line = super::source::line_of(code, at);
    let above = text.lines().nth(line.checked_sub(2)?)?.trim();
    Some(above.strip_prefix("#[path = \"")?.strip_suffix("\"]")?.to_owned())
}

/// Returns the path `named` relative to `dir`, without `..`.
fn joined(dir: &str, named: &str) -> String {
    let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
    for part in named.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// Whether cargo compiles this file as a crate root. Returns true in it if the crate is only for
/// tests.
fn crate_root(path: &str) -> Option<bool> {
    let parts: Vec<&str> = path.split('/').collect();
    // `crates/x/…`, `fuzz/…`, `loom/…` and `header/…`.
    let inside = match parts.as_slice() {
        ["crates", _, rest @ ..] | ["fuzz" | "loom" | "header", rest @ ..] => rest,
        _ => return None,
    };
    match inside {
        ["src", "lib.rs" | "main.rs"]
        | ["build.rs"]
        | ["fuzz_targets" | "examples", _]
        | ["src", "bin", _] => Some(false),
        ["src", "bin", _, "main.rs"] | ["examples", _, "main.rs"] => Some(false),
        ["tests" | "benches", _] | ["tests" | "benches", _, "main.rs"] => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_modules_and_finds_the_dead() {
        let tree = Tree::made_of(&[
            (
                "crates/a/src/lib.rs",
                "//! x\nmod b;\npub(crate) mod d;\n#[cfg(test)]\nmod t;\nmod inline { }\nmod gone;",
            ),
            ("crates/a/src/b.rs", "mod c;\n#[cfg(loom)]\n#[path = \"odd.rs\"]\nmod e;"),
            ("crates/a/src/b/c.rs", ""),
            ("crates/a/src/d/mod.rs", "mod f;"),
            ("crates/a/src/d/f.rs", ""),
            ("crates/a/src/odd.rs", ""),
            ("crates/a/src/t.rs", "mod u;"),
            ("crates/a/src/t/u.rs", ""),
            ("crates/a/src/left.rs", ""),
            ("loom/src/main.rs", "//! x\n#[path = \"../../crates/a/src/shared.rs\"]\nmod shared;"),
            ("crates/a/src/shared.rs", ""),
            ("crates/a/examples/small.rs", ""),
            ("crates/a/examples/large/main.rs", "mod part;"),
            ("crates/a/examples/large/part.rs", ""),
            ("crates/a/examples/large/old.rs", ""),
            ("crates/a/tests/durable.rs", "mod common;"),
            ("crates/a/tests/common/mod.rs", ""),
        ]);
        let reach = Reach::of(&tree);
        assert_eq!(reach.dead, ["crates/a/src/left.rs", "crates/a/examples/large/old.rs"]);
        assert_eq!(reach.missing, [("crates/a/src/lib.rs".to_owned(), 7, "gone".to_owned())]);
        let tests: Vec<&str> = tree.rust().map(|f| f.path.as_str()).filter(|p| reach.is_test(p)).collect();
        assert_eq!(
            tests,
            [
                "crates/a/src/t.rs",
                "crates/a/src/t/u.rs",
                "crates/a/tests/durable.rs",
                "crates/a/tests/common/mod.rs"
            ]
        );
    }
}
