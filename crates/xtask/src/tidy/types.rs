//! Types that can be seen at a glance: the methods of a type are in at most so many files, and a
//! struct has at most so many fields. Exceptions are counted, and the counts only shrink.

use super::problem::Report;
use super::reach::Reach;
use super::source::{File, Tree, is_ident, line_of, whole_words, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// The file that defines a type and one more.
const FILES_MAX: usize = 2;
const FIELDS_MAX: usize = 12;

/// Types with methods in more files: the crate, the type, how many files.
const IN_MANY_FILES: &[(&str, &str, usize)] = &[
    ("crates/millpond", "Tree", 6),
    ("crates/millpond", "Pool", 4),
    ("crates/millpond", "Db", 10),
    ("crates/millpond", "Transaction", 11),
];

/// Structs with more fields: the file, the struct, how many fields, why.
const WIDE: &[(&str, &str, usize, &str)] = &[
    ("crates/ffi/src/db.rs", "DbOptions", 14, "an option each"),
    ("crates/history/src/soak/life.rs", "LifeOptions", 13, "an option each"),
    ("crates/lab/src/cli/crash.rs", "Crash", 14, "a flag each"),
    ("crates/lab/src/cli/run.rs", "Run", 19, "a flag each"),
    ("crates/lab/src/crash/result.rs", "CrashResult", 15, "a figure each"),
    ("crates/lab/src/figures.rs", "Figures", 21, "a figure each"),
    ("crates/lab/src/result.rs", "RunResult", 22, "a figure each"),
    ("crates/millpond/src/checkpoint/root.rs", "Root", 15, "a field of the format each"),
    ("crates/millpond/src/options.rs", "Options", 18, "an option each"),
    ("crates/millpond/src/options.rs", "Tuning", 15, "an option each"),
    ("crates/pace/src/governor.rs", "CleanerSample", 13, "a figure each"),
    ("crates/sim/src/main.rs", "Args", 13, "a flag each"),
    ("crates/vfs/src/fault.rs", "FaultState", 13, "a list for each kind of fault"),
];

pub(super) fn check(tree: &Tree, reach: &Reach, report: &mut Report<'_>) {
    let code: Vec<(&File, String)> = tree
        .rust()
        .filter(|file| file.path.contains("/src/") && !reach.is_test(&file.path))
        .map(|file| (file, without_tests(&file.code)))
        .collect();
    check_methods(tree, &code, report);
    check_fields(tree, &code, report);
}

fn check_methods(tree: &Tree, code: &[(&File, String)], report: &mut Report<'_>) {
    let mut exceptions: BTreeMap<(&str, &str), usize> =
        IN_MANY_FILES.iter().map(|(dir, name, files)| ((*dir, *name), *files)).collect();
    // Types of one name count together: each may have its files.
    let mut definitions: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut files: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for (file, code) in code {
        let dir = file.path.split("/src/").next().unwrap_or("");
        for name in defined(code) {
            *definitions.entry((dir, name)).or_default() += 1;
        }
        for name in with_methods(code) {
            files.entry((dir, name)).or_default().insert(&file.path);
        }
    }
    for (key @ (_, name), files) in files {
        let max = FILES_MAX * definitions.get(&key).copied().unwrap_or(1);
        let allowed = exceptions.remove(&key).unwrap_or(max);
        let first = files.first().copied().unwrap_or("");
        if files.len() > allowed {
            report(
                first,
                1,
                format!("{name} has methods in {} files, at most {allowed} may have", files.len()),
            );
        } else if files.len() < allowed && allowed > max {
            let left = files.len();
            report(first, 1, format!("{name} has methods in only {left} files (xtask, types.rs)"));
        }
    }
    for (dir, name) in exceptions.into_keys().filter(|(dir, _)| tree.has_dir(dir)) {
        report(dir, 1, format!("{name} is no exception any more (xtask, types.rs)"));
    }
}

fn check_fields(tree: &Tree, code: &[(&File, String)], report: &mut Report<'_>) {
    let mut exceptions: BTreeMap<(&str, &str), usize> =
        WIDE.iter().map(|(path, name, fields, _)| ((*path, *name), *fields)).collect();
    for (file, code) in code {
        for (at, name, fields) in structs(code) {
            let allowed = exceptions.remove(&(file.path.as_str(), name)).unwrap_or(FIELDS_MAX);
            let line = line_of(code, at);
            if fields > allowed {
                report(
                    &file.path,
                    line,
                    format!("{name} has {fields} fields, at most {allowed} are allowed"),
                );
            } else if fields < allowed && allowed > FIELDS_MAX {
                report(&file.path, line, format!("{name} has only {fields} fields (xtask, types.rs)"));
            }
        }
    }
    for (path, name) in exceptions.into_keys().filter(|(path, _)| tree.get(path).is_some()) {
        report(path, 1, format!("{name} is no exception any more (xtask, types.rs)"));
    }
}

/// Returns the names that code gives to types.
fn defined(code: &str) -> impl Iterator<Item = &str> {
    ["struct", "enum", "union", "trait"]
        .into_iter()
        .flat_map(|kind| whole_words(code, kind).into_iter().map(move |at| at + kind.len()))
        .map(|from| first_name(&code[from..]))
}

/// Returns the types of all `impl TYPE { … }`.
fn with_methods(code: &str) -> impl Iterator<Item = &str> {
    whole_words(code, "impl").into_iter().filter_map(|at| {
        // Elsewhere than between items it is the type of an argument or a result.
        let before = code[..at].trim_end();
        if !(before.is_empty() || before.ends_with(['}', ';', ']', '{']) || before.ends_with("unsafe")) {
            return None;
        }
        let head = code[at + 4..].split('{').next().unwrap_or("");
        let head = head.split(" where").next().unwrap_or("");
        let named = without_generics(head.trim_start());
        let is_trait = !whole_words(head, "for").is_empty() && !head.contains("for<");
        (!is_trait).then(|| {
            let path = named.trim_start().trim_start_matches("dyn ");
            let path = path.split(|c: char| !is_ident(c) && c != ':').next().unwrap_or("");
            path.rsplit("::").next().unwrap_or(path)
        })
    })
}

/// Returns the text after `<…>`, if it begins so.
fn without_generics(text: &str) -> &str {
    let mut depth = 0;
    for (i, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if !text[..i].ends_with('-') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if i == 0 { text } else { &text[i + 1..] };
        }
    }
    text
}

