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

#[allow(unused_imports, reason = "their users, txn and table, stand above")]
mod lock;

#[allow(unused_imports, reason = "their users, txn and table, stand above")]
mod undo;

#[allow(unused_imports, reason = "their users, txn and table, stand above")]
mod mvcc;

pub use error::{Error, Result};
pub use options::Options;
