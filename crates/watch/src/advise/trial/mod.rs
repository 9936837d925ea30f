//! `millpond advise TARGET --try RULE`: proves a piece of advice on the server by experiment, and
//! keeps the new setting only if it is better.
//!
//! `guard` says which servers are not tried. `plan` makes statements of a piece of advice,
//! `settling` says when a server has settled after a change, `measure` and `rank` compare,
//! `verdict` decides; these are pure. `blocks` watches, `experiment` changes the setting and puts
//! it back. `proof` is what is shown and kept.

mod blocks;
mod experiment;
mod guard;
mod measure;
mod plan;
mod proof;
mod rank;
mod settling;
#[cfg(test)]
mod tests;
mod verdict;

pub(crate) use experiment::{Request, run};
