//! Strings on which collations differ: letters with and without accents, letters that sort as two
//! or as none, contractions, spaces and what sorts below them, characters of many scripts.

use base::prng::Prng;

/// Ranges of characters. Each is taken as often as another.
const SCRIPTS: [(u32, u32); 30] = [
    (0x61, 0x7a),
    (0x41, 0x5a),
    (0x61, 0x66),
    (0x20, 0x20),
    (0x00, 0x1f),
    (0x21, 0x40),
    (0x5b, 0x60),
    (0x7f, 0xa0),
    (0xa1, 0xff),
    (0x100, 0x17f),
    (0x180, 0x24f),
    (0x300, 0x362),
    (0x370, 0x3ff),
    (0x400, 0x4ff),
    (0x530, 0x58f),
    (0x590, 0x5ff),
    (0x600, 0x6ff),
    (0x900, 0x97f),
    (0xe00, 0xe5b),
    (0xe80, 0xedf),
    (0x1000, 0x109f),
    (0x1100, 0x11ff),
    (0x1e00, 0x1fff),
    (0x2000, 0x206f),
    (0x2100, 0x24ff),
    (0x3040, 0x30ff),
    (0x4e00, 0x9fff),
    (0xac00, 0xd7a3),
    (0xf900, 0xffff),
    (0x10000, 0x2ffff),
];

/// Characters and sequences that some collation treats in its own way.
const SPECIAL: [&str; 48] = [
    "ch",
    "Ch",
    "CH",
    "ll",
    "LL",
    "dz",
    "dzs",
    "dž",
    "lj",
    "nj",
    "cs",
    "gy",
    "ly",
    "ny",
    "sz",
    "ty",
    "zs",
    "ss",
    "ß",
    "ẞ",
    "ae",
    "æ",
    "oe",
    "œ",
    "ﬁ",
    "ﬃ",
    "ĳ",
    "ij",
    "ü",
    "ue",
    "é",
    "e\u{301}",
    "å",
    "aa",
    "ø",
    "ı",
    "İ",
    "i",
    "\u{ad}",
    "\u{200b}",
    "\u{fdfa}",
    "カ",
    "ガ",
    "ー",
    "😀",
    "👨\u{200d}👩",
    "\u{fffd}",
    "  ",
];

fn character(rng: &mut Prng) -> char {
    let (first, last) = *rng.pick(&SCRIPTS);
    // The gap of the surrogates is in no range.
    char::from_u32(rng.between(u64::from(first), u64::from(last)) as u32).unwrap_or('a')
}

fn fresh(rng: &mut Prng) -> String {
    let mut text = String::new();
    let narrow = rng.one_in(2);
    for _ in 0..rng.below(9) {
        match rng.below(4) {
            0 => text.push_str(rng.pick::<&str>(&SPECIAL)),
            1 if narrow => text.push(*rng.pick(&['a', 'b', 'A', 'á', ' '])),
            _ if narrow => text.push(char::from(rng.between(0x61, 0x65) as u8)),
            _ => text.push(character(rng)),
        }
    }
    text
}

/// Returns a string that is near another: equal in some collations, or a neighbour.
fn variant(rng: &mut Prng, of: &str) -> String {
    match rng.below(9) {
        0 => of.to_uppercase(),
        1 => of.to_lowercase(),
        2 => format!("{of} "),
        3 => format!("{of}{}", character(rng)),
        4 => format!("{of}{}", rng.pick::<&str>(&["\t", "\0", "\u{1}", "\u{ad}", "\u{301}", "  \t", "   "])),
        5 => of.chars().take(rng.below(4) as usize).collect(),
        6 => of.chars().skip(1).collect(),
        7 => format!("{of}{}", rng.pick::<&str>(&SPECIAL)),
        _ => of.chars().rev().collect(),
    }
}

/// Returns `count` strings of at most `chars` characters.
pub(crate) fn strings(seed: u64, count: usize, chars: usize) -> Vec<String> {
    let mut rng = Prng::new(seed);
    let mut made: Vec<String> = Vec::with_capacity(count);
    while made.len() < count {
        let text = if made.is_empty() || rng.one_in(2) {
            fresh(&mut rng)
        } else {
            let of = rng.pick(&made).clone();
            variant(&mut rng, &of)
        };
        made.push(text.chars().take(chars).collect());
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_again_from_their_seed() {
        let made = strings(7, 500, 20);
        assert_eq!(made, strings(7, 500, 20));
        assert_ne!(made, strings(8, 500, 20));
        assert!(made.iter().all(|text| text.chars().count() <= 20));
    }
}
