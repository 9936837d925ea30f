//! One lock's queue: who has it, who waits, in order of arrival. Pure: it neither waits nor wakes.
//!
//! A transaction has at most one granted and one waiting request here; both only while it holds the lock shared and wants
//! it exclusive. Such an upgrade waits before the others: behind them it would block itself, because they wait for it.
//!
//! **Who waits here waits for everybody who has the lock**, but for himself: somebody who waits shared does so because of
//! who has it or who stands before him exclusively, and the latter waits for all who have it. So a search for circles goes
//! from a waiter to the holders in one step, however many stand between them; and the first who cannot have the lock
//! keeps all behind him from it, so granting looks at nobody else.

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
    /// It holds the lock shared.
    upgrade: bool,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    /// By transaction id. One, if he has the lock exclusively.
    held: SmallVec<[Held; 1]>,
    /// Upgrades first. A queue without waiters, which is what nearly all are, has no memory for them.
    #[expect(clippy::box_collection, reason = "a word where nobody waits")]
    waiting: Option<Box<VecDeque<Waiter>>>,
}

/// What became of a new request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// The transaction had the lock already, at least as strong.
    Held,
    /// Granted, in a new entry.
    Granted,
    /// Granted, by making the transaction's own entry stronger.
    Upgraded,
    /// It stands in the queue.
    Waiting,
    /// It would have had to wait and did not want to. Nothing was added.
    Refused,
}

