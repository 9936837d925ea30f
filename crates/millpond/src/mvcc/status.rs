//! The status of every transaction that matters: one slot each, read without a lock.
//!
//! Ids are dense, so the youngest [`RING`] ids share a ring of slots. An id that leaves the ring
//! *moves* to an ordered map, unless it is **settled**: committed, visible to all snapshots, and
//! purged. An id in neither place is settled, and that is nearly every id a page names: lookup then
//! costs a comparison.
//!
//! ```text
//!            begin              commit              commit LSN               purged
//!  (no slot) ─────▶ Active ───────────▶ Committing ───────────▶ Committed(lsn) ─────▶ (settled)
//!                    │                     ▲
//!            prepare │                     │ commit_prepared
//!                    ├──────────▶ Prepared ┴──────▶ Aborted ─────────────────────────▶ (settled)
//!                    └──────────────────────────────▲ rollback
//! ```
//! **Moving** happens under the mutex of the map's shard: the map is told first, then the slot says
//! `MOVED`. A reader that finds `MOVED`, or an id below the ring, asks the map. A slot is used
//! again only after the ring's lower end has passed its id, and a reader looks at that end once
//! more after reading the slot.

use base::sharded::shards;
use base::sync::atomic::{AtomicU64, Ordering};
use base::sync::{Mutex, point, spin};
use base::{Lsn, Sharded, TxnId};
use std::collections::BTreeMap;

/// The state of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TxnState {
    /// Neither ended nor prepared.
    Active,
    /// Between the decision to commit and the reservation of the commit LSN.
    Committing,
    /// Committed; snapshots above the LSN see it.
    Committed(Lsn),
    /// It will never commit; some of its versions may still be in pages.
    Aborted,
    /// Its outside coordinator decides how it ends.
    Prepared,
    /// Committed so long ago that all see it, or aborted with no version left. Or the table has
    /// left it to a history batch, which is asked next.
    Settled,
}

/// Slots of the ring. There are several times as many as transactions that a held snapshot leaves
/// in memory (`pace::history`). So the others move from the ring to history batches and cost no
/// entry of a map.
const RING: usize = if cfg!(loom) { 4 } else { 1 << 16 };

/// About how much memory an id takes that has left the ring, bytes.
const MOVED_BYTES: u64 = 24;

/// If it is set, the rest of the word is a commit LSN; else the word holds a kind and an id.
const COMMITTED: u64 = 1 << 63;
const KIND: u64 = 0xf << 60;
const ACTIVE: u64 = 1 << 60;
const COMMITTING: u64 = 2 << 60;
const ABORTED: u64 = 4 << 60;
const PREPARED: u64 = 5 << 60;
const SETTLED: u64 = 6 << 60;
const MOVED: u64 = 7 << 60;

/// Returns the content of a slot. It belongs to one id in every state, because the rest of the word
/// holds the id or the commit LSN, which no two transactions share. So a compare-exchange cannot
/// hit a younger id that has got the slot.
fn word(id: u64, state: TxnState) -> u64 {
    match state {
        TxnState::Active => ACTIVE | id,
        TxnState::Committing => COMMITTING | id,
        TxnState::Committed(lsn) => {
            base::check!(lsn.0 & COMMITTED == 0, "{lsn:?} does not fit a status slot");
            COMMITTED | lsn.0
        }
        TxnState::Aborted => ABORTED | id,
        TxnState::Prepared => PREPARED | id,
        TxnState::Settled => SETTLED | id,
    }
}

fn state(word: u64) -> TxnState {
    if word & COMMITTED != 0 {
        return TxnState::Committed(Lsn(word & !COMMITTED));
    }
    match word & KIND {
        ACTIVE => TxnState::Active,
        COMMITTING => TxnState::Committing,
        ABORTED => TxnState::Aborted,
        PREPARED => TxnState::Prepared,
        SETTLED => TxnState::Settled,
        _ => unreachable!("a status slot holds {word:x}"),
    }
}

/// Returns whether the state machine above has this step.
fn may_follow(from: TxnState, to: TxnState) -> bool {
    use TxnState::{Aborted, Active, Committed, Committing, Prepared, Settled};
    matches!(
        (from, to),
        (Active, Committing | Prepared | Aborted)
            | (Prepared, Committing | Aborted)
            | (Committing, Committed(_))
            | (Committed(_) | Aborted | Settled, Settled)
    )
}

