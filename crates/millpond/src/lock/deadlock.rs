//! [`Deadlocks`]: cycles of waits are found when a wait begins and broken at once.
//!
//! **Edges of the wait-for graph.** A transaction in a queue waits for all holders of the lock (see
//! `queue.rs`: the requests between wait for them too). A pending write waits for all transactions
//! whose range covers its key. A scan that lets writers pass first waits for those writers. Edges
//! are read from queues and ranges themselves, each under the mutex that guards it, together with
//! the fact that the transaction still waits there.
//!
//! **Which transaction searches.** A cycle is closed by the request that completes it. After that
//! request has entered its queue, its transaction searches for cycles through itself. No cycle runs
//! through a transaction that no other has ever waited for, so most requests need no search: in a
//! queue of two thousand for one row, those that hold nothing else need none (decision 0109).
//!
//! **A cycle that was found is real.** Each transaction on the way was seen to wait when its edge
//! was read, and a waiting transaction releases nothing. So all edges still exist when the cycle
//! closes, unless a wait has timed out or another cycle was broken meanwhile. In the second case a
//! further victim would be one too many. So searches run in parallel, but victims are chosen under
//! the mutex `breaking`, and only if all members of the cycle are still in the same waits; else the
//! search is repeated.

use super::key::LockKey;
use super::owner::Owner;
use super::queue::{Blockers, Owners};
use super::report::LockView;
use super::searches::Searches;
use super::seen::{Reports, SeenDeadlock, SeenMember, Told};
use super::wait_state;
use crate::planted::{Bug, planted};
use base::TxnId;
use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use vfs::Clock;

/// Members of a cycle that its report names.
const MEMBERS_MOST: usize = 32;

/// Most paths are not longer, so most searches allocate once.
const WAY_STEPS: usize = 16;

/// A waiting transaction, and the number of its wait.
type Waiting = (Arc<Owner>, u64);

/// A transaction on the path of a search.
struct Step {
    at: Waiting,
    /// The transaction that stands between it and the next one, if there is one.
    between: Option<Waiting>,
    /// The transactions that it waits for and that have not been visited.
    open: Owners,
}

/// A deadlock cycle.
struct Cycle {
    /// The path around it.
    path: Vec<Step>,
    /// No other cycle leads through the same beginning.
    only: bool,
}

impl Cycle {
    fn members(&self) -> impl Iterator<Item = &Waiting> {
        self.path.iter().flat_map(|step| std::iter::once(&step.at).chain(&step.between))
    }

    /// Returns whether the cycle still exists. As long as each member is in the same wait, none has
    /// released anything.
    fn stands(&self) -> bool {
        self.members().all(|(owner, wait)| owner.wait_number() == *wait)
    }
}

/// The visited transactions. Most paths are short.
#[derive(Default)]
struct Seen {
    few: SmallVec<[TxnId; 32]>,
    more: BTreeSet<TxnId>,
}

impl Seen {
    /// Returns whether it is the first visit.
    fn insert(&mut self, txn: TxnId) -> bool {
        if self.few.contains(&txn) {
            return false;
        }
        if self.few.len() == self.few.inline_size() {
            return self.more.insert(txn);
        }
        self.few.push(txn);
        true
    }
}

/// Finds deadlock cycles and breaks them.
#[derive(Debug)]
pub(super) struct Deadlocks {
    /// One thread at a time chooses victims.
    breaking: Mutex<()>,
    searches: Searches,
    reports: Reports,
    /// Deadlocks broken.
    count: AtomicU64,
    clock: Arc<dyn Clock>,
}

impl Deadlocks {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Deadlocks {
        Deadlocks {
            breaking: Mutex::new(()),
            searches: Searches::default(),
            reports: Reports::default(),
            count: AtomicU64::new(0),
            clock,
        }
    }

    /// Breaks every cycle through `start`, whose wait began at `begun_us`. `withdraw` ends a wait
    /// for a reason, and returns false if there is none any more.
    pub(super) fn break_cycles(
        &self,
        view: LockView<'_>,
        start: &Arc<Owner>,
        begun_us: u64,
        withdraw: impl Fn(&Arc<Owner>, &LockKey, u32) -> bool,
    ) {
        if !start.has_blocked() {
            return;
        }
        let found = find_cycle(view, start);
        self.searches.count(self.clock.now_us().saturating_sub(begun_us));
        let Some(mut cycle) = found else { return };
        let _one_at_a_time = self.breaking.lock();
        loop {
            if !cycle.stands() {
                let Some(another) = find_cycle(view, start) else { break };
                cycle = another;
            }
            self.break_one(view, &cycle, &withdraw);
            if cycle.only {
                break;
            }
        }
        self.searches.broken(self.clock.now_us().saturating_sub(begun_us));
    }

