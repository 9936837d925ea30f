//! `millpond reproduce`: experiments of published articles, on InnoDB and on Millpond, on this
//! machine.
//!
//! An experiment starts servers of its own (`private_server`), runs the program's other commands
//! (`room`; `measured` is one load on one engine), reads their JSON, and makes a [`Finding`] of it:
//! published, InnoDB here, Millpond here, and the bound. `about` is what an article says; `list`
//! has all experiments, and `placement`, `log_sizes`, `io_bound`, `napkin`, `recovery` and `users`
//! are how they are done. What they conclude is computed by pure functions. `sync_cost` measures a
//! sync.

mod about;
mod finding;
mod io_bound;
mod list;
mod log_sizes;
mod measured;
mod napkin;
mod placement;
mod private_server;
mod recovery;
mod room;
mod sync_cost;
mod users;

pub(crate) use about::About;
pub(crate) use finding::{Finding, json};
pub(crate) use list::{EXPERIMENTS, find};
pub(crate) use private_server::Programs;
pub(crate) use room::Room;
