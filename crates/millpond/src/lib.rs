//! Millpond: a transactional storage engine with a calm write path.

#![allow(dead_code)]

mod error;
mod options;

mod page;

mod log;

mod buffer;

mod mtr;

mod space;

mod store;

mod checkpoint;

mod flush;

mod btree;

mod lock;

mod recover;

mod engine;

pub use error::{Error, Result};
pub use options::Options;
