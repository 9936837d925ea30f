//! `millpond stalk TARGET --dir DIR`: watches a target. When it stalls, the time before and after
//! is kept, with who waits for whom.
//!
//! `figure` is what is looked at, `band` the band of a figure, `condition` a fixed threshold,
//! `trigger` joins them, and `pacing` says whether an event may begin; these are pure. `asker`
//! takes samples in a thread, `watcher` is the loop. An `event` has a directory in a `place`;
//! `evidence` asks the `questions` meanwhile and takes `stacks`, and `blockers` reads the answers.

mod asker;
mod band;
mod blockers;
mod condition;
mod event;
mod evidence;
mod figure;
mod pacing;
mod place;
mod questions;
mod stacks;
mod trigger;
mod watcher;

pub(crate) use condition::Condition;
pub(crate) use pacing::Pace;
pub(crate) use stacks::Way;
pub(crate) use trigger::Wanted;
pub(crate) use watcher::{Job, run};

use output::failure::Outcome;
use std::path::Path;

/// Fails if a directory cannot be that of events of a target.
pub(crate) fn try_place(dir: &Path, target: &str) -> Outcome {
    place::claim(dir, target).map(drop)
}
