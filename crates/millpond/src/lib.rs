//! Millpond: a transactional storage engine with a calm write path.
//!
//! [`Db::open`] opens a database or makes one. `ARCHITECTURE.md` maps the crate, from the bytes of a page up to [`Transaction`];
//! [`inspect`] shows what stands in the files of a database.

// The parts are joined from the bottom up: what transactions will call is tested but has no caller inside the crate.
#![allow(dead_code, unused_imports)]

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

mod txn;

mod recover;

mod engine;

#[cfg(any(test, fuzzing))]
pub mod fuzz;

mod catalog;

mod table;

mod db;

pub mod inspect;

pub use db::{
    CheckReport, CommitFuture, Db, Durability, Isolation, Range, Receipt, Savepoint, Transaction, TxnOptions,
    Xid,
};
pub use error::{Error, Result};
pub use metrics::Snapshot;
pub use options::Options;
pub use table::Table;
