//! What the crates may depend on: permissive licences, one registry, no banned crate, one version
//! of each. `cargo metadata` tells what they depend on, on all platforms and with all features;
//! [`problems`] judges it and does nothing else.
//!
//! `cargo deny` can check the same, but it is a program that must be installed. A check that is
//! skipped where a program is missing finds nothing. Advisories are not checked here: they need a
//! database from the network.

use checkout::{cargo_program, root};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// What a program or library that is built from this repository may contain.
pub(crate) struct Rules<'r> {
    /// SPDX identifiers, with their exception if they have one (`WITH`).
    pub(crate) licences: &'r [&'r str],
    /// Where packages may come from, as in `Cargo.lock`. Packages of the repository itself are
    /// always allowed.
    pub(crate) sources: &'r [&'r str],
    /// Packages that name no licence in their manifest, with that of their file `LICENSE`.
    pub(crate) licence_files: &'r [(&'r str, &'r str)],
    pub(crate) bans: &'r [Ban<'r>],
    /// Crates that are needed in several versions. A crate is added with the reason, and taken off
    /// as soon as it is there once.
    pub(crate) several_versions: &'r [&'r str],
}

/// A crate that may not be used.
pub(crate) struct Ban<'r> {
    pub(crate) name: &'r str,
    /// Crates that may use it all the same.
    pub(crate) except: &'r [&'r str],
    pub(crate) reason: &'r str,
}

/// The rules of the workspace.
pub(crate) const RULES: Rules<'_> = Rules {
    // Permissive only: a program that contains these crates must not get other duties than those
    // of their own licences, MIT or Apache-2.0.
    licences: &[
        "MIT",
        "Apache-2.0",
        "Apache-2.0 WITH LLVM-exception",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        // Of data: the certificates of well-known authorities.
        "CDLA-Permissive-2.0",
        "ISC",
        "Unicode-3.0",
        "Zlib",
    ],
    sources: &["registry+https://github.com/rust-lang/crates.io-index"],
    licence_files: &[("webpki 0.22.4", "ISC")],
    bans: &[
        Ban { name: "openssl", except: &[], reason: "it needs an installed C library" },
        Ban { name: "openssl-sys", except: &[], reason: "it needs an installed C library" },
        Ban { name: "anyhow", except: &[], reason: "errors are structured" },
        Ban { name: "rand", except: &["proptest"], reason: "base::prng is seeded and never changes" },
        // `millpond serve` has one, with axum and what that needs (decision 0165).
        Ban {
            name: "tokio",
            except: &["watch", "axum", "hyper", "hyper-util", "tower"],
            reason: "the engine starts no runtime",
        },
    ],
    // The MySQL client (decision 0160), its TLS and its Ed25519 are a version behind in the first
    // line; its last two are not built on Linux. The terminal below ratatui is in the second;
    // redox_syscall is not built on Linux.
    several_versions: &[
        "base64",
        "cpufeatures",
        "getrandom",
        "syn",
        "r-efi",
        "windows-sys",
        "lock_api",
        "parking_lot",
        "parking_lot_core",
        "redox_syscall",
        "signal-hook",
    ],
};

/// The most packages that a build of the program without its features has.
const SMALL_BUILD: usize = 60;

/// Fails if a dependency breaks a rule, or one of those that `more` checks.
pub(crate) fn check(more: impl FnOnce(&Value) -> Vec<String>) -> Result<(), String> {
    let metadata = metadata()?;
    let mut problems = problems(&metadata, &RULES);
    problems.extend(more(&metadata));
    problems.extend(size_problem(&small_build()?, SMALL_BUILD));
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    match problems.len() {
        0 => Ok(()),
        n => Err(format!("{n} problems of dependencies; the rules are in crates/xtask/src/dependencies.rs")),
    }
}

/// Returns what cargo tells of all packages of the workspace's lock file.
fn metadata() -> Result<Value, String> {
    let out = told(&["metadata", "--format-version", "1", "--locked", "--all-features"])?;
    serde_json::from_slice(&out).map_err(|e| format!("cargo metadata writes no JSON: {e}"))
}

