//! Which files of a crate a file uses: every path of a `use` and of an expression is followed to
//! the file that it leads to, also through `pub use`. Methods have no path, and are not seen.

use super::reach::Reach;
use super::source::{File, Tree, is_ident, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// `pub use` that lead to `pub use` are followed so often: no more are there, but for circles.
const REEXPORTS_MAX: usize = 8;

/// The place of a file in its crate: the names of its modules. The crate's root has none.
type Module = Vec<String>;

/// One file of a crate.
#[derive(Debug)]
struct Source {
    path: String,
    /// The path of each name that the file has by `use`. Modules below it may use them all.
    names: BTreeMap<String, String>,
    /// The paths of its own code: of expressions, of types, and of `use` that is not for others.
    paths: Vec<String>,
}

/// The files of one crate that are no tests.
#[derive(Debug, Default)]
pub(super) struct CrateUses {
    sources: BTreeMap<Module, Source>,
}

impl CrateUses {
    /// Returns the files of each crate, with the crate's directory.
    pub(super) fn of(tree: &Tree, reach: &Reach) -> BTreeMap<String, CrateUses> {
        let mut crates: BTreeMap<String, CrateUses> = BTreeMap::new();
        for file in tree.rust().filter(|file| !reach.is_test(&file.path)) {
            let Some((dir, inside)) = file.path.split_once("/src/") else { continue };
            if !inside.starts_with("bin/") {
                crates.entry(dir.to_owned()).or_default().sources.insert(module_of(inside), Source::of(file));
            }
        }
        crates
    }

    /// Returns which files each file uses, by path.
    pub(super) fn edges(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        self.sources
            .iter()
            .map(|(module, source)| (source.path.as_str(), self.used(module, source)))
            .collect()
    }

    fn used(&self, module: &Module, source: &Source) -> BTreeSet<&str> {
        let targets = source.paths.iter().filter_map(|path| self.target(module, path, REEXPORTS_MAX));
        targets.filter(|target| *target != module).map(|target| self.sources[target].path.as_str()).collect()
    }

    /// Returns the file that has what `path` in `from` names, if it is of this crate.
    fn target(&self, from: &Module, path: &str, reexports: usize) -> Option<&Module> {
        let mut names = path.split("::").peekable();
        let mut at = from.clone();
        match *names.peek()? {
            "crate" => at.clear(),
            "self" | "super" => {}
            name => drop(self.below(from, name)?),
        }
        while let Some(name) = names.next_if(|name| matches!(*name, "crate" | "self" | "super")) {
            if name == "super" {
                at.pop();
            }
        }
        while let Some(deeper) = names.peek().and_then(|name| self.below(&at, name)) {
            at.clone_from(deeper);
            names.next();
        }
        let (found, source) = self.sources.get_key_value(&at)?;
        let rest: Vec<&str> = names.collect();
        let named = rest.first().and_then(|name| source.names.get(*name));
        match named {
            Some(named) if reexports > 0 => {
                let path = [&[named.as_str()], &rest[1..]].concat().join("::");
                self.target(&at, &path, reexports - 1).or(Some(found))
            }
            _ => Some(found),
        }
    }

    /// Returns the module `name` in `module`.
    fn below(&self, module: &Module, name: &str) -> Option<&Module> {
        let deeper = [module.as_slice(), &[name.to_owned()]].concat();
        self.sources.get_key_value(&deeper).map(|(module, _)| module)
    }
}

impl Source {
    fn of(file: &File) -> Source {
        let code = without_tests(&file.code);
        let (mut names, mut own, mut rest) = (BTreeMap::new(), Vec::new(), String::new());
        for statement in code.split_inclusive(';') {
            let words: Vec<&str> = statement.split_whitespace().collect();
            let Some(at) = words.iter().rposition(|word| *word == "use").filter(|_| statement.ends_with(';'))
            else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(&words[..at].join(" "));
            for (name, path) in expand(words[at + 1..].join(" ").trim_end_matches(';')) {
                if !is_public(&words[..at]) {
                    own.push(path.clone());
                }
                names.insert(name, path);
            }
        }
        own.extend(paths(&rest));
        Source { path: file.path.clone(), names, paths: own }
    }
}

/// Tells whether the words before `use` make it one for others.
fn is_public(before: &[&str]) -> bool {
    let visible = before.iter().rev().take_while(|word| !word.contains([';', '{', '}', ']']));
    visible.into_iter().any(|word| word.starts_with("pub"))
}

/// Returns the modules of a file, by its path below `src/`.
fn module_of(inside: &str) -> Module {
    let names = inside.trim_end_matches(".rs").split('/');
    let mut module: Module = names.map(str::to_owned).collect();
    module.pop_if(|name| matches!(name.as_str(), "mod" | "lib" | "main"));
    module
}

/// Returns each name that a tree of `use` brings, and its path.
fn expand(tree: &str) -> Vec<(String, String)> {
    let tree = tree.trim();
    let Some((head, group)) = tree.split_once('{') else {
        let (path, name) = tree.split_once(" as ").unwrap_or((tree, tree));
        let path = path.trim().trim_end_matches("::self").to_owned();
        return vec![(name.trim().rsplit("::").next().unwrap_or(name).to_owned(), path)];
    };
    let group = group.trim().trim_end_matches('}');
    let (mut depth, mut from, mut found) = (0, 0, Vec::new());
    for (i, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth <= 0 => {
                if !group[from..i].trim().is_empty() {
                    found.extend(expand(&format!("{}{}", head.trim(), group[from..i].trim())));
                }
                from = i + 1;
            }
            _ => {}
        }
    }
    found
}

