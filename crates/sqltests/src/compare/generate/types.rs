//! Types of columns, and for each column a few values that its statements use again and again, so
//! that rows are found and keys collide.

use base::prng::Prng;

/// What a type can be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Integer,
    Decimal,
    Real,
    Bits,
    Temporal,
    Text,
    Binary,
    /// ENUM and SET: strings that are stored as numbers.
    Choice,
    /// UUID, INET4, INET6.
    Address,
}

/// A type of a column.
#[derive(Clone, Debug)]
pub(super) struct Type {
    pub(super) sql: String,
    pub(super) family: Family,
    /// Literals.
    pub(super) pool: Vec<String>,
    /// Strings: how many characters or bytes a key prefix may have. 0: no prefix can be taken.
    pub(super) prefix: u32,
    /// TEXT and BLOB are indexed only by a prefix.
    pub(super) needs_prefix: bool,
    /// How many bytes an index over the whole column takes.
    pub(super) key_bytes: u32,
}

/// Character sets with some of their collations, and the bytes of their longest character.
const CHARSETS: [(&str, u32, &[&str]); 6] = [
    ("latin1", 1, &["latin1_swedish_ci", "latin1_bin", "latin1_general_cs", "latin1_nopad_bin"]),
    ("ascii", 1, &["ascii_general_ci", "ascii_bin"]),
    ("utf8mb3", 3, &["utf8mb3_general_ci", "utf8mb3_bin", "utf8mb3_unicode_ci"]),
    (
        "utf8mb4",
        4,
        &[
            "utf8mb4_general_ci",
            "utf8mb4_bin",
            "utf8mb4_unicode_ci",
            "utf8mb4_unicode_520_ci",
            "utf8mb4_nopad_bin",
            "utf8mb4_unicode_nopad_ci",
            "uca1400_ai_ci",
            "uca1400_as_cs",
            "utf8mb4_german2_ci",
        ],
    ),
    ("ucs2", 2, &["ucs2_general_ci", "ucs2_bin"]),
    // Not cp1250_czech_cs: the server sorts it in another order than it compares it.
    ("cp1250", 1, &["cp1250_general_ci", "cp1250_bin"]),
];

const TEXTS: [&str; 28] = [
    "''", "' '", "'a'", "'A'", "'a '", "'a  '", "'b'", "'ab'", "'aB'", "'a\\t'", "'a\\0'", "'z'", "'Zz'",
    "'a%'", "'a_b'", "'0'", "'00'", "'12'", "'ss'", "'é'", "'e'", "'ß'", "'ä'", "'Ω'", "'漢字'", "'😀'",
    "'a b'", "'\\\\'",
];

const BYTES: [&str; 12] = [
    "''",
    "x'00'",
    "x'0000'",
    "x'61'",
    "x'6100'",
    "x'61FF'",
    "x'FF'",
    "x'FFFF'",
    "' '",
    "'a '",
    "x'7F80'",
    "x'0102030405060708'",
];

/// Returns a type for a column.
pub(super) fn any(rng: &mut Prng) -> Type {
    match rng.below(100) {
        0..36 => integer(rng),
        36..44 => decimal(rng),
        44..49 => real(rng),
        49..53 => bits(rng),
        53..66 => temporal(rng),
        66..84 => text(rng),
        84..92 => binary(rng),
        92..97 => choice(rng),
        _ => address(rng),
    }
}

fn choose(rng: &mut Prng, from: &[&str], count: usize) -> Vec<String> {
    (0..count).map(|_| (*rng.pick(from)).to_owned()).collect()
}

fn plain(sql: String, family: Family, pool: Vec<String>) -> Type {
    Type { sql, family, pool, prefix: 0, needs_prefix: false, key_bytes: 16 }
}

/// Returns an integer type.
pub(super) fn integer(rng: &mut Prng) -> Type {
    let (name, bits) = *rng.pick(&[
        ("TINYINT", 8),
        ("SMALLINT", 16),
        ("MEDIUMINT", 24),
        ("INT", 32),
        ("INT", 32),
        ("BIGINT", 64),
    ]);
    let unsigned = rng.one_in(3);
    let most = if unsigned { (1i128 << bits) - 1 } else { (1i128 << (bits - 1)) - 1 };
    let least = if unsigned { 0 } else { -(1i128 << (bits - 1)) };
    let mut values = vec![least, most, 0, 1, 2, 3, 127, most - 1, least + 1, most / 2 + 1];
    for _ in 0..6 {
        values.push(least + (i128::from(rng.next_u64()) % (most - least)));
        values.push(i128::from(rng.below(20)));
    }
    values.retain(|value| (least..=most).contains(value));
    let pool = (0..14).map(|_| rng.pick(&values).to_string()).collect();
    plain(format!("{name}{}", if unsigned { " UNSIGNED" } else { "" }), Family::Integer, pool)
}

