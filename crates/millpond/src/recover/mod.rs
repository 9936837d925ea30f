//! What opening does after a crash: find the log's end, restore torn pages, replay.

pub(crate) mod apply;
mod chunk_queue;
pub(crate) mod end;
pub(crate) mod txn_table;
pub(crate) mod undo;
