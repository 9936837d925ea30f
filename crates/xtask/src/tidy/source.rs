//! The files of the repository. Rust text is also available without comments and strings, so that a
//! rule for code finds only code. Lines and columns stay the same.

use std::fs;
use std::path::Path;

/// One file.
#[derive(Debug)]
pub(super) struct File {
    /// The path from the root, with `/`.
    pub(super) path: String,
    /// The text on disk.
    pub(super) text: String,
    /// Rust only: the text in which comments and the insides of strings are blanks.
    pub(super) code: String,
}

impl File {
    pub(super) fn new(path: &str, text: &str) -> Self {
        let code = if path.ends_with(".rs") { blank(text) } else { String::new() };
        File { path: path.to_owned(), text: text.to_owned(), code }
    }

    /// Rust only: the text in which everything but comments is blank.
    pub(super) fn comments(&self) -> String {
        only(&self.text, TextKind::Comment)
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// All files that the rules check, sorted by path.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: Vec<File>,
    /// The paths of all files, also of files that no rule reads.
    pub(super) paths: Vec<String>,
}

/// The extensions of files with text that people write.
const TEXT: &[&str] = &["rs", "md", "toml", "sh", "h", "cc", "c", "yml"];

impl Tree {
    pub(super) fn load(root: &Path) -> Self {
        let mut tree = Tree::default();
        tree.walk(root, "");
        tree
    }

    /// Makes a tree of (path, text), for the tests of the rules.
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

    /// Whether there is a file below a directory.
    pub(super) fn has_dir(&self, dir: &str) -> bool {
        self.paths.iter().any(|path| path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/')))
    }

    fn walk(&mut self, dir: &Path, prefix: &str) {
        let mut entries: Vec<_> = fs::read_dir(dir).into_iter().flatten().flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.path().is_dir() {
                // Directories of builds, runs and version control.
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

/// What a character of Rust text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextKind {
    Code,
    Comment,
    /// The inside of a string, or a character literal.
    Literal,
}

/// Returns the kind of each character of Rust text.
fn kinds(chars: &[char]) -> Vec<TextKind> {
    let mut kinds = vec![TextKind::Code; chars.len()];
    let mut i = 0;
    while i < chars.len() {
        let at = |n: usize| chars.get(i + n).copied().unwrap_or('\0');
        // Where the characters that are no code begin and end, and where the scan goes on.
        let (kind, start, end, next) = match (at(0), at(1)) {
            ('/', '/') => {
                let end = (i..chars.len()).find(|n| chars[*n] == '\n').unwrap_or(chars.len());
                (TextKind::Comment, i, end, end)
            }
            ('/', '*') => {
                let end = block_comment_end(chars, i);
                (TextKind::Comment, i, end, end)
            }
            ('r', '"' | '#') if !is_ident(i.checked_sub(1).map_or(' ', |before| chars[before])) => {
                let end = raw_string_end(chars, i).unwrap_or(i + 1);
                (TextKind::Literal, i + 1, end, end)
            }
            ('"', _) => {
                let end = string_end(chars, i + 1);
                (TextKind::Literal, i + 1, end, end + 1)
            }
            // A character, not a lifetime.
            ('\'', second) if second == '\\' || at(2) == '\'' => {
                let from = if second == '\\' { i + 3 } else { i + 2 };
                let end = (from..chars.len()).find(|n| chars[*n] == '\'').map_or(chars.len(), |n| n + 1);
                (TextKind::Literal, i, end, end)
            }
            _ => (TextKind::Code, i, i + 1, i + 1),
        };
        kinds[start..end].fill(kind);
        i = next;
    }
    kinds
}

/// Returns the end of the block comment that begins at `start`. Block comments may be nested.
fn block_comment_end(chars: &[char], start: usize) -> usize {
    let (mut depth, mut i) = (0, start);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

/// Returns the end of the raw string whose `r` is at `start`; `None` if it is no raw string.
fn raw_string_end(chars: &[char], start: usize) -> Option<usize> {
    let hashes = chars[start + 1..].iter().take_while(|c| **c == '#').count();
    let open = start + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let is_end = |n: usize| chars[n] == '"' && (1..=hashes).all(|hash| chars.get(n + hash) == Some(&'#'));
    Some((open + 1..chars.len()).find(|n| is_end(*n)).map_or(chars.len(), |n| n + 1 + hashes))
}

/// Returns the position of the quote that ends the string. `start` is after the opening quote.
fn string_end(chars: &[char], start: usize) -> usize {
    let mut i = start;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i.min(chars.len())
}

/// Returns Rust text in which all characters but those of `kind` are blanks.
fn only(text: &str, kind: TextKind) -> String {
    let chars: Vec<char> = text.chars().collect();
    let kept = |(c, of): (&char, TextKind)| if *c == '\n' || of == kind { *c } else { ' ' };
    chars.iter().zip(kinds(&chars)).map(kept).collect()
}

/// Returns Rust text in which comments and the insides of string and character literals are blanks.
pub(super) fn blank(text: &str) -> String {
    only(text, TextKind::Code)
}

pub(super) fn is_ident(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the line (from 1) of a byte offset.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// Returns the byte offsets of `word` in `text`, where no letter, digit or underscore is on either
/// side.
pub(super) fn whole_words(text: &str, word: &str) -> Vec<usize> {
    let before = |i: usize| text[..i].chars().next_back().is_some_and(is_ident);
    let after = |i: usize| text[i..].chars().next().is_some_and(is_ident);
    text.match_indices(word).map(|(i, _)| i).filter(|i| !before(*i) && !after(i + word.len())).collect()
}

/// Returns code in which everything under `#[cfg(test)]` and the like is blank too.
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

/// Returns the offset after the brace that closes the one at `open`.
pub(super) fn matching_brace(code: &str, open: usize) -> usize {
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
        let comments = only(text, TextKind::Comment);
        assert!(comments.contains("// unsafe") && comments.contains("/* x /* y */ */"));
        assert!(!comments.contains("b::") && !comments.contains("d"));
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
