//! Which known names are nearest to one that is unknown.

/// Returns up to `count` of the known names, the nearest first: those that a slip of a few letters
/// makes, then those that hold the wanted text or are held by it, then others that resemble it.
pub(crate) fn nearest(wanted: &str, known: impl Iterator<Item = String>, count: usize) -> Vec<String> {
    let rank = |name: &str| {
        let name = name.to_lowercase();
        let distance = distance(wanted, &name);
        let parts = name.len().min(wanted.len()) >= 4 && (name.contains(wanted) || wanted.contains(&name));
        match distance {
            _ if distance <= 1 + wanted.len() / 10 => Some((0, distance)),
            _ if parts => Some((1, distance)),
            _ if distance <= 1 + wanted.len() / 5 => Some((2, distance)),
            _ => None,
        }
    };
    let mut found: Vec<_> = known.filter_map(|name| Some((rank(&name)?, name))).collect();
    found.sort();
    found.dedup_by(|a, b| a.1 == b.1);
    found.into_iter().take(count).map(|(_, name)| name).collect()
}

/// Returns how many letters must be changed, added or left out to make one text of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, letters) in
            [("", "", 0), ("", "abc", 3), ("abc", "abc", 0), ("abc", "abd", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (letters, letters), "{a} {b}");
        }
    }

    #[test]
    fn slips_come_before_parts_and_strangers_are_left_out() {
        let known = ["innodb_io_capacity", "innodb_io_capacity_max", "sync_binlog", "commits"];
        let near = |wanted: &str| nearest(wanted, known.iter().map(|&n| n.to_owned()), 2);
        assert_eq!(near("inodb_io_capacity"), ["innodb_io_capacity"]);
        assert_eq!(near("io_capacity"), ["innodb_io_capacity", "innodb_io_capacity_max"]);
        assert_eq!(near("comits"), ["commits"]);
        assert_eq!(near("innodb_io_capacity_min"), ["innodb_io_capacity_max", "innodb_io_capacity"]);
        assert!(near("zzzz").is_empty() && near("").is_empty());
    }
}
