//! Crash recovery from the log: find the log's end, rebuild transactions, replay the redo.

pub(crate) mod apply;
pub(crate) mod chain;
mod chunk_queue;
pub(crate) mod end;
pub(crate) mod hook;
pub(crate) mod lists;
mod log_copying;
mod log_use;
pub(crate) mod pending;
mod read_ahead;
pub(crate) mod redo_table;
mod turns;
pub(crate) mod undo;
mod window;
