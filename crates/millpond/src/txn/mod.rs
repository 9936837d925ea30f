//! Transactions over trees: begin, change rows, read what a moment shows, commit, roll back, and what is left to do when
//! they have ended.
//!
//! [`system::Txns`] joins the status table, undo, snapshots and locks of one database. [`mod@write`] changes a row, [`lock`]
//! locks one, [`lock_range`] those of a range, [`load`] fills a new tree, [`read`] reads, [`end`] commits and rolls back,
//! [`revert`] installs older versions, [`purge`] removes what nobody sees any more, both ask for [`room`] in the log and set [`aside`] what
//! they cannot do, as does [`release`], which gives the space of dropped trees back, [`leaf_cache`] saves descents, [`marks`] notes where scans find
//! nothing but delete marks, [`harden`] keeps
//! a checkpoint from losing the undo of the unfinished, [`history`] keeps the past within its limits.
//!
//! Every function here is called with no latch held, and none waits while it holds one.

mod admission;
pub(crate) mod end;
pub(crate) mod harden;
pub(crate) mod history;
mod leaf_cache;
pub(crate) mod load;
pub(crate) mod lock;
pub(crate) mod lock_range;
mod marks;
pub(crate) mod purge;
mod quarantine;
pub(crate) mod read;
mod release;
pub(crate) mod revert;
pub(crate) mod scan;
pub(crate) mod system;
pub(crate) mod trees;
pub(crate) mod write;

pub(crate) use admission::{AlwaysAdmitted, UndoAdmission, UndoWait, WriteAdmission};
pub(crate) use history::HistoryLimits;
pub(crate) use lock::Locked;
pub(crate) use lock_range::{LockingScan, ScanLocks};
pub(crate) use system::{Recovered, Rules, Txn, Txns};
pub(crate) use write::{New, Wrote};
