//! One piece of advice.

use serde::Serialize;

/// How urgent it is, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Urgency {
    /// Somebody waits now, or data are in danger.
    Urgent,
    /// Something gets better.
    Useful,
    /// No change is needed, with the figures that show it.
    None,
}

/// Waits are urgent if there is one in so many seconds, or more of them.
const WAIT_S: f64 = 10.0;

impl Urgency {
    /// Returns how urgent some waits are: a single one in a day costs nobody anything.
    pub(super) fn of_waits(waits: f64, seconds: f64) -> Urgency {
        if waits * WAIT_S >= seconds { Urgency::Urgent } else { Urgency::Useful }
    }
}

/// What a rule has found, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Advice {
    /// The rule's name.
    pub(crate) rule: &'static str,
    /// How urgent it is.
    pub(crate) urgency: Urgency,
    /// What was found, in words.
    pub(crate) finding: String,
    /// The figures of this target that show it, and over which time.
    pub(crate) evidence: String,
    /// The exact statements, separated by `; `, or the option.
    #[serde(rename = "do")]
    pub(crate) action: String,
    /// What it costs.
    pub(crate) costs: String,
    /// The exact statements that put the old values back.
    pub(crate) undo: String,
    /// Why it is sure, or not.
    pub(crate) sure: String,
}

/// What `do` says if nothing is to be done.
pub(super) const NO_CHANGE: &str = "no change needed";

impl Advice {
    /// Makes advice that says with figures why nothing is to be done.
    pub(super) fn none(rule: &'static str, finding: String, evidence: String, sure: String) -> Advice {
        let (action, costs, undo) = (NO_CHANGE.to_owned(), String::new(), String::new());
        Advice { rule, urgency: Urgency::None, finding, evidence, action, costs, undo, sure }
    }
}
