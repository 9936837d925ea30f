//! The ranges of one tree, the requests that wait for them, and the scans that let these requests
//! go first. The mutex of [`super::ranges`] guards it. Pure but for the wake-ups.

use super::covered::{Covered, RangeMode, Want};
use super::key::LockKey;
use super::key_range::KeyRange;
use super::owner::WakeList;
use super::queue::Owners;
use super::range::heap_bytes;
use super::{Owner, wait_state};
use base::TxnId;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

/// When a scan began, in the order of arrival of pending requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ScanStart {
    /// It has not begun.
    #[default]
    NotStarted,
    /// It lets the requests pass that had arrived by then.
    At(u64),
    /// It lets no request pass: it does not wait, or has waited as long as it may.
    NoYield,
}

/// The state of a pending request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingState {
    /// This transaction's range is in its way; others may be too.
    BlockedBy(TxnId),
    /// No range is in its way.
    Granted,
    /// The transaction has the row; its version, lock or range protects the key.
    Taken,
}

/// A request that had to wait for ranges.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) owner: Arc<Owner>,
    /// Its number among all arrivals.
    pub(super) arrival: u64,
    pub(super) want: Want,
    pub(super) stands: PendingState,
}

impl Pending {
    /// Returns whether a scan of `txn` that locks ranges of this mode must let it pass.
    fn stops(&self, txn: TxnId, since: ScanStart, mode: RangeMode) -> bool {
        let first = match since {
            ScanStart::At(arrivals) => match self.stands {
                PendingState::BlockedBy(_) => self.arrival <= arrivals,
                PendingState::Granted => true,
                PendingState::Taken => false,
            },
            ScanStart::NotStarted | ScanStart::NoYield => false,
        };
        first && self.owner.txn != txn && self.want.blocked_by(mode)
    }
}

/// A scan that lets requests pass, until their transactions have ended or wait no more.
#[derive(Debug)]
pub(super) struct WaitingScan {
    pub(super) owner: Arc<Owner>,
    /// The transactions that it waits for, by arrival of their requests.
    pub(super) first: SmallVec<[(u64, Arc<Owner>); 2]>,
}

#[derive(Debug, Default)]
pub(super) struct TreeRanges {
    /// By transaction id, so that the order of wake-ups can be repeated.
    pub(super) holders: BTreeMap<TxnId, (Arc<Owner>, Covered)>,
    /// By key; those of one key in order of arrival.
    pub(super) pending: BTreeMap<Vec<u8>, Vec<Pending>>,
    /// In order of arrival.
    pub(super) scans: Vec<WaitingScan>,
}

/// Memory that a pending request takes, in bytes.
pub(super) fn pending_bytes(key: &[u8]) -> usize {
    size_of::<Pending>() + size_of::<Vec<u8>>() + heap_bytes(key.len())
}

impl TreeRanges {
    /// Transactions other than `txn` whose ranges keep `want` waiting.
    pub(super) fn blocking(&self, txn: TxnId, key: &[u8], want: Want) -> impl Iterator<Item = &Arc<Owner>> {
        let blocks =
            move |(owner, covered): &&(Arc<Owner>, Covered)| owner.txn != txn && covered.blocks(key, want);
        self.holders.values().filter(blocks).map(|(owner, _)| owner)
    }

    /// The pending requests in `range` that a scan must let pass, in order of their keys. REQUIRES:
    /// `range` is not empty.
    pub(super) fn stopping(
        &self,
        txn: TxnId,
        since: ScanStart,
        range: KeyRange<'_>,
        mode: RangeMode,
    ) -> impl DoubleEndedIterator<Item = (&Vec<u8>, &Pending)> {
        let own = self.holders.get(&txn).map(|(_, covered)| covered);
        let end = range.to.map_or(Unbounded, Excluded);
        self.pending
            .range::<[u8], _>((Included(range.from), end))
            .filter(move |(key, _)| own.is_none_or(|covered| !covered.covers(key)))
            .flat_map(|(key, pending)| pending.iter().map(move |request| (key, request)))
            .filter(move |(_, request)| request.stops(txn, since, mode))
    }

