//! Redo on demand: after a crash the database is open before all redo is applied, and a page that a
//! thread needs gets its redo then.
//!
//! [`redo_table`] has the last change of each page that may lack redo; opening makes it.
//! [`pending`] is the list of these pages while the database is open, and completes one. [`chain`]
//! finds the redo of one page, from its last change back. [`hook`] is what the buffer pool asks
//! about a page that it has read; when all redo is applied it costs one look at an atomic. Threads
//! that complete pages take [`turns`]. [`log_copying`] copies the log into memory for them while
//! [`log_use`] says that they need it.
//!
//! Replay ([`super::apply`]) works on the same list from the other side.

pub(crate) mod chain;
pub(crate) mod hook;
mod log_copying;
mod log_use;
pub(crate) mod pending;
pub(crate) mod redo_table;
mod turns;