fn decimal(rng: &mut Prng) -> Type {
    let digits = rng.between(1, 40);
    let scale = rng.below(digits.min(20) + 1);
    let unsigned = rng.one_in(4);
    let mut pool = vec!["0".to_owned(), "1".to_owned(), "0.5".to_owned(), "9".to_owned()];
    for _ in 0..8 {
        let whole: String = (scale..digits).map(|_| *rng.pick(&['0', '1', '9'])).collect();
        let part: String = (0..scale).map(|_| *rng.pick(&['0', '5', '9'])).collect();
        let sign = if unsigned || rng.one_in(2) { "" } else { "-" };
        pool.push(format!("{sign}0{whole}.{part}0"));
    }
    let sql = format!("DECIMAL({digits},{scale}){}", if unsigned { " UNSIGNED" } else { "" });
    plain(sql, Family::Decimal, pool)
}

fn real(rng: &mut Prng) -> Type {
    let values =
        ["0e0", "1e0", "-1e0", "0.5e0", "-0.5e0", "1e10", "-1e10", "1e-30", "-1e-30", "3e38", "0.1e0", "2e0"];
    plain((*rng.pick(&["FLOAT", "DOUBLE"])).to_owned(), Family::Real, choose(rng, &values, 9))
}

fn bits(rng: &mut Prng) -> Type {
    let count = *rng.pick(&[1u64, 3, 8, 9, 17, 64]);
    let most = if count == 64 { u64::MAX } else { (1 << count) - 1 };
    let pool = (0..8).map(|_| format!("b'{:b}'", rng.next_u64() & most)).collect();
    plain(format!("BIT({count})"), Family::Bits, pool)
}

fn temporal(rng: &mut Prng) -> Type {
    let fraction = *rng.pick(&[0u32, 0, 0, 1, 3, 6]);
    let precision = if fraction == 0 { String::new() } else { format!("({fraction})") };
    let dates =
        ["'1000-01-01'", "'9999-12-31'", "'2020-02-29'", "'2020-03-01'", "'1969-12-31'", "'2000-01-01'"];
    let times = [
        "'-838:59:59'",
        "'838:59:59'",
        "'00:00:00'",
        "'-00:00:00.1'",
        "'00:00:00.100001'",
        "'12:34:56.999'",
        "'23:59:59'",
    ];
    let moments = [
        "'1000-01-01 00:00:00'",
        "'9999-12-31 23:59:59'",
        "'2020-02-29 12:00:00.5'",
        "'2020-02-29 12:00:00'",
        "'1970-01-02 00:00:01'",
        "'2000-01-01 00:00:00.000001'",
    ];
    let stamps = [
        "'1970-01-01 00:00:01'",
        "'2038-01-19 03:14:07'",
        "'2020-02-29 12:00:00.5'",
        "'2020-02-29 12:00:00'",
        "'2001-09-09 01:46:40.123456'",
        "'2001-09-09 01:46:40'",
    ];
    let years = ["1901", "2155", "0", "1970", "2000", "2001", "1999"];
    match rng.below(6) {
        0 => plain("DATE".to_owned(), Family::Temporal, choose(rng, &dates, 6)),
        1 => plain(format!("TIME{precision}"), Family::Temporal, exact(choose(rng, &times, 7), fraction)),
        2 | 3 => {
            plain(format!("DATETIME{precision}"), Family::Temporal, exact(choose(rng, &moments, 7), fraction))
        }
        4 => {
            plain(format!("TIMESTAMP{precision}"), Family::Temporal, exact(choose(rng, &stamps, 7), fraction))
        }
        _ => plain("YEAR".to_owned(), Family::Temporal, choose(rng, &years, 6)),
    }
}

