//! Which tests run: the list `mariadb/adapted/tests`, without those that `left-out` names. A share
//! has none of those that `slow` names.

use super::options::Options;
use crate::tree::installed_tests;
use checkout::root;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Tests that are never run, or whose results may differ, with the reason.
pub(super) type Reasons = BTreeMap<String, String>;

/// Reads a list of lines `SUITE.TEST : REASON`.
pub(super) fn reasons(list: &str) -> Result<Reasons, String> {
    let text = read(list)?;
    let mut reasons = Reasons::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let (name, reason) = line.split_once(" : ").ok_or_else(|| format!("{list}: no reason in: {line}"))?;
        if reasons.insert(name.trim().to_owned(), reason.trim().to_owned()).is_some() {
            return Err(format!("{list} names {} twice", name.trim()));
        }
    }
    Ok(reasons)
}

fn read(list: &str) -> Result<String, String> {
    let file = list_dir().join(list);
    std::fs::read_to_string(&file).map_err(|e| format!("cannot read {}: {e}", file.display()))
}

/// Returns the directory of the lists.
fn list_dir() -> PathBuf {
    root().join("mariadb/adapted")
}

/// Returns the suites of the list, in its order.
pub(super) fn suites() -> Result<Vec<String>, String> {
    Ok(patterns()?.into_iter().map(|(suite, _)| suite).collect())
}

/// Reads the lines `SUITE PATTERN...` of the list.
fn patterns() -> Result<Vec<(String, Vec<String>)>, String> {
    let text = read("tests")?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let mut patterns: Vec<(String, Vec<String>)> = Vec::new();
    for line in lines {
        let mut words = line.split_whitespace().map(str::to_owned);
        let Some(suite) = words.next() else { continue };
        match patterns.iter_mut().find(|(known, _)| *known == suite) {
            Some((_, more)) => more.extend(words),
            None => patterns.push((suite, words.collect())),
        }
    }
    Ok(patterns)
}

/// Returns the directory of a suite in the directory of all tests.
pub(super) fn suite_dir(suite: &str) -> PathBuf {
    if suite == "main" { PathBuf::from("main") } else { PathBuf::from("suite").join(suite) }
}

/// Returns the names of the tests to run.
pub(super) fn tests(options: &Options, left_out: &Reasons) -> Result<Vec<String>, String> {
    let mut chosen = Vec::new();
    for (suite, patterns) in patterns()? {
        let dir = installed_tests().join(suite_dir(&suite));
        let mut names = test_names(&dir);
        names.extend(test_names(&dir.join("t")));
        names.retain(|name| patterns.iter().any(|pattern| matches(pattern, name)));
        names.sort();
        chosen.extend(names.into_iter().map(|name| format!("{suite}.{name}")));
    }
    chosen.retain(|test| !left_out.contains_key(test));
    if !options.tests.is_empty() {
        chosen.retain(|test| options.tests.iter().any(|pattern| matches(pattern, test)));
    }
    if options.share.is_part() {
        let slow = reasons("slow")?;
        chosen.retain(|test| options.share.has(test) && !slow.contains_key(test));
    }
    Ok(chosen)
}

fn test_names(dir: &std::path::Path) -> Vec<String> {
    let entries =
        std::fs::read_dir(dir).map(|entries| entries.flatten().collect()).unwrap_or_else(|_| vec![]);
    entries.iter().filter_map(|e| Some(e.file_name().to_str()?.strip_suffix(".test")?.to_owned())).collect()
}

/// Tells whether a name is the pattern, or begins with the part of it before a final `*`.
fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_or_its_beginning() {
        assert!(matches("join*", "join_outer") && matches("join", "join"));
        assert!(!matches("join", "join_outer") && !matches("union*", "join"));
    }
}
