//! `serve` beside the other commands: it tells Prometheus of any server. What the page shows in a
//! browser is tried in [`crate::serve`].

use super::place::Lab;
use crate::serve;
use crate::steps::expect;

/// The server is up, its own counters are there, and the limit is the one that `age` prints.
pub(super) fn metrics(lab: &Lab<'_>) -> Result<(), String> {
    let target = lab.target("root");
    let told = serve::metrics(&lab.program, lab.dir, &target)?;
    expect("serve", &told, "mysql_up 1")?;
    expect("serve", &told, "mysql_global_status_commands_total")?;
    let age = lab.ok(&["age", &target, "--json"])?;
    let limit = number_behind(&age, "\"checkpoint_age_limit\":");
    let told = number_behind(&told, "\nmillpond_checkpoint_age_limit ");
    if limit.is_none() || limit != told {
        return Err(format!("age says that the limit is {limit:?}, serve says {told:?}"));
    }
    Ok(())
}

/// Returns the number that stands behind a text.
fn number_behind(text: &str, before: &str) -> Option<f64> {
    let (_, rest) = text.split_once(before)?;
    let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    digits.parse().ok()
}