/// One shard of the map of ids that have left the ring.
#[derive(Debug)]
struct Shard {
    /// The least id in the map; `u64::MAX` if it is empty. Lower ids need no look.
    least: AtomicU64,
    map: Mutex<BTreeMap<u64, u64>>,
}

impl Default for Shard {
    fn default() -> Self {
        Shard { least: AtomicU64::new(u64::MAX), map: Mutex::default() }
    }
}

/// The table of transaction states. (PostgreSQL: the commit log, clog.)
#[derive(Debug)]
pub(crate) struct StatusTable {
    slots: Box<[AtomicU64]>,
    /// The least id in the ring.
    low: AtomicU64,
    /// The next id to be given out.
    next: AtomicU64,
    moved: Sharded<Shard, { shards(16) }>,
    /// Held by the one thread that makes room in the ring.
    making_room: Mutex<()>,
}

impl StatusTable {
    /// Makes a table whose first transaction gets the id `next`; `unfinished` are those that
    /// recovery found below it.
    pub(crate) fn new(next: TxnId, unfinished: impl IntoIterator<Item = (TxnId, TxnState)>) -> StatusTable {
        base::check!(next.0 > 0);
        let status = StatusTable {
            slots: (0..RING).map(|_| AtomicU64::new(MOVED)).collect(),
            low: AtomicU64::new(next.0),
            next: AtomicU64::new(next.0),
            moved: Sharded::default(),
            making_room: Mutex::new(()),
        };
        for (txn, state) in unfinished {
            base::check!(txn < next, "{txn} is not below the next id {next}");
            status.keep(txn.0, word(txn.0, state));
        }
        status
    }

    /// Returns the next id to be given out. A restart must begin at or above it.
    pub(crate) fn next(&self) -> TxnId {
        TxnId(self.next.load(Ordering::Acquire))
    }

