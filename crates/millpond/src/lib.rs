//! Millpond: a transactional storage engine with a calm write path.
//!
//! What stands today is everything below transactions; no public type opens a database yet. `ARCHITECTURE.md` maps it.

// The parts are joined from the bottom up: what transactions will call is tested but has no caller inside the crate.
#![allow(dead_code, unused_imports)]

#[doc(hidden)]
pub mod planted;

mod error;
#[allow(unreachable_pub, reason = "opening a database makes it public")]
mod options;

mod page;

mod log;

mod buffer;

mod mtr;

mod space;

mod store;

mod flush;

mod checkpoint;

mod btree;

mod lock;

mod undo;

mod mvcc;

mod recover;

mod engine;

pub use error::{Error, Result};
