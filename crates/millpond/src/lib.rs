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
//!
//! # When to use it
//!
//! A [`Db`] is a directory with tables; a [`Table`] is an ordered map of byte keys to byte values; a [`Transaction`] reads and
//! changes rows of any tables, and ends by [`commit`](Transaction::commit) or not at all. Use it where a program keeps data of
//! its own that must not be lost, and where several threads change it at once: a queue, a ledger, an index, the state of a
//! service. One process has a database open at a time. It is a library and no server, knows no SQL and no types: what bytes
//! mean is the program's business. It runs on Linux.
//!
//! The examples `queue`, `ledger` and `async_service` of the crate are small programs of that kind.
//!
//! # Isolation
//!
//! [`TxnOptions::isolation`] says what a transaction sees of others that run at the same time; each level has an example.
//!
//! | level | reads | when two change the same row |
//! | --- | --- | --- |
//! | [`ReadCommitted`](Isolation::ReadCommitted) | what was committed when the read began | the second waits and changes the newest version |
//! | [`RepeatableRead`](Isolation::RepeatableRead), the default | one moment, that of the first read | the second waits, and if the first committed after its moment, it gets [`Error::WriteConflict`] |
//! | [`Serializable`](Isolation::Serializable) | as if alone, phantoms included | one waits; one of a circle gets [`Error::Deadlock`] |
//!
//! Plain reads of the first two wait for nobody and make nobody wait. At any level a read can lock what it returns:
//! [`get_for_update`](Transaction::get_for_update), [`get_for_share`](Transaction::get_for_share),
//! [`range_for_update`](Transaction::range_for_update), [`range_for_share`](Transaction::range_for_share); with [`LockWait`] they
//! wait, fail at once, or skip rows that others have.
//!
//! # Durability
//!
//! [`TxnOptions::durability`] says what a commit's return promises: on disk ([`Durability::Sync`], the default), on disk within so many
//! milliseconds and bytes ([`Durability::Bounded`]), or nothing ([`Durability::None`]). Atomicity, isolation and the order of
//! commits are the same for all. Commits of many threads share syncs; a thread that has better things to do than to wait for
//! one uses [`commit_async`](Transaction::commit_async). The [`Receipt`] tells what a commit came to.
//!
//! A database [in memory](Db::open_in_memory) is the same engine without files, for tests and caches, and never durable.
//!
//! # Errors and retries
//!
//! Every call returns [`Error`] where it did not do what was asked; its documentation says what to do about each kind. A
//! program that changes rows from several threads has to be ready to run a transaction again. One loop does it, around a
//! closure that can run twice:
//!
//! ```
//! use millpond::{Db, Result, Transaction};
//!
//! fn retrying<T>(db: &Db, body: impl Fn(&mut Transaction) -> Result<T>) -> Result<T> {
//!     loop {
//!         let mut tx = db.begin()?;
//!         match body(&mut tx).and_then(|value| tx.commit().map(|_| value)) {
//!             Err(error) if error.is_retryable() => {} // the transaction is dropped, and so rolled back
//!             outcome => return outcome,
//!         }
//!     }
//! }
//!
//! # let db = Db::open_in_memory()?;
//! let visits = db.create_table("visits")?;
//! let count = retrying(&db, |tx| {
//!     let count = tx.get(&visits, b"/")?.map_or(0, |bytes| bytes[0]) + 1;
//!     tx.put(&visits, b"/", &[count])?;
//!     Ok(count)
//! })?;
//! assert_eq!(count, 1);
//! # Ok::<(), millpond::Error>(())
//! ```
//!
//! # Sizes and limits
//!
//! | what | at most |
//! | --- | --- |
//! | key | 896, 1,920 or 3,500 bytes with pages of 4, 8 or 16 KiB; longer: [`Error::KeyTooLong`] |
//! | value | 4 GiB - 1, held in memory whole where it is read or written; one above a fifth of a page lies in pages of its own |
//! | name of a table | 255 bytes |
//! | outside name of a prepared transaction | 256 bytes |
//! | tables, rows, transactions at once | as disk and memory allow |
//! | database | 2^32 pages: 16, 32 or 64 TiB; then [`Error::Limit`] |
//!
//! Limits that hardly anybody meets, such as the last position of the log, give [`Error::Limit`] too, which names them.
//!
//! ```
//! let db = millpond::Options::new().page_bytes(4096).open_in_memory()?;
//! let table = db.create_table("t")?;
//! let mut tx = db.begin()?;
//! tx.put(&table, b"", &vec![7; 1 << 20])?; // the empty key is one like any other
//! tx.put(&table, &[7; 896], b"")?;
//! let long = tx.put(&table, &[7; 897], b"");
//! assert!(matches!(long, Err(millpond::Error::KeyTooLong { len: 897, max: 896 })));
//! # Ok::<(), millpond::Error>(())
//! ```
//! A new database takes about 40 MiB of disk, zero-written so that later writes find their place. Undo of open transactions and
//! the versions that open snapshots still need have a budget of memory, [`Options::history_memory_bytes`]; what does not fit goes
//! to files, so a transaction may change any number of rows, and a snapshot may be held for hours while others write. Past
//! [`Options::history_disk_bytes`] the oldest snapshot is given up: its reads fail with [`Error::SnapshotTooOld`].
//! [`Db::begin_bulk_load`] fills a new table without undo. [`Db::checkpoint`] gives the disk back what was kept ready.
//!
//! # What a crash leaves
//!
//! After a killed process or a power cut the next [`Db::open`] finds every transaction whose commit was acknowledged with
//! [`Durability::Sync`], and of every other transaction all or nothing. What was open is rolled back, what was
//! [prepared](Transaction::prepare) waits for its decision, a table that was being loaded does not exist. Opening takes about as long
//! as [`Options::recovery_target`] at most; nothing else has to be done.
//!
//! After the first failed write or sync nothing is acknowledged any more: calls give [`Error::Poisoned`], and opening again
//! recovers. A full disk is no such failure where space is reserved first: the call gives [`Error::DiskFull`], and the database goes on.
//! It also closes and opens there, and what is deleted or dropped makes room. Of a limit on the size of files (`ulimit -f`) the system tells by
//! the signal `SIGXFSZ` as well, which ends a program that does not ignore it; then the call gives [`Error::DiskFull`].
//!
//! A database has a few dozen files open, more where the process may. Opening one raises the soft limit of the process (`ulimit -n`) as far as the
//! hard one allows, up to 8,192: a program that uses `select` should keep its own files below 1,024.
//!
//! # Tuning
//!
//! None. Two choices are worth a thought, and both are in [`Options`]: memory for cached pages, and how long recovery may
//! take. How long the log is, when pages are written, how commits are batched and how much writers are slowed when the
//! device cannot follow: that the engine works out from what it measures.
//!
//! # Looking at it
//!
//! [`Db::metrics`] is a copy of every figure, by name, as JSON or in the Prometheus format; two copies can be subtracted. Every page
//! write and every sync is counted with its cause. [`Receipt`] has the time of one commit by stage. [`Db::check`] reads every page
//! and names what is wrong. [`inspect`] shows what stands in the files of a database.

#[doc(hidden)]
pub mod planted;

mod duty;
mod error;
mod options;

mod reserve;

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

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use db::{
    BulkLoad, CheckReport, CommitFuture, Db, Durability, Isolation, LockWait, Range, Receipt, Savepoint,
    Transaction, TxnOptions, Xid,
};
pub use error::{Error, Result};
#[doc(inline)]
pub use metrics::Snapshot;
pub use options::Options;
pub use table::Table;
