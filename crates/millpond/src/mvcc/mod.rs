//! MVCC: which version of a row a reader sees.
//!
//! The newest version is in the page and names its transaction. [`status`] is the table of the
//! states of transactions. [`visible`] is the visibility rule, as pure functions. [`version`] walks
//! back to older versions. [`snapshot`] lists the snapshots (read views) that are held. [`purge`]
//! is the queue of committed transactions whose undo a snapshot may still need. [`cleared`] lists
//! ranges of keys that hold nothing but delete marks. [`writer`] refuses the last ids.
//!
//! **How a commit becomes visible** (Un2). The committer sets its slot to `Committing`, reserves
//! its commit LSN in the log, then sets the slot to that LSN. A snapshot is the log's reservation
//! point, read when the snapshot is drawn. The snapshot sees exactly the commits below this point.
//! A reader that finds `Active` can rely on it: if that transaction commits later, its commit LSN
//! lies at or above every snapshot that was drawn before the reader looked at the slot. A reader
//! that finds `Committing` waits for the few instructions until the LSN is known. So three orders
//! are the same: the order of commits, the order of commit LSNs, and the order in which snapshots
//! see commits.

pub(crate) mod cleared;
pub(crate) mod purge;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod version;
pub(crate) mod visible;
pub(crate) mod writer;

pub(crate) use cleared::ClearedRanges;
pub(crate) use purge::PurgeQueue;
pub(crate) use snapshot::{Snapshot, Snapshots};
pub(crate) use status::{StatusTable, TxnState};
pub(crate) use version::{RemainingWalk, SeenVersion, View, WalkPosition};
