//! Which statements an experiment runs, of a piece of advice: pure. Only settings that change, and
//! change back, while the server runs; and only those whose effect a load shows.

use crate::advise::advice::{Advice, Urgency};
use crate::advise::rules;

/// An experiment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) rule: &'static str,
    /// What was found.
    pub(super) finding: String,
    /// The statements.
    pub(super) statements: Vec<String>,
    /// The settings, in the order in which the old values are put back.
    pub(super) names: Vec<String>,
    /// Fewer page writes are what the advice promises.
    pub(super) fewer_pages: bool,
}

/// Finds a rule by its name; `-` and `_` stand for a space. An error is a sentence.
pub(super) fn rule_named(text: &str) -> Result<&'static str, String> {
    let name = text.trim().to_lowercase().replace(['-', '_'], " ");
    let found = rules::NAMES.iter().find(|rule| **rule == name).copied();
    found.ok_or_else(|| format!("{text:?} is no rule of advise: {}", rules::NAMES.join(", ")))
}

/// Makes the plan of a rule of all advice. An error is a sentence that says why there is none.
pub(super) fn plan(rule: &'static str, advice: &[Advice]) -> Result<Plan, String> {
    let named = || advice.iter().filter(|one| one.rule == rule);
    let Some(one) = named().find(|one| one.urgency != Urgency::None) else {
        return Err(match named().next() {
            Some(none) => format!("`{rule}` proposes no change: {}: {}", none.finding, none.evidence),
            None => format!("`{rule}` has nothing to say of this server and this load"),
        });
    };
    let (Some(set), Some(undo)) = (settings(&one.action), settings(&one.undo)) else {
        return Err(format!(
            "`{rule}` proposes what cannot be tried and put back while the server runs: {}; the way back: {}",
            one.action, one.undo
        ));
    };
    let lowers = |name: &str| {
        let of = |all: &[(String, Option<f64>)]| all.iter().find(|(other, _)| other == name)?.1;
        of(&set).zip(of(&undo)).is_some_and(|(new, old)| new < old)
    };
    let shows_nothing = match set.first().map_or("", |(name, _)| name) {
        "innodb_monitor_enable" => Some("only makes the server count more"),
        "sync_binlog" => Some("makes the data safer, not the server faster"),
        name if rule == "log size" && lowers(name) => Some("makes a recovery shorter, not the server faster"),
        _ => None,
    };
    if let Some(why) = shows_nothing {
        return Err(format!(
            "`{rule}` proposes a change that {why}, so no load can prove it: {}",
            one.action
        ));
    }
    Ok(Plan {
        rule,
        finding: one.finding.clone(),
        statements: one.action.split("; ").map(str::to_owned).collect(),
        names: set.iter().rev().map(|(name, _)| name.clone()).collect(),
        fewer_pages: rule == "neighbours" || rule == "io capacity" && lowers("innodb_io_capacity"),
    })
}

/// Returns the settings of statements, with the value if that is a number; `None` if one of them is
/// not `SET GLOBAL`.
fn settings(statements: &str) -> Option<Vec<(String, Option<f64>)>> {
    let of = |statement: &str| {
        let (name, value) = statement.strip_prefix("SET GLOBAL ")?.split_once(" = ")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        (!name.is_empty() && name.chars().all(plain)).then(|| (name.to_lowercase(), number(value)))
    };
    statements.split("; ").map(of).collect()
}

/// Reads `64*1024*1024`.
fn number(text: &str) -> Option<f64> {
    text.split('*').map(|factor| factor.trim().parse::<f64>().ok()).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(rule: &'static str, action: &str, undo: &str) -> Advice {
        let none = Advice::none(rule, "found".into(), "figures".into(), String::new());
        Advice { urgency: Urgency::Useful, action: action.into(), undo: undo.into(), ..none }
    }

    #[test]
    fn rules_have_several_ways_to_write_their_name() {
        for text in ["log size", "log-size", "log_size", " Log Size"] {
            assert_eq!(rule_named(text), Ok("log size"));
        }
        assert!(rule_named("nosuch").unwrap_err().contains("is no rule of advise: log size, "));
    }

    #[test]
    fn statements_are_run_in_order_and_put_back_in_the_reverse_order() {
        let one = advice(
            "io capacity",
            "SET GLOBAL innodb_io_capacity_max = 3000; SET GLOBAL innodb_io_capacity = 2500",
            "SET GLOBAL innodb_io_capacity = 200; SET GLOBAL innodb_io_capacity_max = 2000",
        );
        let found = plan("io capacity", &[one]).unwrap();
        assert_eq!(found.statements[1], "SET GLOBAL innodb_io_capacity = 2500");
        assert_eq!(found.names, ["innodb_io_capacity", "innodb_io_capacity_max"]);
        assert!(!found.fewer_pages);
        let (less, more) = ("SET GLOBAL innodb_io_capacity = 200", "SET GLOBAL innodb_io_capacity = 900");
        assert!(plan("io capacity", &[advice("io capacity", less, more)]).unwrap().fewer_pages);
    }

    #[test]
    fn what_cannot_be_tried_is_a_sentence() {
        let why = |one: Advice| plan(one.rule, std::slice::from_ref(&one)).unwrap_err();
        let log = |mib: u32| format!("SET GLOBAL innodb_log_file_size = {mib}*1024*1024");
        let file = "innodb_log_file_size = 8M in the option file, and a restart";
        for (one, sentence) in [
            (advice("log size", &log(64), file), "cannot be tried and put back while the server runs"),
            (advice("log size", file, file), "cannot be tried and put back while the server runs"),
            (advice("log size", &log(64), &log(512)), "makes a recovery shorter"),
            (advice("binlog", "SET GLOBAL sync_binlog = 1", "SET GLOBAL sync_binlog = 0"), "safer"),
            (
                advice(
                    "measure",
                    "SET GLOBAL innodb_monitor_enable = 'buffer_flush_%'",
                    "SET GLOBAL innodb_monitor_disable = 'buffer_flush_%'",
                ),
                "only makes the server count more",
            ),
            (
                Advice::none("log size", "long enough".into(), "peak".into(), String::new()),
                "long enough: peak",
            ),
        ] {
            let why = why(one);
            assert!(why.contains(sentence), "{why}");
        }
        assert!(plan("log size", &[]).unwrap_err().contains("has nothing to say"));
        assert!(plan("log size", &[advice("log size", &log(512), &log(64))]).is_ok());
    }
}
