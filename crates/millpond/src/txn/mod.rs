//! Transactions over trees: begin, change rows, read by a snapshot, lock, commit, roll back, and
//! the work that is left when they have ended.
//!
//! [`system::Txns`] joins the status table, undo, snapshots and locks of one database.
//!
//! - [`mod@write`] changes a row, and [`lock`] locks one. [`lock_range`] locks the rows of a range,
//!   and the range itself, from the position of a [`lock_cursor`] on; a [`locking_scan`] says how.
//!   [`load`] fills a new tree.
//! - [`read`] reads one row and [`scan`] many. [`marks`] notes where scans find nothing but delete
//!   marks. [`leaf_cache`] saves descents. [`own_snapshot`] is a transaction's snapshot;
//!   [`overtaken`] finds out where the transaction has changed rows that are newer than this
//!   snapshot.
//! - [`end`] commits and rolls back. [`prepare`] prepares transactions and decides [`prepared`]
//!   ones; [`decided`] knows which commits a coordinator has on record. [`revert`] restores older
//!   versions; [`reverts`] lists the transactions whose versions are to be reverted. [`purge`]
//!   removes what no reader can see. [`release`] gives back the pages of dropped trees. Revert,
//!   purge and release ask for [`admission`] to the log, and put work that they cannot do now into
//!   [`quarantine`].
//! - [`bookmark`] is the bytes that a program keeps with its last commit. [`log_record`] logs
//!   records that change no page.
//! - [`counters`] are the counters of tables, from which rows get their numbers. [`tree_ids`] gives
//!   tables their trees' ids.
//! - [`shown`] is what others may see of a transaction.
//! - [`harden`] copies undo of unfinished transactions to files for a checkpoint. [`history`] keeps
//!   memory and files within [`history_limits`].
//!
//! Every function here is called with no latch held, and none waits while it holds one.

mod admission;
pub(crate) mod bookmark;
mod chain_heads;
pub(crate) mod counters;
mod decided;
pub(crate) mod end;
pub(crate) mod harden;
pub(crate) mod history;
mod history_limits;
mod leaf_cache;
pub(crate) mod load;
pub(crate) mod lock;
mod lock_cursor;
pub(crate) mod lock_range;
mod locking_scan;
mod log_record;
mod marks;
mod overtaken;
mod own_snapshot;
pub(crate) mod prepare;
mod prepared;
pub(crate) mod purge;
mod quarantine;
pub(crate) mod read;
mod release;
pub(crate) mod revert;
mod reverts;
pub(crate) mod scan;
mod shown;
pub(crate) mod system;
mod tree_ids;
pub(crate) mod trees;
pub(crate) mod write;

pub(crate) use admission::{AlwaysAdmitted, UndoAdmission, UndoWait, WriteAdmission};
pub(crate) use decided::OnRecord;
pub(crate) use history_limits::HistoryLimits;
pub(crate) use lock::Locked;
pub(crate) use locking_scan::{LockingScan, ScanLocks};
pub(crate) use system::{Recovered, Rules, Txn, Txns};
pub(crate) use write::{New, Wrote};