    pub(super) fn pending_of(&mut self, txn: TxnId, key: &[u8]) -> Option<&mut Pending> {
        self.pending.get_mut(key)?.iter_mut().find(|request| request.owner.txn == txn)
    }

    /// Marks the pending requests of `txn` in `range` as taken.
    pub(super) fn take_in(&mut self, txn: TxnId, range: KeyRange<'_>) {
        let end = range.to.map_or(Unbounded, Excluded);
        let pending = self.pending.range_mut::<[u8], _>((Included(range.from), end));
        for request in pending.flat_map(|(_, requests)| requests).filter(|r| r.owner.txn == txn) {
            request.stands = PendingState::Taken;
        }
    }

    /// The transactions that wait in `range`, and the range of `txn` is in their way.
    pub(super) fn waiting_in(&self, txn: TxnId, range: KeyRange<'_>) -> impl Iterator<Item = &Arc<Owner>> {
        let own = self.holders.get(&txn).map(|(_, covered)| covered);
        let end = range.to.map_or(Unbounded, Excluded);
        self.pending
            .range::<[u8], _>((Included(range.from), end))
            .flat_map(|(key, pending)| pending.iter().map(move |request| (key, request)))
            .filter(move |(key, request)| {
                let waits = matches!(request.stands, PendingState::BlockedBy(_));
                waits && request.owner.txn != txn && own.is_some_and(|own| own.blocks(key, request.want))
            })
            .map(|(_, request)| &request.owner)
    }

    /// Removes a pending request, and wakes the scans that waited for no other. Returns the bytes
    /// freed; none if there is none.
    pub(super) fn remove_pending(&mut self, txn: TxnId, key: &[u8], woken: &mut WakeList) -> Option<usize> {
        let pending = self.pending.get_mut(key)?;
        let gone = pending.remove(pending.iter().position(|request| request.owner.txn == txn)?);
        if pending.is_empty() {
            self.pending.remove(key);
        }
        self.scans.retain_mut(|scan| {
            scan.first.retain(|(arrival, _)| *arrival != gone.arrival);
            if scan.first.is_empty() {
                woken.end_wait(&scan.owner, wait_state::GRANTED);
            }
            !scan.first.is_empty()
        });
        Some(pending_bytes(key))
    }

    /// Returns the transactions for which `owner` waits at `key`, if it still waits.
    pub(super) fn blockers(&mut self, owner: &Owner, key: &LockKey) -> Owners {
        if key.is_scan_wait() {
            let scan = self.scans.iter().find(|scan| scan.owner.txn == owner.txn);
            let first = scan.into_iter().flat_map(|scan| &scan.first);
            return first.map(|(_, first)| Arc::clone(first)).collect();
        }
        let row = key.bytes_of_row();
        match self.pending_of(owner.txn, row) {
            Some(Pending { stands: PendingState::BlockedBy(_), want, .. }) => {
                let want = *want;
                self.blocking(owner.txn, row, want).cloned().collect()
            }
            _ => Owners::default(),
        }
    }

    /// Grants the pending requests that no range blocks any more, after ranges of `txn` became
    /// smaller or were removed.
    pub(super) fn uncover(&mut self, txn: TxnId, woken: &mut WakeList) {
        let holders = &self.holders;
        for (key, pending) in &mut self.pending {
            for request in pending.iter_mut().filter(|r| r.stands == PendingState::BlockedBy(txn)) {
                let blocks = |(owner, covered): &&(Arc<Owner>, Covered)| {
                    owner.txn != request.owner.txn && covered.blocks(key, request.want)
                };
                let own = holders.get(&txn).filter(blocks);
                if let Some((other, _)) = own.or_else(|| holders.values().find(blocks)) {
                    request.stands = PendingState::BlockedBy(other.txn);
                } else {
                    request.stands = PendingState::Granted;
                    woken.end_wait(&request.owner, wait_state::GRANTED);
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.pending.is_empty()
    }
}
