//! Redo on demand: after a crash the database is open before all redo is applied, and a page that a
//! thread needs gets its redo then.
//!
//! [`redo_table`] has the last change of each page that may lack redo; opening makes it.
//! [`pending`] is the list of these pages while the database is open, and completes one. [`chain`]
//! finds the redo of one page, from its last change back. [`hook`] is what the buffer pool asks
//! about a page that it has read; when all redo is applied it costs one look at an atomic. Threads
//! that complete pages have [`permits`].
//!
//! Replay ([`super::apply`]) works on the same list from the other side.

pub(crate) mod chain;
pub(crate) mod hook;
pub(crate) mod pending;
mod permits;
pub(crate) mod redo_table;
