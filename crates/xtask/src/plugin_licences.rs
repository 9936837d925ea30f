//! The licences of what is linked into the plugin for MariaDB.
//!
//! The plugin is under the GPL, version 2 only, because it is compiled against the server's
//! headers. So every crate in its library must offer a licence that may be combined with that.
//! Apache-2.0 alone may not: the Free Software Foundation holds it incompatible with version 2.

use crate::dependencies::{allows, list};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The crate whose static library the plugin contains.
const LIBRARY: &str = "millpond-ffi";

/// Licences that may be combined with the GPL, version 2 only.
const COMPATIBLE: &[&str] = &["MIT", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "ISC", "Zlib"];

/// Whether a dependency is linked: neither a tool of the build nor one of the tests.
fn is_linked(dep: &Value) -> bool {
    list(&dep["dep_kinds"]).any(|kind| kind["kind"].is_null())
}

/// Whether a package is code that runs in the compiler.
fn is_macro(package: &Value) -> bool {
    list(&package["targets"]).any(|target| list(&target["kind"]).any(|kind| kind == "proc-macro"))
}

/// Returns each crate in the plugin's library whose licence does not fit, sorted. `metadata` is the
/// output of `cargo metadata --format-version 1`.
pub(crate) fn problems(metadata: &Value) -> Vec<String> {
    let by_id: BTreeMap<&str, &Value> =
        list(&metadata["packages"]).filter_map(|package| Some((package["id"].as_str()?, package))).collect();
    let nodes = list(&metadata["resolve"]["nodes"]).filter_map(|node| Some((node["id"].as_str()?, node)));
    let nodes: BTreeMap<&str, &Value> = nodes.collect();
    let Some((&library, _)) = by_id.iter().find(|(_, package)| package["name"] == LIBRARY) else {
        return vec![format!("there is no crate {LIBRARY}, whose licences are to be checked")];
    };
    let (mut linked, mut next) = (BTreeSet::new(), vec![library]);
    while let Some(id) = next.pop() {
        let is_code = by_id.get(id).is_some_and(|package| !is_macro(package));
        if is_code && linked.insert(id) {
            let deps = nodes.get(id).into_iter().flat_map(|node| list(&node["deps"]));
            next.extend(deps.filter(|dep| is_linked(dep)).filter_map(|dep| dep["pkg"].as_str()));
        }
    }
    let packages = linked.into_iter().filter_map(|id| by_id.get(id));
    let unfit = packages
        .filter(|package| allows(package["license"].as_str().unwrap_or(""), COMPATIBLE) != Some(true));
    unfit
        .map(|package| {
            let field = |name: &str| package[name].as_str().unwrap_or("").to_owned();
            format!(
                "{} {} is linked into the plugin, and its licence {:?} cannot be combined with GPL-2.0-only",
                field("name"),
                field("version"),
                field("license")
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, licence: &str, kind: &str) -> Value {
        json!({ "name": name, "version": "1", "id": name, "license": licence, "targets": [{ "kind": [kind] }] })
    }

    /// The library uses `crate` as a dependency of this kind.
    fn metadata(licence: &str, target: &str, kind: Value) -> Value {
        json!({
            "packages": [package(LIBRARY, "MIT OR Apache-2.0", "staticlib"), package("inner", "MIT", "lib"),
                         package("x", licence, target)],
            "resolve": { "nodes": [
                { "id": LIBRARY, "deps": [{ "pkg": "inner", "dep_kinds": [{ "kind": null }] }] },
                { "id": "inner", "deps": [{ "pkg": "x", "dep_kinds": [{ "kind": kind }] }] },
                { "id": "x", "deps": [] },
            ] },
        })
    }

    #[test]
    fn only_linked_crates_must_fit_the_plugins_licence() {
        for licence in ["MIT", "MIT OR Apache-2.0", "Apache-2.0/ISC", "BSD-3-Clause AND Zlib"] {
            assert_eq!(problems(&metadata(licence, "lib", Value::Null)), [""; 0], "{licence}");
        }
        for licence in
            ["Apache-2.0", "MIT AND Apache-2.0", "(MIT OR Apache-2.0) AND Unicode-3.0", "", "MIT OR"]
        {
            let found = problems(&metadata(licence, "lib", Value::Null));
            assert!(found.len() == 1 && found[0].starts_with("x 1 is linked"), "{licence}: {found:?}");
            assert_eq!(problems(&metadata(licence, "lib", json!("dev"))), [""; 0]);
            assert_eq!(problems(&metadata(licence, "lib", json!("build"))), [""; 0]);
            assert_eq!(problems(&metadata(licence, "proc-macro", Value::Null)), [""; 0]);
        }
    }

    #[test]
    fn without_the_library_nothing_would_be_checked() {
        assert_eq!(problems(&json!({ "packages": [], "resolve": { "nodes": [] } })).len(), 1);
    }
}
