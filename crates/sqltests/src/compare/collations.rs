//! Compares the order, the equality, prefixes and LIKE of every collation in indexes of both
//! engines.

use crate::compare::answer::{Answer, Outcome, equal};
use crate::compare::case::Step;
use crate::compare::client::Client;
use crate::compare::strings::strings;
use crate::compare::world::World;
use base::prng::Prng;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How many strings each collation gets, and their greatest length in characters.
const STRINGS: usize = 10_000;
const CHARS: usize = 24;
/// How many characters a CHAR column has.
const FIXED_CHARS: usize = 8;
/// How many strings are the ends of ranges and the beginnings of patterns.
const PROBES: u64 = 40;
/// Rows that are shown before the first that differs, and from it on.
const AROUND: usize = 4;
/// Rows of one INSERT.
const ROWS: usize = 500;

/// What a run is asked to do.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) socket: PathBuf,
    pub(crate) seed: u64,
    pub(crate) limit: Duration,
    /// Only collations whose names contain this.
    pub(crate) like: String,
    /// One of so many collations, chosen by the seed. 1: all.
    pub(crate) share: u64,
}

/// Compares the collations.
pub(crate) fn run(plan: &Plan) -> Result<(), String> {
    let began = Instant::now();
    let text = |e: std::io::Error| e.to_string();
    let mut names = names(&plan.socket).map_err(text)?;
    names.retain(|(_, collation)| collation.contains(&plan.like));
    let mut rng = Prng::new(plan.seed);
    names.retain(|_| rng.one_in(plan.share));
    let mut world = World::new(&plan.socket).map_err(text)?;
    for step in source(plan.seed) {
        world.run(&step).map_err(text)?;
    }
    let (mut compared, mut findings) = (0, Vec::new());
    for (charset, collation) in &names {
        if began.elapsed() > plan.limit {
            break;
        }
        compared += 1;
        if let Err(why) = compare(&mut world, charset, collation, plan.seed) {
            println!("{collation}: {why}");
            findings.push(collation.as_str());
        }
    }
    let seconds = began.elapsed().as_secs();
    println!(
        "{compared} of {} collations with {STRINGS} strings each, seed {}, in {seconds} s",
        names.len(),
        plan.seed
    );
    if compared == 0 {
        return Err("no collation was compared".to_owned());
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("{count} collations differ: {}", findings.join(", "))),
    }
}

/// Returns all collations with their character sets.
fn names(socket: &Path) -> std::io::Result<Vec<(String, String)>> {
    let answer = Client::connect(socket)?.run(
        "SELECT CHARACTER_SET_NAME, FULL_COLLATION_NAME \
         FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY ORDER BY 2",
    )?;
    let text =
        |value: &Option<Vec<u8>>| String::from_utf8_lossy(value.as_deref().unwrap_or_default()).into_owned();
    Ok(answer.rows().iter().map(|row| (text(&row[0]), text(&row[1]))).collect())
}

