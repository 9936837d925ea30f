//! `millpond advise`: what to change at a server or a database, from what it has shown.
//!
//! `look` takes samples, or reads them: [`Seen`]. `gather` makes the facts of them (`facts`), where
//! what is not known stays unknown; `place` adds where the data are. `rules` has a file for each
//! rule, from the facts to advice (`advice`); `gates` says how a version changes a setting, `words`
//! how figures are written. `show` prints. All but `look` and `place` is pure. Nothing is changed,
//! but by `trial`, which tries what a rule says on the server.

mod advice;
mod facts;
mod gates;
mod gather;
mod look;
mod place;
mod rules;
mod seen;
mod settings;
mod show;
#[cfg(test)]
mod tests;
mod trial;
mod words;

pub(crate) use look::Time;
pub(crate) use trial::{Request, run as try_rule};

use advice::Urgency;
use client::LoginFlags;
use output::failure::Outcome;
use seen::Seen;

/// What `advise` says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Said {
    /// For people.
    pub(crate) text: String,
    /// For scripts.
    pub(crate) json: String,
    /// Whether something is urgent.
    pub(crate) urgent: bool,
}

/// Looks at a target and says what to change.
pub(crate) fn run(target: &str, login: &LoginFlags, time: Time) -> Outcome<Said> {
    Ok(say(&look::look(target, login, time)?))
}

/// Says what to change of what was seen.
fn say(seen: &Seen) -> Said {
    let advice = rules::decide(&gather::facts(seen));
    let urgent = advice.iter().any(|advice| advice.urgency == Urgency::Urgent);
    Said { text: show::text(seen, &advice), json: show::json(&advice), urgent }
}
