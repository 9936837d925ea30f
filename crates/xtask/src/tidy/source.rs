//! The files of the repository, and Rust text with comments and strings blanked out, so that a rule that looks for code
//! finds only code. Line and column stay where they are.

use std::fs;
use std::path::Path;

/// One file.
#[derive(Debug)]
pub(super) struct File {
    /// From the root, with `/`.
    pub(super) path: String,
    /// As it stands on disk.
    pub(super) text: String,
    /// Rust only: the text with comments and the insides of strings turned into blanks.
    pub(super) code: String,
}

impl File {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let code = if path.ends_with(".rs") { blank(text) } else { String::new() };
        File { path: path.to_owned(), text: text.to_owned(), code }
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// All files that rules look at, sorted by path.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: Vec<File>,
    /// Paths of all files, also of those that no rule reads.
    pub(super) paths: Vec<String>,
}

/// What holds text that people write.
const TEXT: &[&str] = &["rs", "md", "toml", "sh", "h", "cc", "c", "yml"];

impl Tree {
    pub(super) fn load(root: &Path) -> Self {
        let mut tree = Tree::default();
        tree.walk(root, "");
        tree
    }

    /// A tree made of (path, text), for the rules' own tests.
    #[cfg(test)]
    pub(super) fn made_of(files: &[(&str, &str)]) -> Self {
        Tree {
            files: files.iter().map(|(path, text)| File::new(path, text)).collect(),
            paths: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
        }
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|f| f.is_rust())
    }

    pub(super) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|f| f.path == path)
    }

    fn walk(&mut self, dir: &Path, prefix: &str) {
        let mut entries: Vec<_> = fs::read_dir(dir).into_iter().flatten().flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.path().is_dir() {
                // What builds, runs and version control leave behind.
                if !matches!(name.as_str(), "target" | ".git") && !name.starts_with("millpond-run-") {
                    self.walk(&entry.path(), &format!("{path}/"));
                }
                continue;
            }
            let is_text = name.rsplit_once('.').is_some_and(|(_, ext)| TEXT.contains(&ext));
            if (is_text || path == ".ci/run")
                && let Ok(text) = fs::read_to_string(entry.path())
            {
                self.files.push(File::new(&path, &text));
            }
            self.paths.push(path);
        }
    }
}

/// Rust text with comments and the insides of string and character literals turned into blanks.
pub(super) fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let put = |out: &mut String, c: char| out.push(if c == '\n' { '\n' } else { ' ' });
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut i = 0;
    while i < chars.len() {
        let c = chars[i];
        if c == '/' && at(i + 1) == '/' {
            while i < chars.len() && chars[i] != '\n' {
                put(&mut out, chars[i]);
                i += 1;
            }
        } else if c == '/' && at(i + 1) == '*' {
            let mut depth = 0;
            while i < chars.len() {
                let step = match (chars[i], at(i + 1)) {
                    ('/', '*') => {
                        depth += 1;
                        2
                    }
                    ('*', '/') => {
                        depth -= 1;
                        2
                    }
                    _ => 1,
                };
                (0..step).for_each(|k| put(&mut out, at(i + k)));
                i += step;
                if depth == 0 {
                    break;
                }
            }
        } else if c == 'r' && matches!(at(i + 1), '"' | '#') && !is_ident(i.checked_sub(1).map_or(' ', at)) {
            let hashes = chars[i + 1..].iter().take_while(|c| **c == '#').count();
            if at(i + 1 + hashes) != '"' {
                out.push(c);
                i += 1;
                continue;
            }
            out.push(c);
            let end = (i + 2 + hashes..chars.len())
                .find(|k| chars[*k] == '"' && (1..=hashes).all(|h| at(k + h) == '#'))
                .map_or(chars.len(), |k| k + 1 + hashes);
            chars[i + 1..end].iter().for_each(|c| put(&mut out, *c));
            i = end;
        } else if c == '"' {
            out.push('"');
            i += 1;
            while i < chars.len() && chars[i] != '"' {
                let step = if chars[i] == '\\' { 2 } else { 1 };
                chars[i..(i + step).min(chars.len())].iter().for_each(|c| put(&mut out, *c));
                i += step;
            }
            if i < chars.len() {
                out.push('"');
                i += 1;
            }
        } else if c == '\'' && (at(i + 1) == '\\' || at(i + 2) == '\'') {
            // A character, not a lifetime.
            let from = if at(i + 1) == '\\' { i + 3 } else { i + 2 };
            let end = (from..chars.len()).find(|k| chars[*k] == '\'').map_or(chars.len(), |k| k + 1);
            chars[i..end].iter().for_each(|c| put(&mut out, *c));
            i = end;
        } else {
            out.push(c);
            i += 1;
        }
    }
    out
}

pub(super) fn is_ident(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The line (from 1) of a byte offset.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// Byte offsets at which `word` stands in `text` with no letter, digit or underscore on either side.
pub(super) fn whole_words(text: &str, word: &str) -> Vec<usize> {
    let before = |i: usize| text[..i].chars().next_back().is_some_and(is_ident);
    let after = |i: usize| text[i..].chars().next().is_some_and(is_ident);
    text.match_indices(word).map(|(i, _)| i).filter(|i| !before(*i) && !after(i + word.len())).collect()
}

/// Code with everything under `#[cfg(test)]` and its like blanked out too.
pub(super) fn without_tests(code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for (start, _) in code.match_indices("#[cfg(") {
        let Some(close) = code[start..].find(']').map(|n| start + n) else { continue };
        let condition = &code[start..close];
        if whole_words(condition, "test").is_empty() || condition.contains("not(test") {
            continue;
        }
        let body = code[close..].find(['{', ';']).map_or(code.len(), |n| close + n);
        let end = if code.as_bytes().get(body) == Some(&b'{') { matching_brace(code, body) } else { body };
        for byte in &mut bytes[start..end.min(code.len())] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    // Blanks replace whole characters: a multi-byte one became several blanks.
    String::from_utf8(bytes).expect("blanks keep the text valid")
}

/// The offset behind the brace that closes the one at `open`.
fn matching_brace(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (i, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return open + i + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blank() {
        let text = "a(); // unsafe\nlet s = \"unsafe \\\" {\"; /* x /* y */ */ b::<'a>('\"', '\\'');\nr#\"c \"d\"#; r_x";
        let code = blank(text);
        assert_eq!(code.lines().count(), text.lines().count());
        assert_eq!(code.chars().count(), text.chars().count());
        for gone in ["unsafe", "x", "y", "c", "d"] {
            assert_eq!(whole_words(&code, gone), Vec::<usize>::new(), "{gone}");
        }
        assert!(code.contains("a();") && code.contains("b::<'a>(") && code.contains("r_x"));
    }

    #[test]
    fn tests_are_blank() {
        let code = "use crate::a;\n#[cfg(test)]\nmod tests {\n use crate::b; { }\n}\n#[cfg(test)]\nmod t;\nuse crate::c;";
        let kept = without_tests(code);
        assert!(kept.contains("crate::a") && kept.contains("crate::c"));
        assert!(!kept.contains("crate::b") && !kept.contains("mod t;"));
        assert!(without_tests("#[cfg(not(test))]\nuse crate::d;").contains("crate::d"));
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(whole_words("a latch, latches, unlatch latch", "latch"), [2, 26]);
    }
}
