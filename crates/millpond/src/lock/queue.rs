//! One lock's queue: who has it, who waits, in order of arrival. Pure: it neither waits nor wakes.
//!
//! Granted requests stand before waiting ones. A transaction has at most one granted and one waiting request here; both
//! only while it holds the lock shared and wants it exclusive. Such an upgrade waits before the others: behind them it
//! would block itself, because they wait for it.

use super::mode::Mode;
use super::owner::Owner;
use base::TxnId;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Request {
    pub(super) owner: Arc<Owner>,
    pub(super) mode: Mode,
    pub(super) granted: bool,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    requests: Vec<Request>,
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

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether `txn` has the lock, however weak.
    pub(super) fn holds(&self, txn: TxnId) -> bool {
        self.granted_to(txn).is_some()
    }

    fn granted_to(&self, txn: TxnId) -> Option<usize> {
        self.requests.iter().position(|r| r.granted && r.owner.txn == txn)
    }

    /// Whether only `txn` has anything here.
    pub(super) fn only(&self, txn: TxnId) -> bool {
        self.requests.iter().all(|r| r.owner.txn == txn)
    }

    /// Whether nobody but `txn` has or wants anything exclusively.
    pub(super) fn readable(&self, txn: TxnId) -> bool {
        self.requests.iter().all(|r| r.owner.txn == txn || r.mode == Mode::Shared)
    }

    /// Where an upgrade goes: behind the granted requests and earlier upgrades, before everybody else.
    fn upgrade_place(&self) -> usize {
        let waits_normally = |r: &Request| !r.granted && self.granted_to(r.owner.txn).is_none();
        self.requests.iter().position(waits_normally).unwrap_or(self.requests.len())
    }

    /// Whether a request of `txn` standing at `place` conflicts with nothing before it.
    fn is_free(&self, txn: TxnId, mode: Mode, place: usize) -> bool {
        !self.requests[..place].iter().any(|r| r.owner.txn != txn && mode.conflicts(r.mode))
    }

    /// Adds a request and grants it if nothing is in its way.
    pub(super) fn place(&mut self, owner: &Arc<Owner>, mode: Mode, may_wait: bool) -> Placed {
        let own = self.granted_to(owner.txn);
        if own.is_some_and(|at| self.requests[at].mode.covers(mode)) {
            return Placed::Held;
        }
        let place = if own.is_some() { self.upgrade_place() } else { self.requests.len() };
        if self.is_free(owner.txn, mode, place) {
            return match own {
                Some(at) => {
                    self.requests[at].mode = mode;
                    Placed::Upgraded
                }
                None => {
                    self.insert_granted(owner, mode);
                    Placed::Granted
                }
            };
        }
        if !may_wait {
            return Placed::Refused;
        }
        self.requests.insert(place, Request { owner: Arc::clone(owner), mode, granted: false });
        Placed::Waiting
    }

    /// Enters the lock that an uncommitted version of `owner` already is.
    pub(super) fn materialise(&mut self, owner: &Arc<Owner>) {
        match self.granted_to(owner.txn) {
            Some(at) => self.requests[at].mode = Mode::Exclusive,
            None => self.insert_granted(owner, Mode::Exclusive),
        }
    }

    fn insert_granted(&mut self, owner: &Arc<Owner>, mode: Mode) {
        let at = self.requests.iter().position(|r| !r.granted).unwrap_or(self.requests.len());
        self.requests.insert(at, Request { owner: Arc::clone(owner), mode, granted: true });
    }

    /// Takes out `txn`'s waiting request. False if it has none.
    pub(super) fn withdraw(&mut self, txn: TxnId) -> bool {
        let at = self.requests.iter().position(|r| !r.granted && r.owner.txn == txn);
        at.map(|at| self.requests.remove(at)).is_some()
    }

    /// Takes out `txn`'s lock. False if it has none.
    pub(super) fn release(&mut self, txn: TxnId) -> bool {
        let at = self.granted_to(txn);
        at.map(|at| self.requests.remove(at)).is_some()
    }

    /// Grants what nothing stands in the way of any more, in order of arrival. Yields the owner and whether the grant
    /// made its own earlier entry stronger, instead of adding one.
    pub(super) fn grant(&mut self, mut granted: impl FnMut(&Arc<Owner>, bool)) {
        let mut at = 0;
        while at < self.requests.len() {
            let r = &self.requests[at];
            if r.granted || !self.is_free(r.owner.txn, r.mode, at) {
                at += 1;
                continue;
            }
            let r = self.requests.remove(at);
            let upgraded = self.granted_to(r.owner.txn);
            match upgraded {
                Some(own) => self.requests[own].mode = r.mode,
                None => self.insert_granted(&r.owner, r.mode),
            }
            granted(&r.owner, upgraded.is_some());
            // One entry has left this place or moved before it: the next one to look at stands at `at` or behind it.
            at = if upgraded.is_some() { at } else { at + 1 };
        }
    }

    /// For whom `txn`'s waiting request waits, in order of the queue.
    pub(super) fn blockers(&self, txn: TxnId) -> Vec<Arc<Owner>> {
        let Some(place) = self.requests.iter().position(|r| !r.granted && r.owner.txn == txn) else {
            return Vec::new();
        };
        let mode = self.requests[place].mode;
        let mut found: Vec<Arc<Owner>> = Vec::new();
        for r in &self.requests[..place] {
            if r.owner.txn != txn && mode.conflicts(r.mode) && !found.iter().any(|o| o.txn == r.owner.txn) {
                found.push(Arc::clone(&r.owner));
            }
        }
        found
    }

    /// Every waiting owner, in order.
    pub(super) fn waiting(&self) -> Vec<Arc<Owner>> {
        self.requests.iter().filter(|r| !r.granted).map(|r| Arc::clone(&r.owner)).collect()
    }

    /// The queue's own rules, looked through in debug builds. Our bug if they do not hold.
    pub(super) fn verify(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let first_waiting = self.requests.iter().position(|r| !r.granted).unwrap_or(self.requests.len());
        for (i, a) in self.requests.iter().enumerate() {
            base::verify!(
                a.granted == (i < first_waiting),
                "granted requests stand first: {:?}",
                self.requests
            );
            for b in &self.requests[..i] {
                let both = a.granted && b.granted && a.owner.txn != b.owner.txn;
                base::verify!(
                    !both || !a.mode.conflicts(b.mode),
                    "two hold what excludes: {:?}",
                    self.requests
                );
                base::verify!(
                    a.owner.txn != b.owner.txn || a.granted != b.granted,
                    "twice: {:?}",
                    self.requests
                );
            }
        }
    }

    #[cfg(test)]
    pub(super) fn describe(&self) -> String {
        let one = |r: &Request| {
            let mode = if r.mode == Mode::Exclusive { "X" } else { "S" };
            format!("T{}:{mode}{}", r.owner.txn, if r.granted { "" } else { "?" })
        };
        self.requests.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}
