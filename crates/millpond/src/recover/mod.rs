//! What opening does after a crash: find the log's end, restore torn pages, replay.

pub(crate) mod apply;
pub(crate) mod end;
pub(crate) mod standing;
mod stretch;
pub(crate) mod undo;
