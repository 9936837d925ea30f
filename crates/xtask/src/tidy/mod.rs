//! Tidy: rules of structure and style. Each rule is a file here and works on text only. A test of
//! its own shows that it can fail.

mod columns;

mod docs;
mod doors;
mod functions;
mod layers;
mod reach;
mod source;
mod style;
mod waits;
mod words;

use source::Tree;
use std::path::Path;

/// A violation of a rule. Printed as `path:line: message`, so that an editor can go there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    path: String,
    line: usize,
    message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Returns all violations below `root`, sorted.
pub(crate) fn problems(root: &Path) -> Vec<Problem> {
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
    doors::check(tree, &reach, &mut report);
    waits::check(tree, &reach, &mut report);
    style::check(tree, &mut report);
    columns::check(tree, &mut report);
    functions::check(tree, &mut report);
    words::check(tree, &mut report);
    docs::check(tree, &mut report);
    problems.sort();
    problems
}

/// The callback of a rule for each violation: path, line, message.
type Report<'a> = dyn FnMut(&str, usize, String) + 'a;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let problems: Vec<String> = problems(&crate::root()).iter().map(Problem::to_string).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}
