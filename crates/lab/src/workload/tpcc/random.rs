//! The standard's random values (its clauses 2.1.6 and 4.3.2): strings, last names of syllables,
//! and NURand, which prefers some values.

use base::prng::Prng;

const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const CAPITALS: &[u8; 26] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const DIGITS: &[u8; 10] = b"0123456789";
/// What a tenth of the items and of the stock have in their data.
const ORIGINAL: &[u8] = b"ORIGINAL";
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
/// So many characters of the largest set come from 64 random bits: 62^8 is below 2^48.
const CHARACTERS_OF_A_DRAW: usize = 8;

/// Fills `out` with random characters of a set.
fn fill(out: &mut [u8], set: &[u8], rng: &mut Prng) {
    for chunk in out.chunks_mut(CHARACTERS_OF_A_DRAW) {
        let mut bits = rng.next_u64();
        for byte in chunk {
            let wide = u128::from(bits) * set.len() as u128;
            *byte = set[(wide >> 64) as usize];
            bits = wide as u64;
        }
    }
}

/// Returns random characters of a set, as many as the array holds.
fn exactly<const N: usize>(set: &[u8], rng: &mut Prng) -> [u8; N] {
    let mut out = [0; N];
    fill(&mut out, set, rng);
    out
}

/// Returns a string of bytes that are ASCII.
fn string(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

/// Returns letters and digits, as many as the array holds.
pub(crate) fn letters<const N: usize>(rng: &mut Prng) -> [u8; N] {
    exactly(LETTERS, rng)
}

/// Returns digits, as many as the array holds.
pub(crate) fn digits<const N: usize>(rng: &mut Prng) -> [u8; N] {
    exactly(DIGITS, rng)
}

/// Returns the code of a state: two capitals.
pub(crate) fn state(rng: &mut Prng) -> [u8; 2] {
    exactly(CAPITALS, rng)
}

/// Returns a zip code: four random digits and 11111.
pub(crate) fn zip(rng: &mut Prng) -> [u8; 9] {
    let mut out = [b'1'; 9];
    fill(&mut out[..4], DIGITS, rng);
    out
}

/// Returns `least` to `most` letters and digits.
pub(crate) fn text(least: u64, most: u64, rng: &mut Prng) -> String {
    let mut out = vec![0; rng.between(least, most) as usize];
    fill(&mut out, LETTERS, rng);
    string(out)
}

/// Returns the data of an item or of stock: 26 to 50 letters and digits; one in ten has the word
/// ORIGINAL somewhere.
pub(crate) fn data(rng: &mut Prng) -> String {
    let mut out = vec![0; rng.between(26, 50) as usize];
    fill(&mut out, LETTERS, rng);
    if rng.one_in(10) {
        let at = rng.below((out.len() - ORIGINAL.len() + 1) as u64) as usize;
        out[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
    string(out)
}

/// Returns last name `number`, below 1000: a syllable for each of its three digits.
pub(crate) fn last_name(number: u32) -> String {
    let syllable = |place: u32| SYLLABLES[(number / place % 10) as usize];
    [syllable(100), syllable(10), syllable(1)].concat()
}

/// Returns the numbers 1 ..= `n` in random order.
pub(crate) fn permutation(n: u32, rng: &mut Prng) -> Vec<u32> {
    let mut out: Vec<u32> = (1..=n).collect();
    shuffle(&mut out, rng);
    out
}

/// Puts items in random order (Fisher and Yates).
pub(crate) fn shuffle<T>(items: &mut [T], rng: &mut Prng) {
    for last in (1..items.len()).rev() {
        items.swap(last, rng.below(last as u64 + 1) as usize);
    }
}

/// A NURand function: numbers from `low` to `high`, not all with the same probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NuRand {
    /// The standard's A: 255, 1023 or 8191.
    pub(crate) a: u64,
    /// The standard's C: which values are preferred.
    pub(crate) c: u64,
}

impl NuRand {
    /// Returns a number in `low..=high`.
    pub(crate) fn pick(self, low: u64, high: u64, rng: &mut Prng) -> u64 {
        let mixed = rng.between(0, self.a) | rng.between(low, high);
        (mixed + self.c) % (high - low + 1) + low
    }
}

/// The three functions of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NuRands {
    /// For last names.
    pub(crate) last_name: NuRand,
    /// For customers.
    pub(crate) customer: NuRand,
    /// For items.
    pub(crate) item: NuRand,
}

/// C of the last names in the load. That of the run must differ from it as clause 2.1.6.1 says.
const LOAD_C: u64 = 100;
/// The differences that the clause allows: 65 to 119, but not 96 and not 112.
const DELTAS: [std::ops::RangeInclusive<u64>; 3] = [65..=95, 97..=111, 113..=119];

/// Returns the function of the last names in the load.
pub(crate) fn last_name_of_load() -> NuRand {
    NuRand { a: 255, c: LOAD_C }
}

impl NuRands {
    /// Draws the three C of a run.
    pub(crate) fn of_run(rng: &mut Prng) -> NuRands {
        let deltas: Vec<u64> = DELTAS.into_iter().flatten().collect();
        NuRands {
            last_name: NuRand { a: 255, c: LOAD_C + rng.pick(&deltas) },
            customer: NuRand { a: 1023, c: rng.between(0, 1023) },
            item: NuRand { a: 8191, c: rng.between(0, 8191) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_those_of_the_standard() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn strings_have_the_length_and_the_characters_that_they_must_have() {
        let mut rng = Prng::new(1);
        for _ in 0..1000 {
            let some = text(8, 16, &mut rng);
            assert!((8..=16).contains(&some.len()) && some.bytes().all(|b| b.is_ascii_alphanumeric()));
            let phone: [u8; 16] = digits(&mut rng);
            assert!(phone.iter().all(u8::is_ascii_digit));
            let zip = zip(&mut rng);
            assert!(zip[..4].iter().all(u8::is_ascii_digit) && zip[4..] == *b"11111");
            assert!(state(&mut rng).iter().all(u8::is_ascii_uppercase));
        }
    }

    #[test]
    fn a_tenth_of_the_data_is_original() {
        let mut rng = Prng::new(2);
        let all: Vec<String> = (0..10_000).map(|_| data(&mut rng)).collect();
        assert!(all.iter().all(|data| (26..=50).contains(&data.len())));
        let originals = all.iter().filter(|data| data.contains("ORIGINAL")).count();
        assert!((900..1100).contains(&originals), "{originals}");
    }

    #[test]
    fn nurand_keeps_its_bounds_and_prefers_some_values() {
        let mut rng = Prng::new(3);
        let nurand = NuRand { a: 1023, c: 259 };
        let mut counts = vec![0u32; 3000];
        for _ in 0..300_000 {
            counts[nurand.pick(1, 3000, &mut rng) as usize - 1] += 1;
        }
        counts.sort_unstable();
        let drawn = counts.iter().filter(|count| **count > 0).count();
        assert!(drawn > 2000, "{drawn} of 3,000 values are drawn");
        let top: u32 = counts[2700..].iter().sum();
        assert!(top > 60_000, "a tenth of the values gets over a fifth of the draws: {top}");
    }

    #[test]
    fn the_last_names_of_a_run_differ_from_those_of_the_load_as_the_standard_says() {
        for seed in 0..500 {
            let delta = NuRands::of_run(&mut Prng::new(seed)).last_name.c - last_name_of_load().c;
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "{delta}");
        }
    }

    #[test]
    fn a_permutation_has_each_number_once() {
        let mut all = permutation(3000, &mut Prng::new(4));
        assert_ne!(all[..5], [1, 2, 3, 4, 5]);
        all.sort_unstable();
        assert!(all.iter().copied().eq(1..=3000));
    }
}
