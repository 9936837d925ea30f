//! Tells the crate's caller which transactions wait for which, when the waits begin.
//!
//! A caller may know an order in which transactions must commit that the engine does not know, as a
//! replica does that repeats its primary's commits. There a wait for a transaction that has to
//! commit later never ends, and no cycle of locks shows it. So the caller is told of every edge of
//! the wait-for graph between transactions that it has named. It rolls back the one that is in the
//! way, and says so: that transaction is also the first victim of a deadlock.
//!
//! A new edge arises where a request begins to wait, and where a range grows over a waiting
//! request. A request that waits in a queue also gets those for blockers that wait before it: they
//! will have the lock before it has. So no grant adds an edge that was not told.

use std::fmt::Debug;

/// Is told which transactions wait for which ([`Db::observe_waits`](crate::Db::observe_waits)).
pub trait WaitObserver: Debug + Send + Sync {
    /// The transaction named `waiter` waits for the one named `blocker`. It is called while the
    /// lock table is locked: it must not wait, nor call the database. Neither transaction ends
    /// during the call. The names are those of
    /// [`TxnOptions::observed_as`](crate::TxnOptions::observed_as).
    ///
    /// Returns whether the caller will roll `blocker` back. It is then the victim of a deadlock
    /// rather than others.
    fn waits(&self, waiter: u64, blocker: u64) -> bool;
}
