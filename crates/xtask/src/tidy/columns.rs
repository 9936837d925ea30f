//! Comments that are easy to read: at most so many columns, indentation included.

use super::Report;
use super::source::{File, Tree};

/// The widest line with a comment, in columns.
const COLUMNS_MAX: usize = 100;

/// Files with wider comments that were there before the rule. The list may only shrink.
const WIDE: &[&str] = &[
    "crates/base/src/by_hash.rs",
    "crates/millpond/src/checkpoint/fuzzy.rs",
    "crates/millpond/src/checkpoint/root.rs",
    "crates/millpond/src/error.rs",
    "crates/millpond/src/lib.rs",
    "crates/millpond/src/space/state.rs",
];

pub(super) fn check(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.rust() {
        check_file(file, WIDE, report);
    }
    for path in WIDE.iter().filter(|path| tree.get(path).is_none()) {
        report(path, 1, "is gone; take it off the list of files with wide comments".into());
    }
}

fn check_file(file: &File, wide: &[&str], report: &mut Report<'_>) {
    let comments = file.comments();
    let lines = file.text.lines().zip(comments.lines()).enumerate();
    let too_wide =
        lines.filter(|(_, (line, comment))| !comment.trim().is_empty() && line.chars().count() > COLUMNS_MAX);
    let too_wide: Vec<usize> = too_wide.map(|(n, _)| n + 1).collect();
    match (wide.contains(&file.path.as_str()), too_wide.as_slice()) {
        (true, []) => {
            report(&file.path, 1, "has no wide comment now; take it off the list of such files".into());
        }
        (true, _) => {}
        (false, lines) => {
            for line in lines {
                report(&file.path, *line, format!("a comment beyond column {COLUMNS_MAX}: wrap it"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/a/src/lib.rs";

    fn found(text: &str, wide: &[&str]) -> Vec<String> {
        let mut out = Vec::new();
        check_file(&File::new(PATH, text), wide, &mut |_, line, what| out.push(format!("{line}: {what}")));
        out
    }

    #[test]
    fn a_wide_comment_is_found_and_wide_code_is_not() {
        let wide = format!("//! x\n    // {}\n", "é".repeat(COLUMNS_MAX - 6));
        assert_eq!(found(&wide, &[]), ["2: a comment beyond column 100: wrap it"]);
        assert!(found(&wide.replacen('é', "", 1), &[]).is_empty());
        let code = format!("let x = \"// {}\";\n", "x".repeat(COLUMNS_MAX));
        assert!(found(&code, &[]).is_empty());
        let behind = format!("let x = {}; // y\n", "x".repeat(COLUMNS_MAX));
        assert_eq!(found(&behind, &[]).len(), 1);
    }

    #[test]
    fn a_listed_file_may_have_wide_comments_until_it_has_none() {
        let wide = format!("// {}\n", "x".repeat(COLUMNS_MAX));
        assert!(found(&wide, &[PATH]).is_empty());
        let stale = found("// x\n", &[PATH]);
        assert_eq!(stale, ["1: has no wide comment now; take it off the list of such files"]);
    }
}
