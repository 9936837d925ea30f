//! Tidy: rules of structure and style. Each rule is a file here and works on text only. A test of
//! its own shows that it can fail.

mod circles;
mod columns;
mod docs;
mod doors;
mod figures;
mod functions;
mod layers;
#[cfg(test)]
mod made;
mod markdown_table;
mod problem;
mod reach;
mod source;
mod style;
mod threads;
mod types;
mod uses;
mod waits;
mod words;

use checkout::root;
use problem::Problem;
use source::Tree;
use std::path::Path;

/// Fails if a rule is violated, and prints where.
pub(crate) fn run() -> Result<(), String> {
    let problems = problems(&root());
    problems.iter().for_each(|p| eprintln!("{p}"));
    match problems.len() {
        0 => Ok(()),
        n => Err(format!("{n} problems of structure or style")),
    }
}

/// Returns all violations below `root`, sorted.
fn problems(root: &Path) -> Vec<Problem> {
    check(&Tree::load(root))
}

fn check(tree: &Tree) -> Vec<Problem> {
    let reach = reach::Reach::of(tree);
    let mut problems = Vec::new();
    let mut report = |path: &str, line: usize, message: String| {
        problems.push(Problem { path: path.to_owned(), line, message });
    };
    reach.check(&mut report);
    layers::check(tree, &reach, &mut report);
    circles::check(tree, &reach, &mut report);
    types::check(tree, &reach, &mut report);
    doors::check(tree, &reach, &mut report);
    waits::check(tree, &reach, &mut report);
    threads::check(tree, &reach, &mut report);
    style::check(tree, &mut report);
    columns::check(tree, &mut report);
    functions::check(tree, &mut report);
    words::check(tree, &mut report);
    docs::check(tree, &mut report);
    figures::check(tree, &mut report);
    problems.sort();
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let problems: Vec<String> = problems(&root()).iter().map(Problem::to_string).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}
