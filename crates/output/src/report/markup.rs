//! Whether markup is whole, for tests.

/// Checks that every element is closed, in order, and that no attribute or text contains NaN or
/// infinity.
pub(crate) fn assert_whole(name: &str, text: &str) {
    assert!(
        !text.contains("NaN") && !text.contains("inf\"") && !text.contains("inf,"),
        "{name}: NaN or infinity"
    );
    let mut open: Vec<&str> = Vec::new();
    // Skips scripts and styles.
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').unwrap_or_else(|| panic!("{name}: an element without an end"));
        let (tag, after) = (&rest[..end], &rest[end + 1..]);
        let word = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap_or_default();
        rest = after;
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(word), "{name}: </{word}> closes something else");
        } else if !tag.ends_with('/') && !tag.starts_with('!') && !["meta", "link"].contains(&word) {
            open.push(word);
            if ["script", "style"].contains(&word) {
                rest = &rest[rest.find("</").unwrap_or_default()..];
            }
        }
    }
    assert!(open.is_empty(), "{name}: {open:?} stays open");
}