    /// Breaks a cycle. If a member is a scan that only lets writers pass, the scan continues. Else
    /// the victim is one that is rolled back anyway, because it is in the way of another, or the
    /// transaction that has done least. Among equals it is the one that has closed the cycle, as in
    /// InnoDB, or else the youngest.
    fn break_one(
        &self,
        view: LockView<'_>,
        cycle: &Cycle,
        withdraw: &impl Fn(&Arc<Owner>, &LockKey, u32) -> bool,
    ) {
        let members = || cycle.members().map(|(owner, _)| owner);
        let lets_pass = |owner: &&Arc<Owner>| owner.waits_for().is_some_and(|key| key.is_scan_wait());
        if let Some(scan) = members().find(lets_pass) {
            if let Some(key) = scan.waits_for() {
                withdraw(scan, &key, wait_state::PASSED);
            }
            return;
        }
        // The search began at the transaction that has closed the cycle.
        let closing = cycle.path.first().map(|step| step.at.0.txn);
        let rank = |owner: &&Arc<Owner>| {
            (!owner.is_in_the_way(), owner.work(), Some(owner.txn) != closing, Reverse(owner.txn))
        };
        let victim = members().min_by_key(rank).expect("it holds its beginning");
        let Some(key) = victim.waits_for() else { return };
        #[cfg(test)]
        self.searches.judge(stands_in_circle(view, victim));
        let all: Vec<Arc<Owner>> = members().map(Arc::clone).collect();
        // Before the victim goes on, so that all stand still.
        self.note(view, &all, victim.txn);
        if withdraw(victim, &key, wait_state::DEADLOCK) {
            self.count.fetch_add(1, Ordering::Relaxed);
        } else {
            self.reports.forget_last();
        }
    }

    /// Remembers a deadlock that is about to be broken, and tells of it. REQUIRES: `breaking` is
    /// locked. The members still stand in their cycle, each waiting for the next one.
    fn note(&self, view: LockView<'_>, members: &[Arc<Owner>], victim: TxnId) {
        let number = self.count() + 1;
        let before = members.iter().cycle().skip(members.len().saturating_sub(1));
        let members = members
            .iter()
            .zip(before)
            .map(|(owner, before)| SeenMember {
                txn: view.seen(owner),
                holds: before.waits_for().and_then(|key| view.held_at(owner, &key)),
                victim: owner.txn == victim,
            })
            .enumerate()
            .filter(|(n, member)| member.victim || *n < MEMBERS_MOST)
            .map(|(_, member)| member)
            .collect();
        self.reports.add(SeenDeadlock { number, members });
    }

    /// Sets the function that is told of each deadlock. REQUIRES: called at most once.
    pub(super) fn tell(&self, to: Told) {
        self.reports.tell(to);
    }

    /// Returns the last deadlocks, the latest last.
    pub(super) fn last(&self) -> Vec<SeenDeadlock> {
        self.reports.last()
    }

    /// Deadlocks broken, since the start.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The time of all searches, and the longest until a cycle was broken, microseconds.
    pub(super) fn took_us(&self) -> (u64, u64) {
        self.searches.took_us()
    }

    /// Victims that were in no cycle.
    #[cfg(test)]
    pub(super) fn wrong_victims(&self) -> u64 {
        self.searches.wrong()
    }
}

/// Returns a cycle through `start`.
fn find_cycle(view: LockView<'_>, start: &Arc<Owner>) -> Option<Cycle> {
    let (mut seen, mut only) = (Seen::default(), true);
    let step = |owner: Arc<Owner>| {
        let wait = owner.wait_number();
        let Blockers { mut holders, between } = view.blockers(&owner, wait);
        holders.reverse();
        Step { at: (owner, wait), between, open: holders }
    };
    let mut path = Vec::with_capacity(WAY_STEPS);
    path.push(step(Arc::clone(start)));
    while let Some(last) = path.last_mut() {
        // Behind a transaction that stands between, others may stand.
        only &= last.open.len() <= 1 && last.between.is_none();
        let Some(next) = last.open.pop() else {
            path.pop();
            continue;
        };
        if next.txn == start.txn {
            return Some(Cycle { path, only });
        }
        let too_far = path.len() > 1 && planted(Bug::CycleUnseen);
        if seen.insert(next.txn) && !too_far {
            path.push(step(next));
        }
    }
    None
}

/// Returns whether a path leads from `owner` back to it, over every edge that exists.
#[cfg(test)]
fn stands_in_circle(view: LockView<'_>, owner: &Arc<Owner>) -> bool {
    let (mut open, mut seen) = (view.all_before(owner), BTreeSet::new());
    while let Some(next) = open.pop() {
        if next.txn == owner.txn {
            return true;
        }
        if seen.insert(next.txn) {
            open.extend(view.all_before(&next));
        }
    }
    false
}
