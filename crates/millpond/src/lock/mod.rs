//! The lock manager: row locks, range locks (next-key locks) and table locks, with deadlock
//! detection (Lk1 to Lk4, Lk6). Locks are logical and held to the end of a transaction.
//!
//! **Two forms of a row lock.** An uncommitted version in a page *is* its writer's exclusive lock
//! and costs nothing (an implicit lock). All others are explicit requests in a queue: locks of
//! readers, waits, and implicit locks for which a transaction waits. Such a lock is *materialised*:
//! entered in its writer's name, so that the queue shows which transaction waits for which.
//!
//! A serializable transaction locks the ranges of keys that it has scanned, in [`ranges`].
//!
//! **The latch rule.** Every call that may add a request for a row (`enqueue`, `claim`,
//! `wait_for_writer`) is made under the latch of the leaf that covers the key: exclusive for a
//! write, at least shared for a lock. So no request can be added between a writer's look at the
//! queue and its write of the version, and `claim` may answer from one atomic load while a shard is
//! empty. The transaction waits afterwards, on its [`Ticket`], and holds no latch. Its place in the
//! queue was taken under the latch, so locks are granted in the order of requests.
//!
//! **Order of mutexes:** a shard of queues or of ranges, then an owner. A thread that breaks
//! deadlocks takes the mutex `breaking` before both. Under these mutexes a thread waits for nothing
//! else, but it calls the observer of waits ([`observe`]). A transaction that is granted a lock is
//! woken after these mutexes are released.
//!
//! The result depends only on the order of calls and on the seed: queues are vectors, maps are
//! ordered or hash from the seed.

mod cancel;
mod covered;
mod deadlock;
mod key;
mod key_range;
mod lock_table;
mod mode;
mod observe;
mod owner;
mod pending;
mod queue;
mod queue_table;
mod queues;
mod range;
mod ranges;
mod report;
mod requests;
mod searches;
mod seen;
mod shared;
#[cfg(test)]
mod tests;
mod ticket;
mod users;
mod wait_state;

pub(crate) use cancel::CancelFlag;
pub(crate) use covered::{KeyState, RangeMode};
pub(crate) use key::hash_row;
pub(crate) use key_range::KeyRange;
pub(crate) use lock_table::LockTable;
pub(crate) use mode::Mode;
pub use observe::WaitObserver;
pub(crate) use owner::Owner;
pub(crate) use pending::ScanStart;
pub(crate) use ranges::RangeRow;
pub(crate) use requests::{TableLock, Writer};
pub(crate) use seen::{SeenDeadlock, SeenLock, SeenPlace};
pub(crate) use ticket::{Enqueued, Ticket, WriterWait};
pub(crate) use users::{Closed, Users, Using};

use base::TreeId;
use std::time::Duration;

/// How long a request may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// At most this long.
    Until(Duration),
    /// Not at all: a lock that is not free is [`Denied::Timeout`].
    #[expect(clippy::enum_variant_names, reason = "NOWAIT is the field's word")]
    NoWait,
    /// Not at all: a lock that is not free is [`Denied::Skipped`], and the row counts as absent.
    Skip,
}

/// A request for the lock of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowRequest<'k> {
    pub(crate) tree: TreeId,
    pub(crate) key: &'k [u8],
    pub(crate) mode: Mode,
    pub(crate) wait: Wait,
}

/// Why a lock was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The owner was chosen as the victim of a deadlock: its transaction must roll back.
    Deadlock,
    /// The lock was not free in time.
    Timeout,
    /// The lock was not free, and the caller skips such rows.
    Skipped,
    /// The database closes or is poisoned.
    Stopped,
    /// Locks take all the memory that they may take.
    Full,
    /// Another thread has cancelled the transaction's waits.
    Cancelled,
}
