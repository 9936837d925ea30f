//! A share of what there is to run: N of M, chosen by names and a seed.

use std::ops::RangeInclusive;

/// Which of the tests run.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Share {
    /// Only a share of them, N/M, without those that are listed as slow
    #[arg(long, value_parser = share)]
    share: Option<(u64, u64)>,
    /// Which share
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Share {
    /// All of them.
    pub(super) const WHOLE: Share = Share { share: None, seed: 1 };

    /// All of them, in an order that the seed chooses.
    pub(super) fn whole(seed: u64) -> Share {
        Share { share: None, seed }
    }

    /// One of so many parts, which the seed chooses.
    pub(super) fn one_of(parts: u64, seed: u64) -> Share {
        Share { share: Some((1, parts)), seed }
    }

    /// Returns the turns of a test that are of the share, one after the other: all from 1 to
    /// `last`, or a part that begins where the seed says.
    pub(super) fn turns(self, last: u32) -> RangeInclusive<u32> {
        let Some((part, parts)) = self.share else { return 1..=last };
        let count = (u64::from(last) * part / parts).clamp(1, u64::from(last)) as u32;
        let first = 1 + (self.seed % u64::from(last - count + 1)) as u32;
        first..=first + count - 1
    }

    /// Returns the seed of what is random in the tests.
    pub(super) fn seed(self) -> u64 {
        self.seed
    }

    /// Whether not all tests run.
    pub(super) fn is_part(self) -> bool {
        self.share.is_some()
    }

    /// Whether a test is of the share.
    pub(super) fn has(self, name: &str) -> bool {
        self.share.is_none_or(|(part, parts)| hash(name, self.seed) % parts < part)
    }

    /// Returns where a test stands in an order that the seed chooses.
    pub(super) fn place(self, name: &str) -> u64 {
        hash(name, self.seed).swap_bytes()
    }
}

/// Reads a share, `N/M`.
fn share(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once('/').and_then(|(n, m)| Some((n.parse().ok()?, m.parse().ok()?)));
    parts.filter(|&(n, m)| n >= 1 && n <= m).ok_or_else(|| "a share is N/M, as 1/20".to_owned())
}

/// FNV-1a of the seed and the name, with its bits mixed once more.
fn hash(name: &str, seed: u64) -> u64 {
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

    #[test]
    fn an_order_depends_on_the_seed() {
        let order = |seed| {
            let mut names = ["a", "b", "c", "d", "e", "f", "g", "h"];
            names.sort_by_key(|name| Share::whole(seed).place(name));
            names
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
    }

    #[test]
    fn turns_of_a_share_follow_each_other() {
        assert_eq!(Share::WHOLE.turns(50), 1..=50);
        assert_eq!(Share::one_of(5, 0).turns(50), 1..=10);
        assert_eq!(Share::one_of(5, 40).turns(50), 41..=50);
        assert_eq!(Share::one_of(5, 41).turns(50), 1..=10);
        assert_eq!(Share::one_of(5, 7).turns(3), 2..=2);
    }
}