/// Returns a line for each use of a package in the program `millpond` without its features.
fn small_build() -> Result<String, String> {
    let tree = ["tree", "--locked", "--package", "lab", "--no-default-features", "--edges", "normal"];
    let out = told(&[&tree[..], &["--prefix", "none", "--no-dedupe"]].concat())?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Returns what cargo prints.
pub(crate) fn told(args: &[&str]) -> Result<Vec<u8>, String> {
    let out = Command::new(cargo_program())
        .args(args)
        .current_dir(root())
        .output()
        .map_err(|e| format!("cannot start cargo: {e}"))?;
    if !out.status.success() {
        return Err(format!("cargo {}: {}", args[0], String::from_utf8_lossy(&out.stderr).trim()));
    }
    Ok(out.stdout)
}

/// Returns the problem of a build that has more than so many packages. `tree` has a line for each
/// use of a package.
fn size_problem(tree: &str, most: usize) -> Option<String> {
    let packages: BTreeSet<&str> = tree.lines().filter(|line| !line.is_empty()).collect();
    let count = packages.len();
    (count > most).then(|| {
        format!("the program without its features has {count} packages, at most {most} are allowed: see `cargo tree`")
    })
}

/// Returns each dependency that breaks a rule, with the rule, sorted. `metadata` is the output of
/// `cargo metadata --format-version 1`.
pub(crate) fn problems(metadata: &Value, rules: &Rules<'_>) -> Vec<String> {
    let ours: BTreeSet<&str> = list(&metadata["workspace_members"]).filter_map(Value::as_str).collect();
    let packages: Vec<Package<'_>> = list(&metadata["packages"]).map(|json| Package { json }).collect();
    let mut problems = Vec::new();
    for package in &packages {
        problems.extend(licence_problem(package, rules));
        if ours.contains(package.text("id")) {
            problems.extend(wildcards(package));
        } else {
            problems.extend(source_problem(package, rules));
        }
    }
    problems.extend(version_problems(&packages, rules));
    problems.extend(ban_problems(metadata, &packages, rules));
    problems.sort();
    problems
}

/// A package as `cargo metadata` describes it.
struct Package<'m> {
    json: &'m Value,
}

impl<'m> Package<'m> {
    fn text(&self, field: &str) -> &'m str {
        self.json[field].as_str().unwrap_or("")
    }
}

impl std::fmt::Display for Package<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.text("name"), self.text("version"))
    }
}

pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn licence_problem(package: &Package<'_>, rules: &Rules<'_>) -> Option<String> {
    let name = package.to_string();
    let listed = rules.licence_files.iter().find(|(listed, _)| *listed == name).map(|(_, licence)| *licence);
    match listed.filter(|_| package.text("license").is_empty()).unwrap_or(package.text("license")) {
        "" => Some(format!("{package} names no licence")),
        licence => match allows(licence, rules.licences) {
            Some(true) => None,
            Some(false) => Some(format!("{package} has the licence {licence}, which is not allowed")),
            None => Some(format!("{package} has a licence that is no SPDX expression: {licence}")),
        },
    }
}

fn source_problem(package: &Package<'_>, rules: &Rules<'_>) -> Option<String> {
    match package.text("source") {
        "" => Some(format!("{package} comes from {}, outside the workspace", package.text("manifest_path"))),
        source if rules.sources.contains(&source) => None,
        source => Some(format!("{package} comes from {source}, which is not allowed")),
    }
}

/// Returns the dependencies of a package of ours that accept every version.
fn wildcards(package: &Package<'_>) -> impl Iterator<Item = String> {
    let any = |needed: &&Value| needed["req"] == "*" && needed["path"].is_null();
    list(&package.json["dependencies"])
        .filter(any)
        .map(move |needed| format!("{package} accepts every version of {}", needed["name"]))
}

fn version_problems(packages: &[Package<'_>], rules: &Rules<'_>) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(package.text("name")).or_default().insert(package.text("version"));
    }
    versions.retain(|_, versions| versions.len() > 1);
    let unlisted = versions.iter().filter(|(name, _)| !rules.several_versions.contains(name));
    let unused = rules.several_versions.iter().filter(|name| !versions.contains_key(*name));
    let several = |(name, versions): (&&str, &BTreeSet<&str>)| {
        let versions: Vec<&str> = versions.iter().copied().collect();
        format!("{name} is there in the versions {}", versions.join(" and "))
    };
    unlisted
        .map(several)
        .chain(
            unused.map(|name| {
                format!("{name} has one version now: take it off the list of those with several")
            }),
        )
        .collect()
}

