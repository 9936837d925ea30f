//! What is shown of locks to other threads, and the memory of the last deadlocks.

use super::Mode;
use base::sync::Mutex;
use base::{TreeId, TxnId};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Deadlocks that are remembered.
pub(super) const DEADLOCKS_KEPT: usize = 16;

/// A transaction that has or wants locks.
#[derive(Clone, Debug)]
pub(crate) struct SeenTxn {
    pub(crate) txn: TxnId,
    pub(crate) tag: u64,
    pub(crate) rows_changed: u64,
    pub(crate) locks: u64,
    pub(crate) waits_for: Option<SeenLock>,
}

/// What a lock is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SeenPlace {
    Table,
    Counter,
    Row(Vec<u8>),
    /// The keys from the first on and below the second, or to the end of the tree.
    Range {
        from: Vec<u8>,
        to: Option<Vec<u8>>,
        gaps: bool,
    },
    /// A scan lets writers of its range go first.
    Turn,
}

/// A lock, or a request for one.
#[derive(Clone, Debug)]
pub(crate) struct SeenLock {
    pub(crate) txn: TxnId,
    pub(crate) tag: u64,
    pub(crate) tree: TreeId,
    pub(crate) place: SeenPlace,
    pub(crate) mode: Mode,
    pub(crate) waits: bool,
}

/// A request that waits, and the transactions that it waits for, with their tags.
#[derive(Clone, Debug)]
pub(crate) struct SeenWait {
    pub(crate) request: SeenLock,
    pub(crate) blockers: Vec<(TxnId, u64)>,
}

/// A transaction of a deadlock cycle.
#[derive(Clone, Debug)]
pub(crate) struct SeenMember {
    pub(crate) txn: SeenTxn,
    /// The lock for which the member before it waits, if it holds one: it may also stand before
    /// that one in a queue.
    pub(crate) holds: Option<SeenLock>,
    pub(crate) victim: bool,
}

/// A deadlock. Each member waits for the next one, the last for the first.
#[derive(Clone, Debug)]
pub(crate) struct SeenDeadlock {
    /// Deadlocks are numbered from 1 on.
    pub(crate) number: u64,
    pub(crate) members: Vec<SeenMember>,
}

/// Gets the number of each deadlock and the tags of its members.
pub(super) type Told = Arc<dyn Fn(u64, &[u64]) + Send + Sync>;

/// The last deadlocks, and the function that is told of each.
#[derive(Default)]
pub(super) struct Reports {
    last: Mutex<VecDeque<SeenDeadlock>>,
    on_deadlock: OnceLock<Told>,
}

impl Reports {
    /// Sets the function that is told of each deadlock. REQUIRES: called at most once.
    pub(super) fn tell(&self, to: Told) {
        base::check!(self.on_deadlock.set(to).is_ok(), "two want to know of deadlocks");
    }

    /// Remembers a deadlock that is about to be broken, and tells of it.
    pub(super) fn add(&self, report: SeenDeadlock) {
        let number = report.number;
        let tags: Vec<u64> = report.members.iter().map(|member| member.txn.tag).collect();
        {
            let mut last = self.last.lock();
            last.retain(|earlier| earlier.number != number);
            if last.len() == DEADLOCKS_KEPT {
                last.pop_front();
            }
            last.push_back(report);
        }
        if let Some(tell) = self.on_deadlock.get() {
            tell(number, &tags);
        }
    }

    /// Forgets the deadlock that was remembered last: the victim's wait has ended by itself.
    pub(super) fn forget_last(&self) {
        self.last.lock().pop_back();
    }

    /// Returns the last deadlocks, the latest last.
    pub(super) fn last(&self) -> Vec<SeenDeadlock> {
        self.last.lock().iter().cloned().collect()
    }
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reports").field("last", &self.last).finish_non_exhaustive()
    }
}
