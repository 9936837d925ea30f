//! The queue of one lock: its holders, and the waiting requests in order of arrival. Pure: it
//! neither waits nor wakes.
//!
//! A transaction has at most one granted and one waiting request here. It has both only while it
//! holds the lock shared and wants it exclusive. Such an upgrade waits before the other requests:
//! behind them it would block itself, because they wait for it.
//!
//! **Every waiting request waits for all holders** (except for itself). A shared request waits
//! because of the holders, or because of an exclusive request before it, which waits for all
//! holders. So the deadlock search goes from a waiter to the holders in one step, however many
//! requests stand between. And the first request that cannot be granted blocks all behind it, so
//! granting looks at no others.

use super::mode::Mode;
use super::owner::Owner;
use base::TxnId;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// Transactions, mostly one.
pub(super) type Owners = SmallVec<[Arc<Owner>; 1]>;

#[derive(Debug)]
struct Held {
    owner: Arc<Owner>,
    mode: Mode,
}

#[derive(Debug)]
struct Waiter {
    owner: Arc<Owner>,
    mode: Mode,
    /// The transaction holds the lock shared.
    upgrade: bool,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    /// By transaction id. Only one, if it holds the lock exclusively.
    held: SmallVec<[Held; 1]>,
    /// Upgrades first. A queue without waiting requests, as nearly all are, has no memory for them.
    #[expect(clippy::box_collection, reason = "a word where nobody waits")]
    waiting: Option<Box<VecDeque<Waiter>>>,
}

/// The result of a new request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requested {
    /// The transaction had the lock already, at least as strong.
    Held,
    /// Granted, in a new entry.
    Granted,
    /// Granted, by making the transaction's own entry stronger.
    Upgraded,
    /// The request waits in the queue.
    Waiting,
    /// The request would have to wait and may not. Nothing was added.
    Refused,
}

