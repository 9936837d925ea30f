//! Checks of the documents: every relative link leads to an existing file and heading, and every
//! cited invariant and design rule is defined.

use super::problem::Report;
use super::source::{File, Tree, is_ident, line_of};
use std::collections::BTreeSet;

const INVARIANTS: &str = "docs/invariants.md";
/// The prefix of a cited invariant. (In two parts, or this line would be a citation.)
const CITATION: &str = concat!("INV", "-");

const RULES: &str = "docs/rules.md";
/// The prefixes of the ids of design rules. A number follows.
const AREAS: &[&str] =
    &["Fi", "Pa", "Tr", "Bp", "Lo", "El", "Co", "Un", "Lk", "Fl", "To", "Re", "Io", "Ob", "Ma"];

pub(super) fn check(tree: &Tree, report: &mut Report<'_>) {
    check_rules(tree, report);
    for file in tree.files.iter().filter(|f| f.path.ends_with(".md")) {
        for (offset, target) in links(&file.text) {
            if let Some(what) = broken(tree, file, target) {
                report(&file.path, line_of(&file.text, offset), what);
            }
        }
    }
    let Some(invariants) = tree.get(INVARIANTS) else { return };
    let written: BTreeSet<u32> = citations(&invariants.text)
        .filter(|(at, _)| invariants.text[..*at].ends_with("**"))
        .map(|(_, n)| n)
        .collect();
    for (n, expected) in written.iter().zip(1..) {
        if *n != expected {
            report(INVARIANTS, 1, format!("{CITATION}{expected} is missing: numbers have no gaps"));
            break;
        }
    }
    for file in &tree.files {
        for (at, n) in citations(&file.text).filter(|(_, n)| !written.contains(n)) {
            report(&file.path, line_of(&file.text, at), format!("{CITATION}{n} is not in {INVARIANTS}"));
        }
    }
}

/// Checks that every cited rule is defined, in bold, once.
fn check_rules(tree: &Tree, report: &mut Report<'_>) {
    let Some(rules) = tree.get(RULES) else { return };
    let mut defined = BTreeSet::new();
    for (at, id) in rule_ids(&rules.text).filter(|(at, _)| rules.text[..*at].ends_with("- **")) {
        if !defined.insert(id) {
            report(RULES, line_of(&rules.text, at), format!("{id} is defined twice"));
        }
    }
    for file in tree.files.iter().filter(|f| f.is_rust() || f.path.ends_with(".md")) {
        for (at, id) in rule_ids(&file.text).filter(|(_, id)| !defined.contains(id)) {
            report(&file.path, line_of(&file.text, at), format!("{id} is not in {RULES}"));
        }
    }
}

/// Returns the ids of design rules, as whole words.
fn rule_ids(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let at_area = move |area: &'static str| text.match_indices(area).map(|(at, _)| at);
    AREAS.iter().flat_map(move |area| at_area(area)).filter_map(|at| {
        let digits = text[at + 2..].chars().take_while(char::is_ascii_digit).count();
        let end = at + 2 + digits;
        let apart = !text[..at].chars().next_back().is_some_and(is_ident)
            && !text[end..].chars().next().is_some_and(is_ident);
        (digits > 0 && apart).then(|| (at, &text[at..end]))
    })
}

/// Returns the citations of invariants, with their numbers.
fn citations(text: &str) -> impl Iterator<Item = (usize, u32)> {
    text.match_indices(CITATION).filter_map(|(at, _)| {
        let digits: String = text[at + CITATION.len()..].chars().take_while(char::is_ascii_digit).collect();
        Some((at, digits.parse().ok()?))
    })
}

/// Returns the targets of `[text](target)`.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("](") {
        let rest = &text[at + 2..];
        if let Some(end) = rest.find([')', '\n']).filter(|end| rest.as_bytes()[*end] == b')') {
            found.push((at, &rest[..end]));
        }
    }
    found
}

fn broken(tree: &Tree, file: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let full = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
    let is_dir = tree.paths.iter().any(|p| p.starts_with(&format!("{}/", full.trim_end_matches('/'))));
    if !tree.paths.contains(&full) && !is_dir {
        return Some(format!("the link leads nowhere: {target}"));
    }
    if heading.is_empty() {
        return None;
    }
    let page = tree.get(&full)?;
    let found = page.text.lines().filter(|l| l.starts_with('#')).any(|l| slug(l) == heading);
    (!found).then(|| format!("{full} has no heading for #{heading}"))
}

/// Returns the path from the root of a path relative to the file `from`.
fn resolve(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the anchor of a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::made;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        made::found_in_text(files, check)
    }

    #[test]
    fn links_resolve() {
        let other = ("docs/b.md", "# One `two`, three\n");
        assert!(
            found(&[
                ("docs/a.md", "[x](b.md) [y](b.md#one-two-three) [z](https://x.invalid) [d](../docs)"),
                other
            ])
            .is_empty()
        );
        assert_eq!(
            found(&[("docs/a.md", "\n[x](c.md) [y](b.md#four)"), other]),
            ["docs/a.md:2: the link leads nowhere: c.md", "docs/a.md:2: docs/b.md has no heading for #four"]
        );
    }

    #[test]
    fn cited_invariants_exist() {
        let c = CITATION;
        let page = format!("1. **{c}1** Text, see {c}2.\n2. **{c}2** Text.\n");
        let code = format!("//! x\n// {c}2 and {c}3 and {c}n\n");
        assert_eq!(
            found(&[(INVARIANTS, &page), ("crates/a/src/lib.rs", &code)]),
            [format!("crates/a/src/lib.rs:2: {c}3 is not in {INVARIANTS}")]
        );
        let gap = format!("**{c}1** **{c}3**");
        assert_eq!(
            found(&[(INVARIANTS, &gap)]),
            [format!("{INVARIANTS}:1: {c}2 is missing: numbers have no gaps")]
        );
    }

    #[test]
    fn cited_rules_are_defined_once() {
        // In two parts, or these lines would cite rules.
        let (a, b) = (concat!("Pa", "1"), concat!("Tr", "22"));
        let page = format!("- **{a}** Text, see {b}.\n- **{b}** Text.\n");
        let code = format!("//! x\n// {a}, {b}, {a}2 and x{a} and {a}x and Pan\n");
        assert_eq!(
            found(&[(RULES, &page), ("crates/a/src/lib.rs", &code)]),
            [format!("crates/a/src/lib.rs:2: {a}2 is not in {RULES}")]
        );
        let twice = format!("- **{a}** Text.\n- **{a}** Text.\n");
        assert_eq!(found(&[(RULES, &twice)]), [format!("{RULES}:2: {a} is defined twice")]);
    }
}
