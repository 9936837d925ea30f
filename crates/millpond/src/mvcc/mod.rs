//! Who sees which version of a row.
//!
//! The newest version stands in the page and names its transaction. [`status`] tells how that transaction stands,
//! [`visible`] is the rule, [`version`] walks to older versions, [`snapshot`] remembers who still needs them, and
//! [`purge`] holds committed transactions until nobody does,
//! and [`cleared`] knows where nothing but delete marks stands meanwhile.
//!
//! **How a commit becomes visible** (Un2). The committer sets its slot to `Committing`, reserves its commit LSN in the
//! log, then sets the slot to that LSN. A snapshot is the log's reservation point, read when it is drawn; it sees exactly
//! the commits below it. Who finds `Active` can rely on it: a commit LSN reserved after that look lies at or above every
//! snapshot drawn before it. Who finds `Committing` waits the few instructions until the LSN is known. Commit order,
//! commit-LSN order and the order in which snapshots see commits are therefore one.

pub(crate) mod cleared;
pub(crate) mod purge;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod version;
pub(crate) mod visible;

pub(crate) use cleared::ClearedRanges;
pub(crate) use purge::PurgeQueue;
pub(crate) use snapshot::{Snapshot, Snapshots};
pub(crate) use status::{StatusTable, TxnState};
pub(crate) use version::{RemainingWalk, SeenVersion, View, WalkPosition};