/// For whom a waiter waits.
#[derive(Debug, Default)]
pub(super) struct Blockers {
    /// All who have what it waits for.
    pub(super) holders: Owners,
    /// Who waits between them and it and joins them to it, where nothing else does: the nearest that wants the lock exclusively,
    /// before one that wants it shared as the holders have it.
    /// And which of its waits that is.
    pub(super) between: Option<(Arc<Owner>, u64)>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.waiters().len() == 0
    }

    fn waiters(&self) -> impl ExactSizeIterator<Item = &Waiter> + DoubleEndedIterator {
        self.waiting.as_deref().map_or(Default::default(), VecDeque::iter)
    }

    /// Whether anybody waits.
    pub(super) fn awaited(&self) -> bool {
        self.waiting.is_some()
    }

    /// How many wait.
    pub(super) fn waiting_count(&self) -> usize {
        self.waiters().len()
    }

    fn place_of(&self, txn: TxnId) -> Result<usize, usize> {
        self.held.binary_search_by_key(&txn, |held| held.owner.txn)
    }

    /// Whether `txn` has the lock, however weak.
    pub(super) fn holds(&self, txn: TxnId) -> bool {
        self.place_of(txn).is_ok()
    }

    /// All who have the lock.
    pub(super) fn holders(&self) -> impl Iterator<Item = &Arc<Owner>> {
        self.held.iter().map(|held| &held.owner)
    }

    /// Whether only `txn` has anything here.
    pub(super) fn only(&self, txn: TxnId) -> bool {
        !self.awaited() && self.held.iter().all(|held| held.owner.txn == txn)
    }

    /// Whether nobody but `txn` has or wants anything exclusively.
    pub(super) fn readable(&self, txn: TxnId) -> bool {
        let excludes = |owner: &Owner, mode| owner.txn != txn && mode == Mode::Exclusive;
        !self.held.iter().any(|held| excludes(&held.owner, held.mode))
            && !self.waiters().any(|waiter| excludes(&waiter.owner, waiter.mode))
    }

    /// Whether who has the lock leaves room for somebody else with `mode`.
    fn admits(&self, mode: Mode) -> bool {
        self.held.first().is_none_or(|held| !mode.conflicts(held.mode))
    }

    /// Whether `txn` would have to wait for nothing but those who have the lock.
    pub(super) fn keeps_out(&self, txn: TxnId, mode: Mode) -> bool {
        !self.awaited() && !self.admits(mode) && !self.held.iter().all(|held| held.owner.txn == txn)
    }

    /// Takes the locks away of those who have ended and have not come to it yet. REQUIRES: nobody waits.
    pub(super) fn forget_ended(&mut self) {
        self.held.retain(|held| !held.owner.has_ended());
    }

    /// Adds a request and grants it if nothing is in its way.
    pub(super) fn place(&mut self, owner: &Arc<Owner>, mode: Mode, may_wait: bool) -> Placed {
        let own = self.place_of(owner.txn);
        if own.is_ok_and(|at| self.held[at].mode.covers(mode)) {
            return Placed::Held;
        }
        match own {
            Ok(at) if self.held.len() == 1 => {
                self.held[at].mode = mode;
                return Placed::Upgraded;
            }
            Err(at) if !self.awaited() && self.admits(mode) => {
                self.held.insert(at, Held { owner: Arc::clone(owner), mode });
                return Placed::Granted;
            }
            _ => {}
        }
        if !may_wait {
            return Placed::Refused;
        }
        let waiting = self.waiting.get_or_insert_default();
        let upgrade = own.is_ok();
        let place = if upgrade { waiting.iter().take_while(|w| w.upgrade).count() } else { waiting.len() };
        waiting.insert(place, Waiter { owner: Arc::clone(owner), mode, upgrade });
        Placed::Waiting
    }

    /// Enters the lock that an uncommitted version of `owner` already is.
    pub(super) fn materialise(&mut self, owner: &Arc<Owner>) {
        match self.place_of(owner.txn) {
            Ok(at) => self.held[at].mode = Mode::Exclusive,
            Err(at) => self.held.insert(at, Held { owner: Arc::clone(owner), mode: Mode::Exclusive }),
        }
    }

    /// Takes out `txn`'s waiting request. False if it has none.
    pub(super) fn withdraw(&mut self, txn: TxnId) -> bool {
        let Some(waiting) = &mut self.waiting else { return false };
        let at = waiting.iter().position(|waiter| waiter.owner.txn == txn);
        let found = at.and_then(|at| waiting.remove(at)).is_some();
        if waiting.is_empty() {
            self.waiting = None;
        }
        found
    }

    /// Takes out `txn`'s lock. False if it has none.
    pub(super) fn release(&mut self, txn: TxnId) -> bool {
        self.place_of(txn).map(|at| self.held.remove(at)).is_ok()
    }

    /// Grants what nothing stands in the way of any more, in order of arrival. Yields the owner and whether the grant
    /// made its own earlier entry stronger, instead of adding one.
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
            match self.place_of(next.owner.txn) {
                Ok(at) => self.held[at].mode = next.mode,
                Err(at) => self.held.insert(at, Held { owner: next.owner, mode: next.mode }),
            }
        }
    }

    /// For whom `txn`'s request waits. REQUIRES: it waits here.
    pub(super) fn blockers(&self, txn: TxnId) -> Blockers {
        if let [Held { owner, mode: Mode::Exclusive }] = &self.held[..] {
            // Whatever it wants, and wherever it stands among thousands.
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

    /// Every waiting owner, in order.
    pub(super) fn waiting(&self) -> Vec<Arc<Owner>> {
        self.waiters().map(|waiter| Arc::clone(&waiter.owner)).collect()
    }

    /// The queue's own rules, looked through in debug builds. Our bug if they do not hold.
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
        base::verify!(!self.awaited() || self.waiters().len() > 0, "an empty list of waiters: {self:?}");
    }

    /// Everybody who keeps `txn` waiting, found one by one.
    #[cfg(test)]
    pub(super) fn all_before(&self, txn: TxnId) -> Vec<Arc<Owner>> {
        let Some(place) = self.waiters().position(|waiter| waiter.owner.txn == txn) else {
            return Vec::new();
        };
        let mode = self.waiters().nth(place).expect("it was just seen").mode;
        let held = self.held.iter().map(|held| (&held.owner, held.mode));
        let before = held.chain(self.waiters().take(place).map(|waiter| (&waiter.owner, waiter.mode)));
        let excludes = before.filter(|(owner, other)| owner.txn != txn && mode.conflicts(*other));
        excludes.map(|(owner, _)| Arc::clone(owner)).collect()
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
