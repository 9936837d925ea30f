//! The structure and the style of the code, as a test. Each rule is a file here, works on text alone, and is shown to
//! fail by a test of its own.

mod docs;
mod doors;
mod layers;
mod reach;
mod source;
mod style;
mod waits;
mod words;

use source::Tree;
use std::path::Path;

/// One thing that is wrong. Printed as `path:line: message`, where an editor finds it.
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

/// Everything that is wrong below `root`, in order.
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
    words::check(tree, &mut report);
    docs::check(tree, &mut report);
    problems.sort();
    problems
}

/// How a rule reports: path, line, message.
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
