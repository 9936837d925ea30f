//! `millpond reproduce`: experiments of published articles, on InnoDB and on Millpond, on this
//! machine.
//!
//! An experiment starts servers of its own (`private_server`), runs the program's other commands
//! (`room`; `measured` is one load on each of the `sides`), reads their JSON, and makes a
//! [`Finding`] of it: published, InnoDB here, Millpond here, and the bound. `about` is what an
//! article says; `list` has all experiments. What they conclude is computed by pure functions.
//!
//! Of files in memory (`place`): `placement`, `restore` (by `restored`) and `suite`. Of settings:
//! `log_sizes`, `io_bound`, `lru`, `users` and `grid`. Of syncs (`sync_cost` measures one):
//! `napkin`, `syncs` and `writes`. Of a kill: `recovery`. Of lists of ids: `inverted`. `sql` is a
//! connection.
//!
//! `book` keeps findings and makes pages of them, `bars` draws them.

mod about;
mod bars;
mod book;
mod finding;
mod grid;
mod inverted;
mod io_bound;
mod list;
mod log_sizes;
mod lru;
mod measured;
mod napkin;
mod place;
mod placement;
mod private_server;
mod recovery;
mod restore;
mod restored;
mod room;
mod sides;
mod sql;
mod suite;
mod sync_cost;
mod syncs;
mod users;
mod writes;

pub(crate) use about::About;
pub(crate) use book::Book;
pub(crate) use finding::Record;
pub(crate) use list::{EXPERIMENTS, find};
pub(crate) use private_server::Programs;
pub(crate) use room::Room;
