//! `millpond reproduce`: experiments of published articles, on InnoDB and on Millpond, on this
//! machine.
//!
//! An experiment starts servers of its own (`private_server`), runs the program's other commands
//! (`room`), reads their JSON, and makes a [`Finding`] of it: published, InnoDB here, Millpond
//! here, and the bound. `about` is what an article says; `list` has all experiments, and `napkin`,
//! `log_sizes` and `recovery` are how they are done. What they conclude is computed by pure
//! functions. `sync_cost` measures a sync.

mod about;
mod finding;
mod list;
mod log_sizes;
mod napkin;
mod private_server;
mod recovery;
mod room;
mod sync_cost;

pub(crate) use about::About;
pub(crate) use finding::{Finding, json};
pub(crate) use list::{EXPERIMENTS, find};
pub(crate) use private_server::Programs;
pub(crate) use room::Room;
