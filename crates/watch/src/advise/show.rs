//! Advice as text.

use super::advice::{Advice, Urgency};
use super::seen::Seen;
use crate::wrap::wrapped;
use std::fmt::Write;

/// The widest line, unless a statement is longer.
const COLUMNS: usize = 100;
/// Where the text of a piece of advice begins.
const INDENT: usize = 19;
/// Where it begins after the names of its parts.
const INNER: usize = 26;

/// Returns the text: what was looked at, then the advice, numbered.
pub(super) fn text(seen: &Seen, advice: &[Advice]) -> String {
    let times = &seen.samples.seconds;
    let seconds = seen.samples.end() - times.first().copied().unwrap_or(0.0);
    let mut out = format!(
        "{}, {}: {} samples in {seconds:.0} s. Nothing was changed.\n\n",
        seen.target,
        seen.version,
        times.len()
    );
    for (number, advice) in advice.iter().enumerate() {
        let heading = format!("{} {}", number + 1, advice.rule);
        let urgent = if advice.urgency == Urgency::Urgent { "URGENT: " } else { "" };
        let finding = format!("{urgent}{}: {}", advice.finding, advice.evidence);
        out.push_str(&wrapped(&heading, &finding, INDENT, COLUMNS));
        if advice.urgency == Urgency::None {
            out.push_str(&part("sure", &advice.sure));
            continue;
        }
        // A statement is not broken, so that it can be copied.
        let statements = advice.action.split("; ");
        for (at, statement) in statements.enumerate() {
            let name = if at == 0 { "do" } else { "" };
            let _ = writeln!(out, "{:INDENT$}{name:7}{statement}", "");
        }
        for (name, text) in [("costs", &advice.costs), ("undo", &advice.undo), ("sure", &advice.sure)] {
            if !text.is_empty() {
                out.push_str(&part(name, text));
            }
        }
    }
    out
}

fn part(name: &str, text: &str) -> String {
    wrapped(&format!("{:INDENT$}{name}", ""), text, INNER, COLUMNS)
}

/// Returns the advice as JSON: a list of objects.
pub(super) fn json(advice: &[Advice]) -> String {
    serde_json::to_string_pretty(advice).unwrap_or_else(|_| "[]".to_owned()) + "\n"
}
