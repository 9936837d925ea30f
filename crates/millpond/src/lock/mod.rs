//! Row and table locks: logical, held to the end of a transaction, checked for deadlocks (Lk1, Lk4).
//!
//! **Two forms of a row lock.** An uncommitted version in a page *is* its writer's exclusive lock and costs nothing.
//! Everything else is an explicit request in a queue here: locks of readers, waits, and an implicit lock that somebody
//! waits for (it is *materialised*, that is entered in its writer's name, so that the queue shows who waits for whom).
//!
//! What serializable transactions have scanned they keep as ranges of keys, in [`ranges`].
//!
//! **The latch rule that makes it exact.** Every call that may add a request for a row (`enqueue`, `claim`,
//! `wait_for_writer`) is made under the latch of the leaf whose fences cover the key: exclusive to write, at least
//! shared to lock. So nobody's request can slip in between a writer's look at the queue and the version that it writes,
//! and `claim` may answer from one atomic load while a shard is empty. Waiting happens afterwards, on the [`Ticket`],
//! with no latch held; the place in the queue was taken under the latch, so waiting is first come, first served.
//!
//! **Order of mutexes:** a shard of queues or of ranges, then an owner. Who breaks deadlocks takes a mutex before both. Nobody waits for
//! anything else under them, and who is granted something is woken when they have been let go of.
//!
//! Everything is deterministic for a given order of calls: queues are vectors, maps are ordered or have a fixed hash.

mod deadlock;
mod key;
mod mode;
mod owner;
mod queue;
mod queues;
mod range;
mod ranges;
mod table;
mod table_lock;
#[cfg(test)]
mod tests;
mod ticket;
mod users;

pub(crate) use key::hash_row;
pub(crate) use mode::Mode;
pub(crate) use owner::Owner;
pub(crate) use ranges::{Gated, KeyRange, Since};
pub(crate) use table::{Enqueued, LockTable, Writer};
pub(crate) use ticket::Ticket;
pub(crate) use users::{Closed, Users, Using};

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

/// Why a lock was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The owner was chosen to give way in a circle of waits: its transaction must roll back.
    Deadlock,
    /// It was not free in time.
    Timeout,
    /// It was not free and the caller skips such rows.
    Skipped,
    /// The database closes or is poisoned.
    Stopped,
    /// Locks take all the memory that they may.
    Full,
}