    /// Returns about how much memory the ids take that have left the ring, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.moved.iter().map(|shard| shard.map.lock().len() as u64 * MOVED_BYTES).sum()
    }

    /// Returns the floor: every id below it is settled.
    #[cfg(test)]
    pub(super) fn floor(&self) -> TxnId {
        let low = self.low.load(Ordering::Acquire);
        let least = self.moved.iter().map(|s| s.least.load(Ordering::Acquire)).min().unwrap_or(u64::MAX);
        TxnId(low.min(least))
    }

    /// Begins a transaction: returns a new id, which is active.
    pub(crate) fn begin(&self) -> TxnId {
        let id = self.next.fetch_add(1, Ordering::AcqRel);
        let mut spins = 0;
        while id - self.low.load(Ordering::Acquire) >= RING as u64 {
            if !self.make_room(id) {
                spin(&mut spins);
            }
        }
        base::verify!(self.slot(id).load(Ordering::Relaxed) == MOVED, "{id} takes a slot that is in use");
        self.slot(id).store(word(id, TxnState::Active), Ordering::Release);
        TxnId(id)
    }

    /// Gives out ids from `next` on. REQUIRES: none was given out.
    #[cfg(test)]
    pub(crate) fn skip_to(&self, next: TxnId) {
        base::check!(self.low.swap(next.0, Ordering::AcqRel) == self.next.swap(next.0, Ordering::AcqRel));
    }

    /// Returns the state of a transaction. `TxnId::NONE` is settled.
    #[inline]
    pub(crate) fn state(&self, txn: TxnId) -> TxnState {
        let low = self.low.load(Ordering::Acquire);
        if txn.0 >= low {
            let word = self.slot(txn.0).load(Ordering::Acquire);
            point();
            // A younger id may have got the slot since then. In that case the ring's lower end
            // moved first.
            if word != MOVED && txn.0 >= self.low.load(Ordering::Acquire) {
                return state(word);
            }
        }
        self.moved_state(txn)
    }

    /// Returns the state of a transaction, once it is not `Committing`. REQUIRES: the caller is not
    /// that transaction.
    #[inline]
    #[cfg(test)]
    pub(crate) fn outcome(&self, txn: TxnId) -> TxnState {
        let mut spins = 0;
        loop {
            match self.state(txn) {
                TxnState::Committing => spin(&mut spins),
                state => return state,
            }
        }
    }

    /// Moves a transaction one step on. Only one thread at a time does this for one transaction.
    /// Settling a settled transaction does nothing.
    pub(crate) fn set(&self, txn: TxnId, to: TxnState) {
        let from = self.state(txn);
        base::check!(may_follow(from, to), "{txn} goes from {from:?} to {to:?}");
        if txn.0 >= self.low.load(Ordering::Acquire) {
            let (old, new) = (word(txn.0, from), word(txn.0, to));
            match self.slot(txn.0).compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                // The id is moving, or has moved.
                Err(now) => base::check!(now == MOVED || self.low.load(Ordering::Acquire) > txn.0),
            }
        }
        if to == TxnState::Settled { self.drop_moved(txn.0) } else { self.keep(txn.0, word(txn.0, to)) }
    }

    fn slot(&self, id: u64) -> &AtomicU64 {
        &self.slots[id as usize % RING]
    }

    fn shard(&self, id: u64) -> &Shard {
        self.moved.of(id)
    }

    #[cold]
    fn moved_state(&self, txn: TxnId) -> TxnState {
        let shard = self.shard(txn.0);
        if txn.0 < shard.least.load(Ordering::Acquire) {
            return TxnState::Settled;
        }
        shard.map.lock().get(&txn.0).map_or(TxnState::Settled, |&word| state(word))
    }

    fn keep(&self, id: u64, word: u64) {
        let shard = self.shard(id);
        let mut map = shard.map.lock();
        map.insert(id, word);
        shard.least.fetch_min(id, Ordering::AcqRel);
        base::verify!(map.keys().next().is_some_and(|least| *least >= shard.least.load(Ordering::Relaxed)));
    }

    fn drop_moved(&self, id: u64) {
        let shard = self.shard(id);
        let mut map = shard.map.lock();
        map.remove(&id);
        shard.least.store(map.keys().next().copied().unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Moves up to a quarter of the ring, the oldest ids, out of it, so that `id` finds room.
    /// Returns false if nothing could be moved because the oldest id has been given out but not
    /// entered yet. That is not waited for here: its thread may itself wait for the mutex.
    #[cold]
    fn make_room(&self, id: u64) -> bool {
        let _alone = self.making_room.lock();
        let low = self.low.load(Ordering::Acquire);
        if id - low < RING as u64 {
            return true;
        }
        let end = low + RING as u64 / 4;
        base::check!(low < id, "{id} was given out twice");
        let reached = (low..end).find(|&old| !self.move_out(old)).unwrap_or(end);
        self.low.store(reached, Ordering::Release);
        reached > low
    }

    /// Moves one id from its slot to the map. Returns false if it is not in its slot yet.
    fn move_out(&self, old: u64) -> bool {
        let (slot, shard) = (self.slot(old), self.shard(old));
        let mut map = shard.map.lock();
        loop {
            let now = slot.load(Ordering::Acquire);
            if now == MOVED {
                return false;
            }
            // The id enters the map before the slot says so. A thread that finds the slot moved
            // waits for the map's mutex.
            if now & KIND != SETTLED {
                map.insert(old, now);
                shard.least.fetch_min(old, Ordering::AcqRel);
            }
            if slot.compare_exchange(now, MOVED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return true;
            }
            // Its own thread has just moved it one step on.
            map.remove(&old);
            shard.least.store(map.keys().next().copied().unwrap_or(u64::MAX), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    fn commit(status: &StatusTable, txn: TxnId, lsn: u64) {
        status.set(txn, TxnState::Committing);
        status.set(txn, TxnState::Committed(Lsn(lsn)));
    }

    #[test]
    fn a_transaction_goes_from_active_to_settled() {
        let status =
            StatusTable::new(TxnId(5), [(TxnId(2), TxnState::Aborted), (TxnId(3), TxnState::Prepared)]);
        assert_eq!(status.state(TxnId::NONE), TxnState::Settled);
        assert_eq!(status.state(TxnId(1)), TxnState::Settled);
        assert_eq!((status.state(TxnId(2)), status.state(TxnId(3))), (TxnState::Aborted, TxnState::Prepared));
        assert_eq!((status.state(TxnId(4)), status.floor()), (TxnState::Settled, TxnId(2)));
        let txn = status.begin();
        assert_eq!((txn, status.state(txn)), (TxnId(5), TxnState::Active));
        status.set(txn, TxnState::Committing);
        assert_eq!(status.state(txn), TxnState::Committing);
        status.set(txn, TxnState::Committed(Lsn(77)));
        assert_eq!(status.outcome(txn), TxnState::Committed(Lsn(77)));
        status.set(txn, TxnState::Settled);
        status.set(TxnId(2), TxnState::Settled);
        assert_eq!((status.state(TxnId(2)), status.floor()), (TxnState::Settled, TxnId(3)));
        commit(&status, TxnId(3), 80);
        assert_eq!(status.state(TxnId(3)), TxnState::Committed(Lsn(80)));
    }

    #[test]
    #[should_panic(expected = "goes from Aborted to Committing")]
    fn an_aborted_transaction_stays_so() {
        let status = StatusTable::new(TxnId(1), []);
        let txn = status.begin();
        status.set(txn, TxnState::Aborted);
        status.set(txn, TxnState::Committing);
    }

    #[test]
    fn an_id_that_leaves_the_ring_is_kept_until_it_is_settled() {
        let status = StatusTable::new(TxnId(1), []);
        let (a, b, c) = (status.begin(), status.begin(), status.begin());
        commit(&status, b, 40);
        status.set(c, TxnState::Aborted);
        for _ in 0..3 * RING {
            let txn = status.begin();
            commit(&status, txn, 50);
            status.set(txn, TxnState::Settled);
        }
        assert_eq!(status.state(a), TxnState::Active);
        assert_eq!(status.state(b), TxnState::Committed(Lsn(40)));
        assert_eq!((status.state(c), status.floor()), (TxnState::Aborted, a));
        commit(&status, a, 60);
        assert_eq!(status.state(a), TxnState::Committed(Lsn(60)));
        for txn in [a, b, c] {
            status.set(txn, TxnState::Settled);
            assert_eq!(status.state(txn), TxnState::Settled);
        }
        assert!(status.floor() > TxnId(RING as u64));
    }

    /// Writers go round the ring while a reader checks that no state ever goes back.
    #[test]
    fn a_reader_never_sees_a_state_go_back() {
        let status = Arc::new(StatusTable::new(TxnId(1), []));
        let stop = Arc::new(AtomicBool::new(false));
        // For each writer: its ids up to this one are entered.
        let entered: Arc<[AtomicU64; 2]> = Arc::default();
        let writers: Vec<_> = (0..2)
            .map(|me| {
                let (status, entered) = (Arc::clone(&status), Arc::clone(&entered));
                let work = move || {
                    let mut open = std::collections::VecDeque::new();
                    for _ in 0..2 * RING {
                        let txn = status.begin();
                        entered[me].store(txn.0, Ordering::Release);
                        open.push_back(txn);
                        if open.len() > RING {
                            let txn = open.pop_front().unwrap();
                            commit(&status, txn, txn.0);
                            status.set(txn, TxnState::Settled);
                        }
                    }
                    entered[me].store(u64::MAX, Ordering::Release);
                };
                base::sync::spawn("writer", work).unwrap()
            })
            .collect();
        let reader = {
            let (status, stop) = (Arc::clone(&status), Arc::clone(&stop));
            base::sync::spawn("reader", move || {
                let rank = |s: TxnState| match s {
                    TxnState::Active => 0,
                    TxnState::Committing => 1,
                    TxnState::Committed(_) => 2,
                    _ => 3,
                };
                let mut prng = base::prng::Prng::new(1);
                while !stop.load(Ordering::Relaxed) {
                    let known = entered.iter().map(|e| e.load(Ordering::Acquire)).min().unwrap();
                    let known = known.min(status.next().0 - 1);
                    if known == 0 {
                        continue;
                    }
                    let txn = TxnId(1 + prng.below(known));
                    let (first, second) = (rank(status.state(txn)), rank(status.state(txn)));
                    assert!(first <= second, "{txn} went from {first} to {second}");
                }
            })
            .unwrap()
        };
        writers.into_iter().for_each(|w| w.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    }
}