/// Returns each struct with named fields: where it is, its name, and how many fields.
fn structs(code: &str) -> Vec<(usize, &str, usize)> {
    let all = whole_words(code, "struct").into_iter().filter_map(|at| {
        let open = at + code[at..].find(['{', ';', '('])?;
        let body = code[open..].strip_prefix('{')?;
        Some((at, first_name(&code[at + 6..]), fields(body)))
    });
    all.collect()
}

/// Counts the fields in what follows `{`.
fn fields(body: &str) -> usize {
    let (mut depth, mut count) = (1, 0);
    for (i, c) in body.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            ':' if depth == 1 && !body[i + 1..].starts_with(':') && !body[..i].ends_with(':') => count += 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    count
}

fn first_name(text: &str) -> &str {
    text.trim_start().split(|c| !is_ident(c)).next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::super::made;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        made::found(files, check)
    }

    #[test]
    fn methods_in_many_files_are_found() {
        let files = |third| {
            [
                ("crates/a/src/lib.rs", "mod b; mod c; struct T<'a>(&'a u8); impl<'a> T<'a> { }"),
                ("crates/a/src/b.rs", "impl super::T<'_> { } impl Clone for T<'_> { }"),
                ("crates/a/src/c.rs", third),
            ]
        };
        for fits in ["fn f(t: impl T) -> impl T { }", "impl From<u8> for T<'_> { }", "struct T; impl T { }"] {
            assert!(found(&files(fits)).is_empty(), "{fits}");
        }
        let what = "crates/a/src/b.rs:1: T has methods in 3 files, at most 2 may have";
        for third in ["impl T<'_> { }", "impl<F: Fn() -> u8> T<F> where F: Send { }"] {
            assert_eq!(found(&files(third)), [what], "{third}");
        }
    }

    #[test]
    fn wide_structs_are_found() {
        let with = |n: usize| format!("struct S {{ {} }}", "#[a(b: c)] pub a: m::T<fn(x: u8)>, ".repeat(n));
        assert!(found(&[("crates/a/src/lib.rs", &with(FIELDS_MAX))]).is_empty());
        let what = "crates/a/src/lib.rs:1: S has 13 fields, at most 12 are allowed";
        assert_eq!(found(&[("crates/a/src/lib.rs", &with(FIELDS_MAX + 1))]), [what]);
    }
}
