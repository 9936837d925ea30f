//! A share of what there is to run: N of M, chosen by names and a seed.

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
    /// Whether not all tests run.
    pub(super) fn is_part(self) -> bool {
        self.share.is_some()
    }

    /// Whether a test is of the share.
    pub(super) fn has(self, name: &str) -> bool {
        self.share.is_none_or(|(part, parts)| hash(name, self.seed) % parts < part)
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
}