/// Cuts the fractions of seconds to the digits of a column. A condition with more digits finds
/// other rows where the server reads an index, which cuts them, than where it compares the column.
fn exact(pool: Vec<String>, digits: u32) -> Vec<String> {
    let cut = |literal: String| match literal.trim_matches('\'').split_once('.') {
        None => literal,
        Some((seconds, _)) if digits == 0 => format!("'{seconds}'"),
        Some((seconds, fraction)) => {
            format!("'{seconds}.{}'", fraction.chars().take(digits as usize).collect::<String>())
        }
    };
    pool.into_iter().map(cut).collect()
}

/// Returns a type of strings with a collation.
pub(super) fn text(rng: &mut Prng) -> Type {
    let (charset, width, collations) = CHARSETS[*rng.pick(&[0usize, 0, 1, 2, 3, 3, 3, 3, 4, 5])];
    let collation = *rng.pick(collations);
    let mut pool = choose(rng, &TEXTS, 12);
    let chars = *rng.pick(&[1u32, 3, 10, 20, 64, 191, 255]);
    if chars >= 64 && rng.one_in(2) {
        pool.push(format!("REPEAT('{}', {})", rng.pick(&["ab", "x ", "é"]), chars / 2));
        pool.push(format!("CONCAT(REPEAT('q', {}), 'z')", chars - 1));
    }
    let long = *rng.pick(&["TINYTEXT", "TEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"]);
    // In an index CHAR is compared with its spaces, and these count in a NO PAD collation: there a
    // tab behind 'a' makes it less, and without the index greater, in both engines.
    let padded = !collation.contains("nopad");
    let (name, needs_prefix) = match rng.below(6) {
        0 | 1 if padded => (format!("CHAR({})", chars.min(60)), false),
        0..=4 => (format!("VARCHAR({chars})"), false),
        _ => (long.to_owned(), true),
    };
    if needs_prefix {
        pool.push("REPEAT('long text ', 20)".to_owned());
        if long != "TINYTEXT" {
            pool.push("REPEAT('0123456789', 2000)".to_owned());
        }
    }
    let sql = format!("{name} CHARACTER SET {charset} COLLATE {collation}");
    Type { sql, family: Family::Text, pool, prefix: chars.min(60), needs_prefix, key_bytes: chars * width }
}

fn binary(rng: &mut Prng) -> Type {
    let mut pool = choose(rng, &BYTES, 9);
    let bytes = *rng.pick(&[1u32, 2, 8, 20, 200]);
    if bytes == 200 {
        pool.push("REPEAT('b', 200)".to_owned());
    }
    let (sql, needs_prefix) = match rng.below(5) {
        0 | 1 => (format!("BINARY({})", bytes.min(100)), false),
        2 | 3 => (format!("VARBINARY({bytes})"), false),
        _ => ((*rng.pick(&["TINYBLOB", "BLOB", "LONGBLOB"])).to_owned(), true),
    };
    Type { sql, family: Family::Binary, pool, prefix: bytes.min(100), needs_prefix, key_bytes: bytes }
}

fn choice(rng: &mut Prng) -> Type {
    let set = rng.one_in(2);
    let (sql, values): (&str, &[&str]) = if set {
        ("SET('a','b','c','d')", &["''", "'a'", "'b'", "'a,b'", "'b,a'", "'a,b,c,d'", "'d'"])
    } else {
        ("ENUM('z','y','X','a b')", &["'z'", "'y'", "'X'", "'x'", "'a b'"])
    };
    plain(sql.to_owned(), Family::Choice, choose(rng, values, 6))
}

fn address(rng: &mut Prng) -> Type {
    let (sql, values): (&str, &[&str]) = match rng.below(3) {
        0 => (
            "UUID",
            &[
                "'00000000-0000-0000-0000-000000000000'",
                "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
                "'123e4567-e89b-12d3-a456-426614174000'",
                "'123e4567-e89b-42d3-a456-426614174000'",
                "'f23e4567-e89b-12d3-a456-426614174000'",
            ],
        ),
        1 => ("INET6", &["'::'", "'::1'", "'ffff::ffff'", "'::ffff:1.2.3.4'", "'fe80::1'"]),
        _ => ("INET4", &["'0.0.0.0'", "'255.255.255.255'", "'1.2.3.4'", "'10.0.0.1'"]),
    };
    plain(sql.to_owned(), Family::Address, choose(rng, values, 6))
}
