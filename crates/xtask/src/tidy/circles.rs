//! Files point down: no file uses one that uses it, directly or by others. What a file is can then
//! be read from the bottom. Exceptions are counted by directory, and the counts only shrink.

use super::problem::Report;
use super::reach::Reach;
use super::source::Tree;
use super::uses::CrateUses;
use std::collections::{BTreeMap, BTreeSet};

/// How many files of a directory are in circles. A circle counts in the deepest directory that has
/// all its files.
const EXCEPTIONS: &[(&str, usize)] = &[];

pub(super) fn check(tree: &Tree, reach: &Reach, report: &mut Report<'_>) {
    let mut exceptions: BTreeMap<&str, usize> = EXCEPTIONS.iter().copied().collect();
    for uses in CrateUses::of(tree, reach).values() {
        let mut by_dir: BTreeMap<String, Vec<Vec<&str>>> = BTreeMap::new();
        for circle in circles(&uses.edges()) {
            by_dir.entry(common_dir(&circle)).or_default().push(circle);
        }
        for (dir, circles) in by_dir {
            let allowed = exceptions.remove(dir.as_str()).unwrap_or(0);
            let count = circles.iter().map(Vec::len).sum::<usize>();
            if count > allowed {
                for circle in &circles {
                    let names: Vec<&str> = circle.iter().map(|path| &path[dir.len() + 1..]).collect();
                    let what =
                        format!("{} files use each other in a circle: {}", names.len(), names.join(", "));
                    report(circle[0], 1, what);
                }
            } else if count < allowed {
                let what = format!("only {count} files are in circles, not {allowed} (xtask, circles.rs)");
                report(&dir, 1, what);
            }
        }
    }
    for (dir, _) in exceptions.into_iter().filter(|(dir, _)| tree.has_dir(dir)) {
        report(dir, 1, "no file is in a circle any more (xtask, circles.rs)".into());
    }
}

/// Returns the groups of files each of which reaches all others of its group.
fn circles<'p>(edges: &BTreeMap<&'p str, BTreeSet<&'p str>>) -> Vec<Vec<&'p str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|from| (*from, reach(edges, from))).collect();
    let mut found: Vec<Vec<&str>> = Vec::new();
    for (file, to) in &reached {
        let circle: Vec<&str> = to.iter().filter(|other| reached[*other].contains(file)).copied().collect();
        // Its first file tells it.
        if circle.first() == Some(file) {
            found.push(circle);
        }
    }
    found
}

/// Returns all files that a file uses, directly or by others.
fn reach<'p>(edges: &BTreeMap<&'p str, BTreeSet<&'p str>>, from: &'p str) -> BTreeSet<&'p str> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        next.extend(edges[file].iter().filter(|used| reached.insert(**used)));
    }
    reached
}

/// Returns the deepest directory that has all files. A file `x.rs` with a directory `x` counts as
/// in it.
fn common_dir(circle: &[&str]) -> String {
    let dirs = |path: &str| -> Vec<String> { path.split('/').map(str::to_owned).collect() };
    let mut common = dirs(circle[0]);
    common.pop();
    for path in circle {
        let theirs = dirs(path);
        let same = common.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
        common.truncate(same);
    }
    common.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::made;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        made::found(files, check)
    }

    #[test]
    fn circles_are_found() {
        let files = |of_c| {
            [
                ("crates/a/src/lib.rs", "mod m;"),
                ("crates/a/src/m/mod.rs", "mod b; mod c; mod d; pub(crate) use c::C;"),
                ("crates/a/src/m/b.rs", "use super::C;"),
                ("crates/a/src/m/c.rs", of_c),
                ("crates/a/src/m/d.rs", "use super::b::B;"),
            ]
        };
        assert!(found(&files("")).is_empty());
        let three = "crates/a/src/m/b.rs:1: 3 files use each other in a circle: b.rs, c.rs, d.rs";
        assert_eq!(found(&files("use super::d::D;")), [three]);
        assert!(found(&files("#[cfg(test)]\nmod tests { use super::d::D; }")).is_empty());
    }
}
