//! Transactions over trees: begin, change rows, read by a snapshot, lock, commit, roll back, and
//! the work that is left when they have ended.
//!
//! [`system::Txns`] has what the transactions of one database share, in parts:
//!
//! - [`versions`] knows who has written what and who reads it: states, undo and snapshots.
//!   [`undo_space`] is the memory and the files that undo may take.
//! - [`table_trees`] has the [`trees`] of tables, their [`counters`], from which rows get their
//!   numbers, and the [`tree_ids`] of new ones.
//! - [`ended_txns`] has the transactions that wait to be reverted ([`reverts`]) or purged, and the
//!   [`quarantine`] of work that cannot be done now.
//! - [`prepared`] has the prepared transactions; [`on_record`] knows which commits a coordinator
//!   has on record; [`bookmark`] is the bytes that a program keeps with its last commit.
//! - [`lock_wait`] waits for locks and counts the time.
//!
//! One [`transaction`] has its id, its undo, its snapshot and its locks, and [`rules`] say how it
//! treats those of others. The rest are small types that do something with the parts: each
//! borrows those that it uses, and [`system`] makes it.
//!
//! - [`mod@write`] changes a row, and [`lock`] locks one. [`lock_range`] locks the rows of a range,
//!   and the range itself, from the position of a [`lock_cursor`] on; a [`locking_scan`] says how.
//!   [`bulk_load`] fills a new tree. [`table_locks`] locks tables and counters.
//! - [`read`] reads one row and [`scan`] many. [`delete_marks`] notes where scans find nothing but
//!   delete marks. [`leaf_cache`] saves descents. [`own_snapshot`] is a transaction's snapshot;
//!   [`overtaken`] finds out where the transaction has changed rows that are newer than this
//!   snapshot.
//! - [`commit`] and [`rollback`] end transactions. [`prepare`] prepares them and decides prepared
//!   ones. [`revert`] restores older versions. [`purge`] removes what no reader can see, reading
//!   [`chain_heads`] ahead; [`purge_work`] is what it does for one record. [`release`] gives back
//!   the pages of dropped trees. Revert, purge and release ask for [`admission`] to the log.
//!   [`background`] says which of their work comes next.
//!   [`log_record`] logs records that change no page.
//! - [`harden`] copies undo of unfinished transactions to files for a checkpoint. [`history`] keeps
//!   memory and files within [`history_limits`].
//!
//! Every function here is called with no latch held, and none waits while it holds one.

mod admission;
mod background;
pub(crate) mod bookmark;
mod bulk_load;
mod chain_heads;
mod commit;
pub(crate) mod counters;
mod delete_marks;
mod ended_txns;
mod harden;
mod history;
mod history_limits;
mod leaf_cache;
mod lock;
mod lock_cursor;
mod lock_range;
pub(crate) mod lock_wait;
mod locking_scan;
mod log_record;
mod on_record;
pub(crate) mod overtaken;
mod own_snapshot;
mod prepare;
mod prepared;
mod purge;
mod purge_work;
mod quarantine;
pub(crate) mod read;
mod release;
mod revert;
mod reverts;
mod rollback;
mod rules;
pub(crate) mod scan;
mod system;
mod table_locks;
mod table_trees;
mod transaction;
mod tree_ids;
mod trees;
mod undo_space;
mod versions;
mod write;

pub(crate) use admission::{AlwaysAdmitted, UndoAdmission, UndoWait, WriteAdmission};
pub(crate) use history_limits::HistoryLimits;
pub(crate) use lock::Locked;
pub(crate) use locking_scan::{LockingScan, ScanLocks};
pub(crate) use on_record::OnRecord;
pub(crate) use rules::Rules;
pub(crate) use system::{Recovered, Txns};
pub(crate) use transaction::Txn;
pub(crate) use write::{New, Wrote};