/// Makes a table of strings, and one of bytes for character sets with one byte a character.
fn source(seed: u64) -> Vec<Step> {
    let texts = strings(seed, STRINGS, CHARS);
    let mut rng = Prng::new(seed ^ 1);
    let mut steps = vec![
        Step::new('a', "SET NAMES utf8mb4, sql_mode = '', max_error_count = 0"),
        // InnoDB's own threads, which count rows, keep a table from being dropped for a moment.
        Step::new('a', "SET innodb_lock_wait_timeout = 60, lock_wait_timeout = 60"),
        Step::new(
            'a',
            format!(
                "CREATE TABLE source (id INT PRIMARY KEY, v VARCHAR({CHARS}) CHARACTER SET utf8mb4, b VARBINARY({CHARS}))"
            ),
        ),
    ];
    for (at, chunk) in texts.chunks(ROWS).enumerate() {
        let row = |(n, text): (usize, &String)| {
            let mut bytes = vec![0; rng.below(10) as usize];
            rng.fill(&mut bytes);
            let id = at * ROWS + n + 1;
            format!("({id}, CONVERT(x'{}' USING utf8mb4), x'{}')", hex(text.as_bytes()), hex(&bytes))
        };
        let rows: Vec<String> = chunk.iter().enumerate().map(row).collect();
        steps.push(Step::new('a', format!("INSERT INTO source VALUES {}", rows.join(", "))));
    }
    steps
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Compares one collation. The error says where the engines differ.
fn compare(world: &mut World, charset: &str, collation: &str, seed: u64) -> Result<(), String> {
    let mut rng = Prng::new(seed ^ 2);
    let mut steps = tables(charset, collation);
    for index in ["v", "short", "down", "fixed"] {
        steps.extend(walk("c", index));
    }
    steps.extend(walk("once", "PRIMARY"));
    steps.extend(walk("twice", "PRIMARY"));
    steps.extend(walk("twice", "u"));
    steps.push(query("SELECT COUNT(*), COUNT(DISTINCT v) FROM c FORCE INDEX (v)"));
    for _ in 0..PROBES {
        steps.extend(probe(rng.between(1, STRINGS as u64), rng.between(1, STRINGS as u64)));
    }
    for table in ["c", "once", "twice"] {
        steps.push(query(&format!("CHECK TABLE {table} EXTENDED")));
        steps.push(query(&format!("DROP TABLE {table}")));
    }
    let mut outcome = Ok(());
    for step in steps {
        let [innodb, millpond] = world.run(&step).map_err(|e| format!("{}: {e}", step.sql))?;
        if outcome.is_ok() && !equal(&innodb, &millpond, step.order) {
            outcome = Err(format!(
                "{}\nInnoDB:\n{}Millpond:\n{}",
                step.sql,
                part(&innodb, &millpond),
                part(&millpond, &innodb)
            ));
        }
    }
    outcome
}

/// Returns an answer of many rows with only those around the first that the other answer has not.
fn part(of: &Outcome, other: &Outcome) -> Outcome {
    let mut part = of.clone();
    if let Answer::Rows { rows, .. } = &mut part.answer {
        let same = rows.iter().zip(other.answer.rows()).take_while(|(a, b)| a == b).count();
        *rows = rows.iter().skip(same.saturating_sub(AROUND)).take(2 * AROUND).cloned().collect();
    }
    part
}

fn query(sql: &str) -> Step {
    Step::new('a', sql)
}

/// Returns the statements that make the tables of a collation, with keys of all kinds.
fn tables(charset: &str, collation: &str) -> Vec<Step> {
    let kind = |name: &str| {
        if charset == "binary" {
            format!("VAR{name}")
        } else {
            format!("{name} CHARACTER SET {charset} COLLATE {collation}")
        }
    };
    let (varying, fixed) = if charset == "binary" {
        (kind(&format!("BINARY({CHARS})")), format!("BINARY({CHARS})"))
    } else {
        (kind(&format!("VARCHAR({CHARS})")), kind(&format!("CHAR({FIXED_CHARS})")))
    };
    let text = format!("IF(id % 4 = 0, CONVERT(b USING {charset}), v)");
    let stored = format!("RTRIM(LEFT({text}, {FIXED_CHARS}))");
    let fits = if collation.contains("nopad") {
        has_a_weight_each_character(charset, collation)
    } else {
        "TRUE".to_owned()
    };
    vec![
        query(&format!(
            "CREATE TABLE c (id INT PRIMARY KEY, v {varying}, h {fixed}, KEY v (v), KEY short (v(3)), \
             KEY down (v DESC), KEY fixed (h))"
        )),
        query(&format!(
            "INSERT IGNORE INTO c SELECT id, text, IF({fits}, text, '') \
             FROM (SELECT id, {text} AS text, {stored} AS h FROM source) AS source ORDER BY id"
        )),
        query(&format!("CREATE TABLE once (v {varying} NOT NULL, id INT, PRIMARY KEY (v))")),
        query("INSERT IGNORE INTO once SELECT v, id FROM c ORDER BY id"),
        query(&format!(
            "CREATE TABLE twice (v {varying} NOT NULL, id INT, PRIMARY KEY (v(4) DESC), UNIQUE KEY u (v(2), id))"
        )),
        query("INSERT IGNORE INTO twice SELECT v, id FROM c ORDER BY id"),
    ]
}

/// Returns the condition that each character of `h`, a string of the CHAR column, has one weight at
/// each level, also together with its neighbours.
///
/// InnoDB has no order of the other strings in a NO PAD collation. It compares two CHAR strings as
/// if spaces followed them up to as many characters as the longer one has bytes, so the place where
/// a string with fewer weights ends depends on the other string: a < b, b < c and c < a
/// (mariadb/tests/circle.sql). Strings with more weights end behind others in the same way.
fn has_a_weight_each_character(charset: &str, collation: &str) -> String {
    // The weights of other character sets are their characters, one for one.
    if !charset.starts_with("utf") && charset != "ucs2" {
        return "TRUE".to_owned();
    }
    let mut levels = vec![1];
    levels.extend(collation.contains("_as_").then_some(2));
    levels.extend(collation.ends_with("_cs").then_some(3));
    let mut conditions = Vec::new();
    for level in levels {
        let weights = |text: &str| {
            format!(
                "LENGTH(WEIGHT_STRING(CONVERT({text} USING {charset}) COLLATE {collation} LEVEL {level}))"
            )
        };
        let one = weights("'a'");
        conditions.push(format!("{} = CHAR_LENGTH(h) * {one}", weights("h")));
        conditions.extend((1..=FIXED_CHARS).map(|at| {
            let character = weights(&format!("SUBSTR(h, {at}, 1)"));
            format!("(CHAR_LENGTH(h) < {at} OR {character} = {one})")
        }));
    }
    conditions.join(" AND ")
}

/// Returns a walk over a whole index, in both directions.
fn walk(table: &str, index: &str) -> Vec<Step> {
    let all = 2 * STRINGS;
    vec![
        query(&format!("HANDLER {table} OPEN")),
        query(&format!("HANDLER {table} READ `{index}` FIRST LIMIT {all}")),
        query(&format!("HANDLER {table} READ `{index}` LAST LIMIT {all}")),
        query(&format!("HANDLER {table} CLOSE")),
    ]
}

/// Returns queries of ranges between two strings, and of patterns that begin like one.
fn probe(first: u64, second: u64) -> Vec<Step> {
    let mut steps = vec![query(&format!(
        "SELECT @a := (SELECT v FROM c WHERE id = {first}), @b := (SELECT v FROM c WHERE id = {second}), \
         @h := (SELECT h FROM c WHERE id = {first})"
    ))];
    let conditions = [
        ("c", "v", "v = @a"),
        ("c", "v", "v > @a"),
        ("c", "v", "v <= @a"),
        ("c", "v", "v BETWEEN @a AND @b"),
        ("c", "v", "v LIKE CONCAT(LEFT(@a, 2), '%')"),
        ("c", "v", "v LIKE CONCAT(@a, '_')"),
        ("c", "short", "v = @a"),
        ("c", "short", "v >= @a"),
        ("c", "short", "v LIKE CONCAT(LEFT(@a, 1), '%')"),
        ("c", "down", "v < @a"),
        ("c", "fixed", "h = @h"),
        ("c", "fixed", "h > @h"),
        ("once", "PRIMARY", "v = @a"),
        ("once", "PRIMARY", "v >= @a AND v < @b"),
        ("twice", "PRIMARY", "v = @a"),
        ("twice", "PRIMARY", "v > @a"),
        ("twice", "u", "v = @a"),
    ];
    for (table, index, condition) in conditions {
        let sql =
            format!("SELECT COUNT(*), SUM(id), MIN(id) FROM {table} FORCE INDEX ({index}) WHERE {condition}");
        steps.push(query(&sql));
    }
    steps
}
