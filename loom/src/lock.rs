//! The locks of the engine.

#[path = "../../crates/millpond/src/lock/mod.rs"]
mod source;

pub(crate) use source::*;