/// Returns all paths of more than one name, but for those that say who may use an item.
fn paths(code: &str) -> Vec<String> {
    let parts = code.split("pub(in").enumerate();
    let code: String =
        parts.map(|(n, part)| if n == 0 { part } else { &part[part.find(')').unwrap_or(0)..] }).collect();
    let words = code.split(|c: char| !is_ident(c) && c != ':');
    words.filter(|word| word.contains("::")).map(|word| word.trim_matches(':').to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let tree = Tree::made_of(files);
        let crates = CrateUses::of(&tree, &Reach::of(&tree));
        let edges = crates.values().flat_map(CrateUses::edges);
        edges.flat_map(|(from, to)| to.into_iter().map(move |to| format!("{from} {to}"))).collect()
    }

    #[test]
    fn paths_lead_to_files() {
        let files = |text| {
            [
                ("crates/a/src/lib.rs", "mod up; mod m; pub use m::deep::Deep as Out;"),
                ("crates/a/src/up.rs", text),
                ("crates/a/src/m/mod.rs", "mod deep; pub(crate) use deep::{Deep, other::{self, F}};"),
                ("crates/a/src/m/deep.rs", "pub struct Deep;"),
            ]
        };
        let used = |text| {
            let found = edges(&files(text));
            found
                .into_iter()
                .filter_map(|edge| edge.strip_prefix("crates/a/src/up.rs ").map(str::to_owned))
                .collect()
        };
        let none: [&str; 0] = [];
        let (deep, m, root) = ("crates/a/src/m/deep.rs", "crates/a/src/m/mod.rs", "crates/a/src/lib.rs");
        let cases: [(&str, &[&str]); 11] = [
            ("use crate::m::deep::Deep;", &[deep]),
            ("use crate::m::Deep;", &[deep]),
            ("use crate::Out;", &[deep]),
            ("use super::m::{self, deep};", &[deep, m]),
            ("use crate::{f, m::Other};", &[root, m]),
            ("fn f() -> crate::m::Deep { super::m::deep::g::<u8>() }", &[deep]),
            ("use std::m::deep; fn f(x: std::fmt::Error) {}", &none),
            ("#[cfg(test)] mod tests { use crate::m::Deep; }", &none),
            ("use self::Own; fn f() { Own::deep() }", &none),
            ("pub use crate::m::Deep;", &none),
            ("pub(in crate::m) fn f() {}", &none),
        ];
        for (text, expected) in cases {
            let found: Vec<String> = used(text);
            assert_eq!(found, expected, "{text}");
        }
    }
}
