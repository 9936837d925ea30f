//! Comments that are easy to read: at most so many columns, indentation included.

use super::problem::Report;
use super::source::{File, Tree};

/// The widest line with a comment, in columns.
const COLUMNS_MAX: usize = 100;

pub(super) fn check(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.rust() {
        check_file(file, report);
    }
}

fn check_file(file: &File, report: &mut Report<'_>) {
    let comments = file.comments();
    for (n, (line, comment)) in file.text.lines().zip(comments.lines()).enumerate() {
        let is_comment = !comment.trim().is_empty();
        if is_comment && !is_row(comment) && line.chars().count() > COLUMNS_MAX {
            report(&file.path, n + 1, format!("a comment beyond column {COLUMNS_MAX}: wrap it"));
        }
    }
}

/// Whether a comment is a row of a table, which cannot be wrapped.
fn is_row(comment: &str) -> bool {
    comment.trim().trim_start_matches(['/', '!']).starts_with(" | ")
}

#[cfg(test)]
mod tests {
    use super::super::made::{PATH, found_in_text};
    use super::*;

    fn found(text: &str) -> Vec<String> {
        found_in_text(&[(PATH, text)], check)
    }

    #[test]
    fn a_wide_comment_is_found_and_wide_code_is_not() {
        let wide = format!("//! x\n    // {}\n", "é".repeat(COLUMNS_MAX - 6));
        assert_eq!(found(&wide), ["crates/a/src/lib.rs:2: a comment beyond column 100: wrap it"]);
        assert!(found(&wide.replacen('é', "", 1)).is_empty());
        let code = format!("let x = \"// {}\";\n", "x".repeat(COLUMNS_MAX));
        assert!(found(&code).is_empty());
        let after = format!("let x = {}; // y\n", "x".repeat(COLUMNS_MAX));
        assert_eq!(found(&after).len(), 1);
        let row = format!("//! x\n/// | a | {} |\n//! | b | {} |\n", "x".repeat(100), "x".repeat(100));
        assert!(found(&row).is_empty());
    }
}