fn ban_problems(metadata: &Value, packages: &[Package<'_>], rules: &Rules<'_>) -> Vec<String> {
    let by_id: BTreeMap<&str, &Package<'_>> = packages.iter().map(|p| (p.text("id"), p)).collect();
    let package_of = |id: &Value| by_id.get(id.as_str()?).copied();
    let mut problems = Vec::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let Some(user) = package_of(&node["id"]) else { continue };
        for used in list(&node["deps"]).filter_map(|dep| package_of(&dep["pkg"])) {
            let ban = rules.bans.iter().find(|ban| ban.name == used.text("name"));
            if let Some(ban) = ban.filter(|ban| !ban.except.contains(&user.text("name"))) {
                problems.push(format!("{user} uses {}: {}", ban.name, ban.reason));
            }
        }
    }
    problems
}

/// Whether one may choose only licences of `allowed`. None if the text is no SPDX expression.
pub(crate) fn allows(licence: &str, allowed: &[&str]) -> Option<bool> {
    // Older packages write "/" for "OR".
    let spaced = licence.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = Words { words: spaced.split_whitespace().collect(), at: 0 };
    let answer = any_of(&mut words, allowed)?;
    words.peek().is_none().then_some(answer)
}

struct Words<'l> {
    words: Vec<&'l str>,
    at: usize,
}

impl<'l> Words<'l> {
    fn peek(&self) -> Option<&'l str> {
        self.words.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'l str> {
        let word = self.peek();
        self.at += 1;
        word
    }

    /// Passes the next word if it is this one.
    fn pass(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }
}

fn any_of(words: &mut Words<'_>, allowed: &[&str]) -> Option<bool> {
    let mut answer = all_of(words, allowed)?;
    while words.pass("OR") {
        answer |= all_of(words, allowed)?;
    }
    Some(answer)
}

fn all_of(words: &mut Words<'_>, allowed: &[&str]) -> Option<bool> {
    let mut answer = one(words, allowed)?;
    while words.pass("AND") {
        answer &= one(words, allowed)?;
    }
    Some(answer)
}

