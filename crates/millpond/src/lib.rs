//! Millpond: a transactional storage engine with a calm write path.
//!
//! An embedded store for programs whose writes matter: many threads write at once, transactions are atomic, isolated and
//! durable, and neither the size of the log nor a burst of changes makes anybody wait for seconds.
//!
//! ```
//! # fn main() -> millpond::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("millpond-doc-lib-{}", std::process::id()));
//! use millpond::Db;
//!
//! let db = Db::open(&dir)?; // made if missing, recovered if it was not closed
//! let accounts = db.create_table("accounts")?;
//!
//! let mut tx = db.begin()?;
//! tx.insert(&accounts, b"ada", b"100")?;
//! tx.insert(&accounts, b"bob", b"20")?;
//! let receipt = tx.commit()?; // on disk when it returns
//! assert!(receipt.durable);
//!
//! let tx = db.begin()?;
//! for row in tx.range(&accounts, &b"a"[..]..)? {
//!     let (key, value) = row?;
//!     println!("{} has {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
//! }
//! # drop(tx);
//! # db.close()?;
//! # std::fs::remove_dir_all(&dir).ok();
//! # Ok(())
//! # }
//! ```
//! [`inspect`] shows what stands in the files of a database; `ARCHITECTURE.md` maps what is inside.

#[doc(hidden)]
pub mod planted;

mod error;
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

#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod sim;

pub use db::{
    BulkLoad, CheckReport, CommitFuture, Db, Durability, Isolation, LockWait, Range, Receipt, Savepoint,
    Transaction, TxnOptions, Xid,
};
pub use error::{Error, Result};
pub use metrics::Snapshot;
pub use options::Options;
pub use table::Table;
