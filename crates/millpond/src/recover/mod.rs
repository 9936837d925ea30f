//! Crash recovery from the log: find the log's end, rebuild transactions, replay the redo.

pub(crate) mod apply;
mod chunk_queue;
pub(crate) mod first_pass;
pub(crate) mod lists;
mod neighbour_reads;
pub(crate) mod on_demand;
pub(crate) mod undo;
mod window;
