//! What the commands of the program `millpond` share, whichever crate they are in.
//!
//! `failure` is how a command fails, `stop` how it is interrupted, `existing` what is checked
//! before it begins. `samples` are figures over time; `recording` shows those of a flight recorder.
//! `units` reads and shows numbers with units. `report` draws plots and pages.

pub mod existing;
pub mod failure;
mod print;
pub mod recording;
pub mod report;
pub mod samples;
#[cfg(test)]
mod scratch;
pub mod stop;
pub mod units;

pub use print::{print, print_bytes, write_json};
