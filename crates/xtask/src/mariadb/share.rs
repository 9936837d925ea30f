//! A share of what there is to run: N of M, chosen by names and a seed.

/// Reads a share, `N/M`.
pub(super) fn share(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once('/').and_then(|(n, m)| Some((n.parse().ok()?, m.parse().ok()?)));
    parts.filter(|&(n, m)| n >= 1 && n <= m).ok_or_else(|| "a share is N/M, as 1/20".to_owned())
}

/// FNV-1a of the seed and the name, with its bits mixed once more.
pub(super) fn hash(name: &str, seed: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_about_its_part_of_all_tests_and_depends_on_the_seed() {
        let chosen =
            |seed| (0..1000).filter(|n| hash(&format!("main.test{n}"), seed) % 10 < 3).collect::<Vec<_>>();
        assert!((250..350).contains(&chosen(1).len()), "{}", chosen(1).len());
        assert_ne!(chosen(1), chosen(2));
    }
}
