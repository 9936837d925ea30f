//! The page engine of an open database, and its background threads ([`roster`]). [`mod@open`] says
//! how it is opened.
//!
//! Each part of it is a type of its own: the choice of pages to write ([`cleaner`]), the threads
//! that write them ([`writers`]), the checkpoint ([`checkpoints`]), the size of the log
//! ([`log_size`]), space on a full disk ([`disk_space`]), replay ([`replaying`]), purge
//! ([`purging`]), history ([`history_keeping`]), growth of the file ([`growth`]), what can be
//! changed while the database is open ([`switches`]), and the figures ([`figures`], [`recording`]).
//! [`parts`] puts the parts together, and [`core`] is the engine that owns them.

mod admission;
mod adopt;
mod build;
mod bulk_sink;
mod call_threads;
mod calls;
mod capacity;
mod catch_up;
mod checkpoints;
mod claim;
mod cleaner;
mod core;
mod create;
mod directory;
mod disk_space;
mod durable_dir;
mod figures;
mod growth;
mod history_keeping;
mod law_in_use;
mod locked_root;
mod log_size;
mod moves;
mod open;
mod opening;
mod page_orders;
mod parts;
mod paths;
mod pool_size;
mod progress_file;
mod protection;
mod purging;
mod purpose;
mod recording;
mod replaying;
mod residence;
mod roster;
#[cfg(all(test, feature = "sim"))]
mod sim_tests;
mod switches;
mod sync_existing;
#[cfg(test)]
pub(crate) mod tests;
mod waiters;
mod writers;

pub(crate) use calls::{ActiveCall, ActiveCalls};
pub(crate) use core::Engine;
pub(crate) use paths::Paths;
