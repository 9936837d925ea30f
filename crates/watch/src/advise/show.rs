//! Advice as text.

use super::advice::{Advice, Urgency};
use super::seen::Seen;
use crate::wrap::wrapped;

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
        out.push_str(&statements("do", &advice.action));
        if !advice.costs.is_empty() {
            out.push_str(&part("costs", &advice.costs));
        }
        if !advice.undo.is_empty() {
            out.push_str(&statements("undo", &advice.undo));
        }
        out.push_str(&part("sure", &advice.sure));
    }
    out
}

/// Writes statements, each in a line that is not broken, so that it can be copied.
fn statements(name: &str, text: &str) -> String {
    let line = |(at, statement)| {
        let name = if at == 0 { name } else { "" };
        format!("{:INDENT$}{name:7}{statement}\n", "")
    };
    text.split("; ").enumerate().map(line).collect()
}

fn part(name: &str, text: &str) -> String {
    wrapped(&format!("{:INDENT$}{name}", ""), text, INNER, COLUMNS)
}

/// Returns the advice as JSON: a list of objects.
pub(super) fn json(advice: &[Advice]) -> String {
    serde_json::to_string_pretty(advice).unwrap_or_else(|_| "[]".to_owned()) + "\n"
}
