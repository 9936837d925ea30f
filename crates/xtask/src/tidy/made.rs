//! Rules on made files, for their tests.

use super::problem::{Problem, Report};
use super::reach::Reach;
use super::source::Tree;

/// The path of a made file, where it does not matter.
pub(super) const PATH: &str = "crates/a/src/lib.rs";

/// Returns what a rule finds in made files, as it is printed.
pub(super) fn found(
    files: &[(&str, &str)],
    rule: impl FnOnce(&Tree, &Reach, &mut Report<'_>),
) -> Vec<String> {
    let tree = Tree::made_of(files);
    let mut found = Vec::new();
    rule(&tree, &Reach::of(&tree), &mut |path, line, message| {
        let problem = Problem { path: path.to_owned(), line, message };
        found.push(problem.to_string());
    });
    found
}

/// The same of a rule that needs only the files.
pub(super) fn found_in_text(
    files: &[(&str, &str)],
    rule: impl FnOnce(&Tree, &mut Report<'_>),
) -> Vec<String> {
    found(files, |tree, _, report| rule(tree, report))
}