fn one(words: &mut Words<'_>, allowed: &[&str]) -> Option<bool> {
    if words.pass("(") {
        let answer = any_of(words, allowed)?;
        return words.pass(")").then_some(answer);
    }
    let name = |word: &&str| !["OR", "AND", "WITH", "(", ")"].contains(word);
    let licence = words.next().filter(name)?;
    if !words.pass("WITH") {
        return Some(allowed.contains(&licence));
    }
    let exception = words.next().filter(name)?;
    Some(allowed.contains(&format!("{licence} WITH {exception}").as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const RULES: Rules<'_> = Rules {
        licences: &["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"],
        sources: &["registry+one"],
        licence_files: &[("y 1.0", "MIT"), ("z 1.0", "GPL-3.0")],
        bans: &[Ban { name: "rand", except: &["proptest"], reason: "it changes" }],
        several_versions: &[],
    };

    /// A package of another repository, with the id `name version`.
    fn package(name: &str, version: &str) -> Value {
        let id = format!("{name} {version}");
        json!({ "name": name, "version": version, "id": id, "license": "MIT", "source": "registry+one" })
    }

    /// A workspace of the crate `own` and other packages, in which one package uses each of some
    /// others.
    fn workspace(others: &[Value], uses: &[(&str, &[&str])]) -> Value {
        let own = json!({
            "name": "own", "version": "1.0", "id": "own 1.0", "license": "MIT", "source": null,
            "manifest_path": "/own/Cargo.toml", "dependencies": [],
        });
        let packages = [&[own], others].concat();
        let node = |(user, used): &(&str, &[&str])| {
            let used: Vec<Value> = used.iter().map(|id| json!({ "pkg": id })).collect();
            json!({ "id": user, "deps": used })
        };
        let nodes: Vec<Value> = uses.iter().map(node).collect();
        json!({
            "workspace_members": ["own 1.0"],
            "packages": packages,
            "resolve": { "nodes": nodes },
        })
    }

    #[test]
    fn a_licence_is_allowed_if_one_may_choose_only_allowed_ones() {
        for (licence, answer) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("GPL-3.0 OR MIT", Some(true)),
            ("MIT/Apache-2.0", Some(true)),
            ("GPL-3.0/LGPL-2.1", Some(false)),
            ("MIT AND GPL-3.0", Some(false)),
            ("MIT AND GPL-3.0 OR Apache-2.0", Some(true)),
            ("MIT AND (GPL-3.0 OR Apache-2.0)", Some(true)),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", Some(true)),
            ("(MIT OR Apache-2.0) AND OpenSSL", Some(false)),
            ("Apache-2.0 WITH LLVM-exception", Some(true)),
            ("MIT WITH LLVM-exception", Some(false)),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT)", None),
            ("MIT Apache-2.0", None),
            ("OR", None),
            ("MIT WITH", None),
        ] {
            assert_eq!(allows(licence, RULES.licences), answer, "{licence}");
        }
    }

    #[test]
    fn a_tree_that_keeps_the_rules_has_no_problem() {
        let others = [package("proptest", "1.0"), package("rand", "0.9")];
        let uses: &[(&str, &[&str])] = &[("own 1.0", &["proptest 1.0"]), ("proptest 1.0", &["rand 0.9"])];
        assert_eq!(problems(&workspace(&others, uses), &RULES), [""; 0]);
    }

    #[test]
    fn each_rule_can_fail() {
        let with = |field: &str, value: Value| {
            let mut package = package("x", "1.0");
            package[field] = value;
            problems(&workspace(&[package], &[]), &RULES)
        };
        assert_eq!(
            with("license", json!("GPL-3.0")),
            ["x 1.0 has the licence GPL-3.0, which is not allowed"]
        );
        assert_eq!(
            with("license", json!("see file")),
            ["x 1.0 has a licence that is no SPDX expression: see file"]
        );
        assert_eq!(with("license", Value::Null), ["x 1.0 names no licence"]);
        let in_file = |name: &str| {
            let mut package = package(name, "1.0");
            package["license"] = Value::Null;
            problems(&workspace(&[package], &[]), &RULES)
        };
        assert_eq!(in_file("y"), [""; 0]);
        assert_eq!(in_file("z"), ["z 1.0 has the licence GPL-3.0, which is not allowed"]);
        assert_eq!(with("source", json!("git+two")), ["x 1.0 comes from git+two, which is not allowed"]);
        assert_eq!(with("source", Value::Null), ["x 1.0 comes from , outside the workspace"]);
        let twice = workspace(&[package("x", "1.0"), package("x", "2.0")], &[]);
        assert_eq!(problems(&twice, &RULES), ["x is there in the versions 1.0 and 2.0"]);
        let listed = Rules { several_versions: &["x"], ..RULES };
        assert_eq!(problems(&twice, &listed), [""; 0]);
        assert_eq!(
            problems(&workspace(&[], &[]), &listed),
            ["x has one version now: take it off the list of those with several"]
        );
        let rand = workspace(&[package("rand", "0.9")], &[("own 1.0", &["rand 0.9"])]);
        assert_eq!(problems(&rand, &RULES), ["own 1.0 uses rand: it changes"]);
    }

    #[test]
    fn a_build_has_a_size() {
        let tree = "own v1.0\nx v1.0\ny v1.0\nx v1.0\n\n";
        assert_eq!(size_problem(tree, 3), None, "one package is used twice");
        let problem = size_problem(tree, 2).unwrap();
        assert!(problem.contains("has 3 packages, at most 2"), "{problem}");
    }

    #[test]
    fn a_dependency_names_its_version() {
        let mut tree = workspace(&[], &[]);
        tree["packages"][0]["dependencies"] = json!([
            { "name": "x", "req": "*", "path": null },
            { "name": "y", "req": "*", "path": "/own/y" },
            { "name": "z", "req": "^1", "path": null },
        ]);
        assert_eq!(problems(&tree, &RULES), ["own 1.0 accepts every version of \"x\""]);
    }
}
