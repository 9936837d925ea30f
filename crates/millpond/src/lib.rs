//! Millpond: a transactional storage engine whose writes do not stall.
//!
//! An embedded store for programs with heavy write loads. Many threads write at once. Transactions
//! are atomic, isolated and durable. The engine is built so that neither a full log nor a burst of
//! changes makes a call wait for seconds.
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
//! A [`Db`] is a directory with tables. A [`Table`] is an ordered map of byte keys to byte values.
//! A [`Transaction`] reads and changes rows of any tables. Its changes take effect when it
//! [commits](Transaction::commit), all or none. Use it for data that a program keeps itself and
//! must not lose, and that several threads change at once: a queue, a ledger, an index, the state
//! of a service. Only one process can have a database open. It is a library, not a server. It has
//! no SQL and no types: the program decides what the bytes mean. It runs on Linux.
//!
//! The examples `queue`, `ledger`, `async_service` and `inverted_index` of the crate are small
//! programs of that kind.
//!
//! # Isolation
//!
//! Transactions are isolated by multi-version concurrency control (MVCC) and locks.
//! [`TxnOptions::isolation`] chooses what a transaction sees of others that run at the same time.
//! Each level has an example.
//!
//! | level | reads | when two change the same row |
//! | --- | --- | --- |
//! | [`ReadCommitted`](Isolation::ReadCommitted) | what was committed when the read began | the second waits and changes the newest version |
//! | [`RepeatableRead`](Isolation::RepeatableRead), the default | one snapshot, taken at the first read | the second waits; if the first committed after the snapshot of the second, the second gets [`Error::WriteConflict`] |
//! | [`Serializable`](Isolation::Serializable) | as if no other transaction ran; no phantoms | one waits; in a deadlock, one of them gets [`Error::Deadlock`] |
//!
//! At the first two levels, plain reads wait for no row lock, and no change of a row waits for
//! them. At any level a read can lock the rows that it returns:
//! [`get_for_update`](Transaction::get_for_update),
//! [`get_for_share`](Transaction::get_for_share),
//! [`range_for_update`](Transaction::range_for_update),
//! [`range_for_share`](Transaction::range_for_share). With [`LockWait`] these calls wait, fail at
//! once, or skip rows that other transactions have locked.
//!
//! # Durability
//!
//! [`TxnOptions::durability`] chooses what is guaranteed when a commit returns: it is on disk
//! ([`Durability::Sync`], the default); it survives the end of the process, and is on disk soon
//! ([`Durability::Written`]); it will be on disk within some milliseconds and bytes
//! ([`Durability::Bounded`]); or nothing ([`Durability::None`]). Atomicity, isolation and the order
//! of commits are the same for all of them. Commits of many threads share syncs (group commit). A
//! thread that does not want to wait for a sync uses [`commit_async`](Transaction::commit_async).
//! The [`Receipt`] holds the result and the times of a commit.
//!
//! A database [in memory](Db::open_in_memory) is the same engine without files, for tests and
//! caches. Nothing in it is durable.
//!
//! # Errors and retries
//!
//! A call that did not do what was asked returns an [`Error`]; its documentation says what to do
//! about each kind. A program that changes rows from several threads must be able to run a
//! transaction again. A loop around a closure that can run twice does this:
//!
//! ```
//! use millpond::{Db, Result, Transaction};
//!
//! fn retrying<T>(db: &Db, body: impl Fn(&mut Transaction) -> Result<T>) -> Result<T> {
//!     loop {
//!         let mut tx = db.begin()?;
//!         match body(&mut tx).and_then(|value| tx.commit().map(|_| value)) {
//!             Err(error) if error.is_retryable() => {} // dropped, and so rolled back
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
//! | value | 4 GiB - 1, held in memory as a whole while it is read or written; a value longer than a fifth of a page has pages of its own |
//! | name of a table | 800 bytes |
//! | xid of a prepared transaction | 256 bytes |
//! | tables, rows, transactions at once | as disk and memory allow |
//! | database | 2^32 pages: 16, 32 or 64 TiB; then [`Error::Limit`] |
//!
//! Limits that are hardly ever reached, such as the last position of the log, give [`Error::Limit`]
//! too. The error names the limit.
//!
//! ```
//! let db = millpond::Options::new().page_bytes(4096).open_in_memory()?;
//! let table = db.create_table("t")?;
//! let mut tx = db.begin()?;
//! tx.put(&table, b"", &vec![7; 1 << 20])?; // a key may be empty
//! tx.put(&table, &[7; 896], b"")?;
//! let long = tx.put(&table, &[7; 897], b"");
//! assert!(matches!(long, Err(millpond::Error::KeyTooLong { len: 897, max: 896 })));
//! # Ok::<(), millpond::Error>(())
//! ```
//!
//! A new database takes about 40 MiB of disk, written with zeros so that later writes have space.
//! The undo of open transactions and the versions that open snapshots still need have a budget of
//! memory, [`Options::history_memory_bytes`]. What does not fit goes to files. So a transaction may
//! change any number of rows, and a snapshot may be held for hours while others write. Beyond
//! [`Options::history_disk_bytes`] the oldest snapshot expires: its reads fail with
//! [`Error::SnapshotTooOld`]. [`Db::begin_bulk_load`] fills a new table without undo.
//! [`Db::checkpoint`] frees disk space that was kept ready.
//!
//! # Processes made by `fork`
//!
//! A database belongs to the process that opened it. In a child of that process, until it runs
//! another program, each call gives [`Error::Forked`] and does nothing. A call that returns no
//! `Result` changes nothing, and returns only counters. Handles may be dropped there: the memory
//! stays as it is, and the parent's files and locks are not touched. The call of `fork` must not be
//! made from inside a call of this crate, such as the closure of a scan. A child inherits the lock
//! of the directory. So if the parent is killed, the database is [in use](Error::InUse) until its
//! children have ended or run another program.
//!
//! # What a crash leaves
//!
//! After a killed process or a power cut the next [`Db::open`] finds every transaction whose commit
//! was acknowledged with [`Durability::Sync`], and all or nothing of every other transaction. Open
//! transactions are rolled back, [prepared](Transaction::prepare) ones wait for their decision, and
//! a table that was being loaded does not exist. The program has nothing else to do. Opening reads
//! the end of the log and not the pages. From then on a page that lacks redo gets it when the
//! program needs the page. All other pages get their redo beside the program's calls, within about
//! [`Options::recovery_target`].
//!
//! After the first failed write or sync no commit is acknowledged any more: calls return
//! [`Error::Poisoned`], and opening again recovers. A full disk is no such failure, because the
//! engine reserves space first: the call returns [`Error::DiskFull`], and the database stays
//! usable. It can then also be closed and opened. Deleting rows or dropping tables makes room.
//! If a file reaches a limit on the size of files (`ulimit -f`), the system also sends the signal
//! `SIGXFSZ`, which ends a program that does not ignore it. In a program that ignores it the call
//! returns [`Error::DiskFull`].
//!
//! A database has a few dozen files open, or more if the process may (`ulimit -n`). A program whose
//! main purpose is its database raises this limit with [`Options::own_process`].
//!
//! # Tuning
//!
//! There is nothing to tune. Two [`Options`] may be worth setting: the memory for cached pages, and
//! how long recovery may take. The engine derives the rest from what it measures:
//! the length of the log, when pages are written, how commits are batched, and how much writers are
//! delayed when the device is too slow.
//!
//! # Metrics and inspection
//!
//! [`Db::metrics`] is a copy of every metric, by name, as JSON or in the Prometheus format; two
//! copies can be subtracted. Every page write and every sync is counted with its cause. [`Receipt`]
//! has the time of one commit by stage. [`Db::check`] reads every page and reports damage.
//! [`inspect`] shows the content of the files of a database.

