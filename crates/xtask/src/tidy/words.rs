//! One word for one idea: the second table of `docs/glossary.md` lists words that are not used in
//! this project, and what to say instead. Also finds marks of unfinished work, and paths of one
//! machine.

use super::problem::Report;
use super::source::{Tree, is_ident};

/// The document with the banned words.
const GLOSSARY: &str = "docs/glossary.md";
/// This file must name the words that it searches for.
const SELF: &str = "crates/xtask/src/tidy/words.rs";

/// Text that must not be left in a file, and what to do about it. Matched with case, as whole
/// words.
const LEFTOVERS: &[(&str, &str)] = &[
    ("TODO", "do it, or leave it out"),
    ("FIXME", "fix it, or leave it out"),
    ("XXX", "say it in a sentence"),
    ("HACK", "say why it has to be so"),
    ("todo!", "write it"),
    ("unimplemented!", "write it"),
    ("for now", "say what holds, and until when"),
    ("/home/", "a path of one machine"),
    ("/root/", "a path of one machine"),
];

pub(super) fn check(tree: &Tree, report: &mut Report<'_>) {
    let banned = tree.get(GLOSSARY).map(|g| banned(&g.text)).unwrap_or_default();
    for file in tree.files.iter().filter(|f| f.path != SELF && f.path != "Cargo.lock") {
        for (n, line) in file.text.lines().enumerate() {
            for (word, advice) in LEFTOVERS {
                if stands_in(line, word) {
                    report(&file.path, n + 1, format!("`{word}`: {advice}"));
                }
            }
            let lower = line.to_lowercase();
            for (word, instead) in banned.iter().filter(|_| file.path != GLOSSARY) {
                if stands_in(&lower, word) {
                    report(&file.path, n + 1, format!("`{word}`: say {instead}"));
                }
            }
        }
    }
}

/// Returns the rows of the table under the heading that ends in "not used here".
fn banned(glossary: &str) -> Vec<(String, String)> {
    let section = glossary.lines().skip_while(|l| !(l.starts_with('#') && l.ends_with("not used here")));
    let rows = section.filter(|l| l.starts_with("| ") && !l.starts_with("| word") && !l.starts_with("| ---"));
    let cells = rows.filter_map(|l| l.trim_matches(['|', ' ']).split_once(" | "));
    cells.map(|(word, instead)| (word.to_lowercase(), instead.trim().to_owned())).collect()
}

/// Whether `word` is in `line`. If it begins or ends with a letter, no letter may be next to it
/// there.
fn stands_in(line: &str, word: &str) -> bool {
    let starts = word.starts_with(is_ident);
    let ends = word.ends_with(is_ident);
    line.match_indices(word).any(|(i, _)| {
        let before = starts && line[..i].chars().next_back().is_some_and(is_ident);
        let after = ends && line[i + word.len()..].chars().next().is_some_and(is_ident);
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::super::made::{PATH, found_in_text};
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let glossary = "# Glossary\n| word | meaning |\n| page | bytes |\n\n## Words not used here\n\n| word | say |\n| --- | --- |\n| buffer page | page or frame |\n";
        found_in_text(&[(GLOSSARY, glossary), (PATH, text)], check)
    }

    #[test]
    fn words_of_the_glossary() {
        assert_eq!(
            found("//! x\n// A Buffer page.\n"),
            ["crates/a/src/lib.rs:2: `buffer page`: say page or frame"]
        );
        assert!(found("// A page, and buffer pages_of.\n").is_empty());
    }

    #[test]
    fn leftovers() {
        assert_eq!(found("// TODO later").len(), 1);
        assert_eq!(found("todo!()").len(), 1);
        assert_eq!(found("see /home/x").len(), 1);
        assert!(found("let TODOS = network/work;").is_empty());
    }
}
