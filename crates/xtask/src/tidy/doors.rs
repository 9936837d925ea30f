//! The engine waits only through `base::sync`, and uses files and time only through `vfs`, so that
//! the simulator controls them. It prints nothing and reads no environment variable.

use super::problem::Report;
use super::reach::Reach;
use super::source::{Tree, line_of, whole_words, without_tests};

/// Directories to which the rule applies.
const ENGINE: &[&str] = &[
    "crates/base/src/",
    "crates/vfs/src/",
    "crates/metrics/src/",
    "crates/pace/src/",
    "crates/millpond/src/",
];

/// A forbidden name, where it is allowed, and what to use instead.
const DOORS: &[(&str, &[&str], &str)] = &[
    ("std::thread", &["crates/base/src/sync/"], "base::sync::spawn and its waits"),
    ("Condvar", &["crates/base/src/sync/", "*base::sync"], "base::sync::Condvar"),
    ("parking_lot", &["crates/base/src/sync/"], "base::sync"),
    ("std::sync::Mutex", &["crates/base/src/sync/"], "base::sync::Mutex"),
    ("std::sync::RwLock", &["crates/base/src/sync/"], "base::sync"),
    ("std::sync::atomic", &["crates/base/src/sync/"], "base::sync::atomic"),
    ("std::sync::mpsc", &[], "base::sync"),
    ("std::fs", &["crates/vfs/src/"], "vfs"),
    ("Instant", &["crates/vfs/src/"], "vfs::Clock"),
    ("SystemTime", &["crates/vfs/src/"], "vfs::Clock"),
    ("std::env", &["crates/vfs/src/"], "an option"),
    // Their order differs from run to run, and a simulated run must repeat.
    (
        "HashMap",
        &["crates/base/src/by_txn.rs", "crates/base/src/by_hash.rs"],
        "BTreeMap, a Vec, base::ByTxn or base::ByHash",
    ),
    ("HashSet", &[], "BTreeSet"),
    ("RandomState", &[], "base::prng"),
    ("println", &[], "an event or a metric"),
    ("eprintln", &[], "an event or a metric"),
    ("dbg", &[], "nothing"),
];

/// Exceptions with a reason. The list may only shrink: an entry that is not needed any more is an
/// error.
const EXCEPTIONS: &[(&str, &str)] = &[
    // The process is about to abort, so an event would reach no listener.
    ("crates/millpond/src/mtr.rs", "eprintln"),
];

pub(super) fn check(tree: &Tree, reach: &Reach, report: &mut Report<'_>) {
    let mut used = [false; EXCEPTIONS.len()];
    for file in tree.rust() {
        if !ENGINE.iter().any(|dir| file.path.starts_with(dir)) || reach.is_test(&file.path) {
            continue;
        }
        let code = without_tests(&file.code);
        for (thing, at_door, instead) in DOORS {
            if at_door.iter().any(|dir| file.path.starts_with(dir)) {
                continue;
            }
            // `use base::sync::{Condvar, …}` names the allowed type.
            if at_door.contains(&"*base::sync") && code.contains("base::sync") {
                continue;
            }
            for at in whole_words(&code, thing) {
                if let Some(i) = EXCEPTIONS.iter().position(|e| e == &(file.path.as_str(), *thing)) {
                    used[i] = true;
                    continue;
                }
                report(&file.path, line_of(&code, at), format!("{thing} is not allowed here: use {instead}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::made;
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        made::found(&[(path, text)], check).len()
    }

    #[test]
    fn engine_code_waits_and_uses_files_only_through_base_and_vfs() {
        let engine = "crates/millpond/src/db.rs";
        assert_eq!(found(engine, "use std::thread;\nlet t = Instant::now();\nprintln!();"), 3);
        assert_eq!(found(engine, "use base::sync::{Condvar, Mutex}; // std::thread"), 0);
        assert_eq!(found(engine, "use std::sync::Condvar;"), 1);
        assert_eq!(found(engine, "use std::collections::HashMap;\nthread::available_parallelism();"), 1);
        assert_eq!(found(engine, "std::thread::available_parallelism();"), 1);
        assert_eq!(found(engine, "#[cfg(test)]\nmod tests { use std::thread; }"), 0);
        assert_eq!(found("crates/lab/src/main.rs", "use std::thread;"), 0);
        assert_eq!(found("crates/base/src/sync/real.rs", "use std::thread;"), 0);
    }
}