#[doc(hidden)]
pub mod planted;

mod error;
mod options;
mod role;

mod ballast;

mod environment;

mod recorder;

mod page;

mod page_file;

mod log;

mod buffer;

mod mtr;

mod space;

mod tree_store;

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

mod table_handle;

mod db;

pub mod inspect;

mod rescue;

#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod sim;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use catalog::TableChange;
pub use db::{
    BulkLoad, Canceller, CheckReport, CommitFuture, CounterLock, Cursor, Db, Deadlock, DeadlockMember,
    Durability, EntryChange, EntryOp, EntryView, IndexCursor, Isolation, LockInfo, LockPlace, LockWait,
    PreparedTransaction, Range, RangeStats, Receipt, RowLock, RowOutcome, Savepoint, Seek, TableStats,
    Transaction, TransactionInfo, TxnOptions, WaitInfo, Xid,
};
pub use error::{Error, Result};
pub use lock::WaitObserver;
#[doc(inline)]
pub use metrics::Snapshot;
pub use mtr::redo_bytes_of_thread;
pub use options::{Doublewrite, Options};
#[cfg(any(test, feature = "lab"))]
pub use options::{InnodbLaw, Law};
pub use rescue::{RescueProblem, RescueReport, rescue};
pub use table_handle::Table;
pub use txn::counters::{CounterStep, TakenValues};