/// The transactions that a request waits for.
#[derive(Debug, Default)]
pub(super) struct Blockers {
    /// The holders of the lock.
    pub(super) holders: Owners,
    /// A request that stands between the holders and this one and connects them, where nothing else
    /// does: the nearest exclusive request before a shared one that the holders alone would admit.
    /// With the number of its wait.
    pub(super) between: Option<(Arc<Owner>, u64)>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.waiters().len() == 0
    }

    fn waiters(&self) -> impl ExactSizeIterator<Item = &Waiter> + DoubleEndedIterator {
        self.waiting.as_deref().map_or(Default::default(), VecDeque::iter)
    }

    /// Returns whether a request waits.
    pub(super) fn has_waiters(&self) -> bool {
        self.waiting.is_some()
    }

    /// Number of waiting requests.
    pub(super) fn waiting_count(&self) -> usize {
        self.waiters().len()
    }

    fn holder_index(&self, txn: TxnId) -> Result<usize, usize> {
        self.held.binary_search_by_key(&txn, |held| held.owner.txn)
    }

    /// Returns whether `txn` holds the lock in any mode.
    pub(super) fn holds(&self, txn: TxnId) -> bool {
        self.holder_index(txn).is_ok()
    }

    /// Returns how `txn` holds the lock.
    pub(super) fn mode_held(&self, txn: TxnId) -> Option<Mode> {
        self.holder_index(txn).ok().map(|at| self.held[at].mode)
    }

    /// Returns the mode for which `txn` waits.
    pub(super) fn mode_wanted(&self, txn: TxnId) -> Option<Mode> {
        self.waiters().find(|waiter| waiter.owner.txn == txn).map(|waiter| waiter.mode)
    }

    /// The holders of the lock.
    pub(super) fn holders(&self) -> impl Iterator<Item = &Arc<Owner>> {
        self.held.iter().map(|held| &held.owner)
    }

    /// Returns whether no other transaction holds the lock or waits for it.
    pub(super) fn only(&self, txn: TxnId) -> bool {
        !self.has_waiters() && self.held.iter().all(|held| held.owner.txn == txn)
    }

    /// Returns whether no other transaction holds the lock exclusively or waits for that.
    pub(super) fn readable(&self, txn: TxnId) -> bool {
        let excludes = |owner: &Owner, mode| owner.txn != txn && mode == Mode::Exclusive;
        !self.held.iter().any(|held| excludes(&held.owner, held.mode))
            && !self.waiters().any(|waiter| excludes(&waiter.owner, waiter.mode))
    }

    /// Returns whether the holders admit another transaction with `mode`.
    fn admits(&self, mode: Mode) -> bool {
        self.held.first().is_none_or(|held| !mode.conflicts(held.mode))
    }

    /// Returns whether `txn` would have to wait, and only for holders.
    pub(super) fn keeps_out(&self, txn: TxnId, mode: Mode) -> bool {
        !self.has_waiters() && !self.admits(mode) && !self.held.iter().all(|held| held.owner.txn == txn)
    }

    /// Removes the locks of transactions that have ended and not released them yet. REQUIRES: no
    /// request waits.
    pub(super) fn forget_ended(&mut self) {
        self.held.retain(|held| !held.owner.has_ended());
    }

    /// Adds a request, and grants it if nothing is in its way.
    pub(super) fn request(&mut self, owner: &Arc<Owner>, mode: Mode, may_wait: bool) -> Requested {
        let own = self.holder_index(owner.txn);
        if own.is_ok_and(|at| self.held[at].mode.covers(mode)) {
            return Requested::Held;
        }
        match own {
            Ok(at) if self.held.len() == 1 => {
                self.held[at].mode = mode;
                return Requested::Upgraded;
            }
            Err(at) if !self.has_waiters() && self.admits(mode) => {
                self.held.insert(at, Held { owner: Arc::clone(owner), mode });
                return Requested::Granted;
            }
            _ => {}
        }
        if !may_wait {
            return Requested::Refused;
        }
        let waiting = self.waiting.get_or_insert_default();
        let upgrade = own.is_ok();
        let place = if upgrade { waiting.iter().take_while(|w| w.upgrade).count() } else { waiting.len() };
        waiting.insert(place, Waiter { owner: Arc::clone(owner), mode, upgrade });
        Requested::Waiting
    }

    /// Enters the implicit lock of `owner`, which its uncommitted version is.
    pub(super) fn materialise(&mut self, owner: &Arc<Owner>) {
        match self.holder_index(owner.txn) {
            Ok(at) => self.held[at].mode = Mode::Exclusive,
            Err(at) => self.held.insert(at, Held { owner: Arc::clone(owner), mode: Mode::Exclusive }),
        }
    }

    /// Removes the waiting request of `txn`. Returns false if there is none.
    pub(super) fn withdraw(&mut self, txn: TxnId) -> bool {
        let Some(waiting) = &mut self.waiting else { return false };
        let at = waiting.iter().position(|waiter| waiter.owner.txn == txn);
        let found = at.and_then(|at| waiting.remove(at)).is_some();
        if waiting.is_empty() {
            self.waiting = None;
        }
        found
    }

    /// Removes the lock of `txn`. Returns false if there is none.
    pub(super) fn release(&mut self, txn: TxnId) -> bool {
        self.holder_index(txn).map(|at| self.held.remove(at)).is_ok()
    }

    /// Grants the requests that nothing blocks any more, in order of arrival. Calls `granted` with
    /// the owner and with whether the grant upgraded its lock.
    pub(super) fn grant(&mut self, mut granted: impl FnMut(&Arc<Owner>, bool)) {
        while let Some(next) = self.waiting.as_ref().and_then(|waiting| waiting.front()) {
            let free = if next.upgrade { self.held.len() == 1 } else { self.admits(next.mode) };
            if !free {
                return;
            }
            let waiting = self.waiting.as_mut().expect("somebody waits");
            let next = waiting.pop_front().expect("somebody waits");
            if waiting.is_empty() {
                self.waiting = None;
            }
            granted(&next.owner, next.upgrade);
            match self.holder_index(next.owner.txn) {
                Ok(at) => self.held[at].mode = next.mode,
                Err(at) => self.held.insert(at, Held { owner: next.owner, mode: next.mode }),
            }
        }
    }

    /// Returns the transactions that the request of `txn` waits for. REQUIRES: it waits here.
    pub(super) fn blockers(&self, txn: TxnId) -> Blockers {
        if let [Held { owner, mode: Mode::Exclusive }] = &self.held[..] {
            // True for every mode and every place in the queue.
            return Blockers { holders: Owners::from_elem(Arc::clone(owner), 1), between: None };
        }
        let Some(place) = self.waiters().position(|waiter| waiter.owner.txn == txn) else {
            return Blockers::default();
        };
        let mode = self.waiters().nth(place).expect("it was just seen").mode;
        let others = self.held.iter().filter(|held| held.owner.txn != txn);
        let between = self.admits(mode).then(|| {
            let mut before = self.waiters().take(place).rev();
            let exclusive = before.find(|waiter| waiter.mode == Mode::Exclusive);
            exclusive.map(|waiter| (Arc::clone(&waiter.owner), waiter.owner.wait_number()))
        });
        Blockers { holders: others.map(|held| Arc::clone(&held.owner)).collect(), between: between.flatten() }
    }

    /// All waiting owners, in order.
    pub(super) fn waiting(&self) -> Vec<Arc<Owner>> {
        self.waiters().map(|waiter| Arc::clone(&waiter.owner)).collect()
    }

    /// Checks the rules of the queue in debug builds.
    pub(super) fn verify(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let alone = |held: &Held| held.mode == Mode::Shared || self.held.len() == 1;
        base::verify!(self.held.iter().all(alone), "two hold what excludes: {self:?}");
        let in_order = self.held.windows(2).all(|two| two[0].owner.txn < two[1].owner.txn);
        base::verify!(in_order, "holders stand in order, each once: {self:?}");
        let mut normal = false;
        for (n, waiter) in self.waiters().enumerate() {
            normal |= !waiter.upgrade;
            base::verify!(!(waiter.upgrade && normal), "upgrades wait first: {self:?}");
            base::verify!(waiter.upgrade == self.holds(waiter.owner.txn), "an upgrade has a lock: {self:?}");
            let free = if waiter.upgrade { self.held.len() == 1 } else { self.admits(waiter.mode) };
            base::verify!(n > 0 || !free, "the first waits for nothing: {self:?}");
        }
        base::verify!(!self.has_waiters() || self.waiters().len() > 0, "an empty list of waiters: {self:?}");
    }

    /// All transactions that keep `txn` waiting, also those that wait before it.
    pub(super) fn before(&self, txn: TxnId) -> impl Iterator<Item = &Arc<Owner>> {
        let place = self.waiters().position(|waiter| waiter.owner.txn == txn);
        let mode = place.and_then(|place| self.waiters().nth(place)).map(|waiter| waiter.mode);
        let held = self.held.iter().map(|held| (&held.owner, held.mode));
        let waiting = self.waiters().take(place.unwrap_or(0)).map(|waiter| (&waiter.owner, waiter.mode));
        held.chain(waiting)
            .filter(move |(owner, other)| owner.txn != txn && mode.is_some_and(|mode| mode.conflicts(*other)))
            .map(|(owner, _)| owner)
    }

    #[cfg(test)]
    pub(super) fn describe(&self) -> String {
        let one = |owner: &Owner, mode: Mode, waits: &str| {
            let mode = if mode == Mode::Exclusive { "X" } else { "S" };
            format!("T{}:{mode}{waits}", owner.txn)
        };
        let held = self.held.iter().map(|held| one(&held.owner, held.mode, ""));
        held.chain(self.waiters().map(|w| one(&w.owner, w.mode, "?"))).collect::<Vec<_>>().join(" ")
    }
}
