//! Text in lines of a limited width.

/// Returns `text` in lines of at most `columns` columns, if no word is longer. The first line
/// begins with `heading`; all text stands from the column `indent` on.
pub(crate) fn wrapped(heading: &str, text: &str, indent: usize, columns: usize) -> String {
    let mut out = String::new();
    let mut line = format!("{heading:indent$}");
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > columns {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_end_before_the_last_column() {
        assert_eq!(wrapped("key", "one two three", 5, 13), "key  one two\n     three\n");
        assert_eq!(wrapped("", "one two", 0, 80), "one two\n");
        assert_eq!(wrapped("", "a verylongword b", 0, 4), "a\nverylongword\nb\n");
        assert_eq!(wrapped("key", "", 5, 10), "key\n");
    }
}
