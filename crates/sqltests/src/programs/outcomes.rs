//! How the tests of a program ended with an engine, and what differs between two engines.

use serde_json::Value;
use std::collections::BTreeMap;

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// `passed`, `failed` or `skipped`.
    pub(super) outcome: String,
    /// The errors of a test that failed, masked.
    text: String,
}

/// How the tests of one program ended, by their names.
pub(super) type Outcomes = BTreeMap<String, Ended>;

/// Reads what `mariadb/programs/outcomes.py` has written.
pub(super) fn read(lines: &str) -> Result<Outcomes, String> {
    let mut outcomes = Outcomes::new();
    for line in lines.lines() {
        let value: Value = serde_json::from_str(line).map_err(|e| format!("outcomes: {e} in: {line}"))?;
        let of = |key: &str| value[key].as_str().ok_or_else(|| format!("outcomes: no {key} in: {line}"));
        let ended = Ended { outcome: of("outcome")?.to_owned(), text: mask(of("text")?) };
        outcomes.insert(without_version(of("test")?), ended);
    }
    Ok(outcomes)
}

/// Returns the difference between the outcomes of a test, or nothing.
pub(super) fn difference(innodb: Option<&Ended>, millpond: Option<&Ended>) -> Option<String> {
    if innodb == millpond {
        return None;
    }
    let say = |ended: Option<&Ended>| match ended {
        None => "not run".to_owned(),
        Some(ended) if ended.text.is_empty() => ended.outcome.clone(),
        Some(ended) => format!("{}: {}", ended.outcome, ended.text),
    };
    Some(format!("InnoDB: {}\nMillpond: {}\n", say(innodb), say(millpond)))
}

/// Says how many tests ended in which way.
pub(super) fn sums(outcomes: &Outcomes) -> String {
    let count = |word: &str| outcomes.values().filter(|ended| ended.outcome == word).count();
    format!("{} passed, {} failed, {} skipped", count("passed"), count("failed"), count("skipped"))
}

/// Returns a test's name without the server's version, which SQLAlchemy adds to the names of
/// classes: `test/a.py::Some_mariadb+pymysql_10_11_19_0::test_it`.
fn without_version(test: &str) -> String {
    match test.split_once("+pymysql_") {
        None => test.to_owned(),
        Some((begin, rest)) => {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
            format!("{begin}+pymysql{rest}")
        }
    }
}

/// Masks addresses and the engine's name.
fn mask(text: &str) -> String {
    let text =
        ["InnoDB", "Millpond"].iter().fold(text.to_owned(), |text, engine| text.replace(engine, "ENGINE"));
    let mut parts = text.split("0x");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        masked.push_str("0x*");
        masked.push_str(part.trim_start_matches(|c: char| c.is_ascii_hexdigit()));
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(outcome: &str, text: &str) -> Ended {
        let line = serde_json::json!({"test": "a.b", "outcome": outcome, "text": text}).to_string();
        read(&line).unwrap().remove("a.b").unwrap()
    }

    #[test]
    fn outcomes_and_error_texts_are_compared_without_engine_and_addresses() {
        let innodb = one("failed", "<Row at 0x7f01> of InnoDB");
        assert_eq!(difference(Some(&innodb), Some(&one("failed", "<Row at 0x9> of Millpond"))), None);
        let found = difference(Some(&innodb), Some(&one("failed", "other"))).unwrap();
        assert_eq!(found, "InnoDB: failed: <Row at 0x*> of ENGINE\nMillpond: failed: other\n");
        assert_eq!(
            difference(Some(&one("passed", "")), None).unwrap(),
            "InnoDB: passed\nMillpond: not run\n"
        );
    }

    #[test]
    fn the_name_of_a_test_has_no_version_of_the_server() {
        let line =
            |name: &str| serde_json::json!({"test": name, "outcome": "passed", "text": ""}).to_string();
        let name = |text: &str| read(&line(text)).unwrap().into_keys().next().unwrap();
        let of_dialect = name("test/a.py::Some_mariadb+pymysql_10_11_19_0::test_it[1_2]");
        assert_eq!(of_dialect, "test/a.py::Some_mariadb+pymysql::test_it[1_2]");
        assert_eq!(name("schema.tests.Some.test_10_it"), "schema.tests.Some.test_10_it");
    }

    #[test]
    fn a_line_without_an_outcome_is_an_error() {
        assert!(read("{\"test\": \"a\"}").is_err() && read("a").is_err());
    }
}
