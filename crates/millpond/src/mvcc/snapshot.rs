//! Snapshots (read views), and the horizon: the oldest snapshot that is held.
//!
//! A snapshot is the log's reservation point. A thread that draws one takes a *slot*, which the
//! horizon looks at, and then reads the reservation point *again*. The horizon reads the
//! reservation point first and looks at the slots after that. So if the horizon missed the slot,
//! the snapshot's reading comes after the horizon's, and the snapshot lies at or above the horizon.
//! If it did not miss the slot, the value in the slot lies at or below the snapshot. So no
//! snapshot ever lies below the horizon. All of these steps are sequentially consistent. At last
//! the second reading replaces the first in the slot, so that [`Snapshots::cuts`] returns where
//! the snapshots are.
//!
//! A snapshot below the *expired* bound is too old: the horizon does not wait for it, and purge
//! goes on. A reader checks the bound *after* it has read: the bound is moved before anything goes
//! that the snapshot needs.
//!
//! Each thread has slots of its own, a cache line of them. A thread that finds them all taken
//! enters a map behind a mutex, the *overflow*. It also moves the oldest snapshot of its slots
//! there. So the slots are for snapshots that come and go, however many others are held for long.
//! Snapshots of one LSN are all alike. So a holder is not told that its own was moved: when it
//! ends, either its slot holds a snapshot of its LSN, or its own is in the overflow.

use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use base::{CachePadded, Lsn, StripedArc};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Slots of one stripe.
const SLOTS: usize = if cfg!(loom) { 1 } else { 8 };
/// The value of a free slot.
const FREE: u64 = u64::MAX;
/// Set together with the first reading: the snapshot lies at or above that reading, and is not
/// known yet.
const DRAWING: u64 = 1 << 63;

/// The slots of one thread, or of a few threads.
#[derive(Debug)]
struct Slots {
    slots: [AtomicU64; SLOTS],
    overflow: Arc<Overflow>,
}

/// The number of snapshots at each LSN.
type Counts = BTreeMap<Lsn, usize>;

/// The snapshots that have no slot.
type Overflow = Mutex<Counts>;

/// The live snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    stripes: StripedArc<Slots>,
    overflow: Arc<Overflow>,
    /// Snapshots below it have expired.
    expired_below: AtomicU64,
}

/// A position in commit order: sees every commit below its LSN. Versions that it needs are kept
/// until it is dropped.
#[derive(Debug)]
pub(crate) struct Snapshot {
    lsn: Lsn,
    stripe: Arc<CachePadded<Slots>>,
    /// The slot that it was drawn with. It is there unless it was moved.
    at: Option<usize>,
}

impl Default for Snapshots {
    fn default() -> Self {
        let overflow = Arc::<Overflow>::default();
        let slots = || std::array::from_fn(|_| AtomicU64::new(FREE));
        let stripes = StripedArc::new(|| Slots { slots: slots(), overflow: Arc::clone(&overflow) });
        Snapshots { stripes, expired_below: AtomicU64::new(0), overflow }
    }
}

impl Snapshots {
    /// Draws a snapshot. `reserved` reads the log's reservation point and must not wait.
    pub(crate) fn draw(&self, reserved: impl Fn() -> Lsn) -> Snapshot {
        let stripe = self.stripes.own();
        let free = stripe.slots.iter().position(|slot| slot.load(Ordering::Relaxed) == FREE);
        if let Some(at) = free
            && let taken = DRAWING | reserved().0
            && stripe.slots[at].compare_exchange(FREE, taken, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        {
            let lsn = reserved();
            base::verify!(DRAWING | lsn.0 >= taken && lsn.0 < DRAWING, "the log's end went back to {lsn}");
            stripe.slots[at].store(lsn.0, Ordering::Release);
            return Snapshot { lsn, stripe: Arc::clone(stripe), at: Some(at) };
        }
        let mut overflow = self.overflow.lock();
        stripe.make_way(&mut overflow);
        let lsn = reserved();
        count(&mut overflow, lsn);
        Snapshot { lsn, stripe: Arc::clone(stripe), at: None }
    }

    /// Returns the values of the slots that are taken.
    fn slots(&self) -> impl Iterator<Item = u64> {
        let slots = self.stripes.iter().flat_map(|stripe| &stripe.slots);
        slots.map(|slot| slot.load(Ordering::SeqCst)).filter(|&lsn| lsn != FREE)
    }

    /// Returns the horizon: every snapshot that has not expired sees the commits below it, those
    /// held now and those drawn later.
    pub(crate) fn horizon(&self, reserved: impl FnOnce() -> Lsn) -> Lsn {
        let now = reserved();
        let expired_below = self.expired_below.load(Ordering::SeqCst);
        // Of a snapshot that is being drawn it is not known whether it is below the bound.
        let counts = self.slots().filter(|&slot| slot >= expired_below);
        let oldest = counts.fold(now, |oldest, slot| oldest.min(Lsn(slot & !DRAWING)));
        let horizon = self
            .overflow
            .lock()
            .range(Lsn(expired_below)..)
            .next()
            .map_or(oldest, |(&lsn, _)| oldest.min(lsn));
        base::verify!(horizon <= now, "snapshots are seen from {horizon}, beyond the log's end {now}");
        horizon
    }

    /// Returns the snapshots that are held, ascending, and an LSN at or above which snapshots may
    /// be that are being drawn. All that are drawn later lie at or above what `reserved` reads.
    pub(crate) fn cuts(&self, reserved: impl FnOnce() -> Lsn) -> (Vec<Lsn>, Lsn) {
        let mut below = reserved();
        let mut cuts = Vec::new();
        // The overflow is read after the slots. So a snapshot that is moved meanwhile is counted
        // twice and not missed.
        for slot in self.slots() {
            match slot & DRAWING {
                0 => cuts.push(Lsn(slot)),
                _ => below = below.min(Lsn(slot & !DRAWING)),
            }
        }
        cuts.extend(self.overflow.lock().keys());
        cuts.sort_unstable();
        cuts.dedup();
        (cuts, below)
    }

    /// Lets the oldest unexpired snapshot expire, if it does not see the commit at `kept`. Returns
    /// whether one expired. A snapshot that sees that commit holds back no version of it. The
    /// commit lies below the log's end, so no snapshot that is drawn later expires with it.
    pub(crate) fn expire_oldest(&self, kept: Lsn) -> bool {
        let expired_below = self.expired_below.load(Ordering::SeqCst);
        let (cuts, below) = self.cuts(|| Lsn::MAX);
        let oldest = cuts.into_iter().find(|lsn| lsn.0 >= expired_below);
        match oldest.filter(|lsn| *lsn < below && *lsn <= kept) {
            Some(oldest) => {
                self.expired_below.fetch_max(oldest.0 + 1, Ordering::SeqCst);
                true
            }
            None => false,
        }
    }

    /// Lets all snapshots expire that are held. REQUIRES: none is drawn any more, and `reserved` is
    /// the log's reservation point.
    pub(crate) fn expire_all(&self, reserved: Lsn) {
        self.expired_below.fetch_max(reserved.0 + 1, Ordering::SeqCst);
    }

    /// Returns whether a snapshot at `lsn` has expired. Called after what it shows has been read.
    #[inline]
    pub(crate) fn is_expired(&self, lsn: Lsn) -> bool {
        lsn.0 < self.expired_below.load(Ordering::SeqCst)
    }

    /// Returns how many snapshots are held. One that is being moved may count twice.
    pub(crate) fn len(&self) -> usize {
        self.slots().count() + self.overflow.lock().values().sum::<usize>()
    }

    /// Returns how many of them have no slot.
    #[cfg(test)]
    fn overflowed(&self) -> usize {
        self.overflow.lock().values().sum::<usize>()
    }
}

fn count(overflow: &mut Counts, lsn: Lsn) {
    *overflow.entry(lsn).or_insert(0) += 1;
}

fn uncount(overflow: &mut Counts, lsn: Lsn) {
    let count = overflow.get_mut(&lsn).expect("a snapshot without a slot is in the overflow");
    *count -= 1;
    if *count == 0 {
        overflow.remove(&lsn);
    }
}

impl Slots {
    /// Moves the oldest snapshot that has a slot here to the overflow. It enters the overflow
    /// before its slot is free. So a thread that looks at the slots first does not miss it.
    fn make_way(&self, overflow: &mut Counts) {
        let held = self.slots.iter().map(|slot| (slot.load(Ordering::Relaxed), slot));
        let oldest = held.filter(|(lsn, _)| lsn & DRAWING == 0).min_by_key(|(lsn, _)| *lsn);
        let Some((lsn, slot)) = oldest else { return };
        count(overflow, Lsn(lsn));
        if slot.compare_exchange(lsn, FREE, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            // The snapshot has ended.
            uncount(overflow, Lsn(lsn));
        }
    }
}

impl Snapshot {
    /// Returns the snapshot LSN: commits below it are seen.
    pub(crate) fn lsn(&self) -> Lsn {
        self.lsn
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // The slot may hold another snapshot of the same LSN. Then ours is in the overflow, and
        // counts for that one.
        let left = self.at.is_some_and(|at| {
            self.stripe.slots[at]
                .compare_exchange(self.lsn.0, FREE, Ordering::Release, Ordering::Relaxed)
                .is_ok()
        });
        if !left {
            uncount(&mut self.stripe.overflow.lock(), self.lsn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::sync::spawn;

    #[test]
    fn the_oldest_snapshot_holds_the_horizon() {
        let all = Snapshots::default();
        assert_eq!(all.horizon(|| Lsn(5)), Lsn(5));
        let a = all.draw(|| Lsn(10));
        let b = all.draw(|| Lsn(10));
        let c = all.draw(|| Lsn(20));
        assert_eq!((all.horizon(|| Lsn(30)), all.len()), (Lsn(10), 3));
        drop(a);
        assert_eq!(all.horizon(|| Lsn(30)), Lsn(10));
        drop(b);
        assert_eq!(all.horizon(|| Lsn(30)), Lsn(20));
        drop(c);
        assert_eq!((all.horizon(|| Lsn(30)), all.len()), (Lsn(30), 0));
    }

    #[test]
    fn one_thread_may_hold_more_than_it_has_slots() {
        let all = Snapshots::default();
        let mut held: Vec<_> = (0..100).map(|lsn| all.draw(|| Lsn(10 + lsn / 2))).collect();
        assert_eq!((all.horizon(|| Lsn(500)), all.len()), (Lsn(10), 100));
        for gone in 1..100 {
            held.remove(0);
            assert_eq!((all.horizon(|| Lsn(500)), all.len()), (Lsn(10 + gone / 2), 100 - gone as usize));
        }
    }

    /// Snapshots that are held for long leave the slots to those that come and go. A moved
    /// snapshot counts once.
    #[test]
    fn thousands_of_held_snapshots_leave_the_places_to_others() {
        let all = Snapshots::default();
        let held: Vec<_> = (0..5000).map(|lsn| all.draw(|| Lsn(10 + lsn))).collect();
        // The first of these find no slot and make some.
        for _ in 0..2 {
            drop((all.draw(|| Lsn(9000)), all.draw(|| Lsn(9000))));
        }
        let overflowed = all.overflowed();
        for lsn in 9001..9100 {
            let (a, b) = (all.draw(|| Lsn(lsn)), all.draw(|| Lsn(lsn)));
            assert_eq!(all.overflowed(), overflowed, "the overflow is for those that stay");
            assert_eq!((all.horizon(|| Lsn(9500)), all.len()), (Lsn(10), 5002));
            drop((a, b));
        }
        assert_eq!(all.cuts(|| Lsn(9500)).0, (10..5010).map(Lsn).collect::<Vec<_>>());
        drop(held);
        assert_eq!((all.horizon(|| Lsn(9500)), all.len()), (Lsn(9500), 0));
    }

    /// Snapshots of one LSN replace each other in every order.
    #[test]
    fn snapshots_of_one_lsn_may_replace_each_other() {
        let mut rng = base::prng::Prng::new(3);
        let all = Snapshots::default();
        let mut held = Vec::new();
        for _ in 0..20_000 {
            if held.len() < 40 && rng.below(2) == 0 {
                let lsn = Lsn(10 + rng.below(3));
                held.push(all.draw(|| lsn));
            } else if !held.is_empty() {
                held.swap_remove(rng.below(held.len() as u64) as usize);
            }
            let least = held.iter().map(Snapshot::lsn).min().unwrap_or(Lsn(50));
            assert_eq!((all.horizon(|| Lsn(50)), all.len()), (least, held.len()));
        }
    }

    #[test]
    fn when_all_have_expired_none_holds_the_horizon() {
        let all = Snapshots::default();
        let held: Vec<_> = (0..100).map(|lsn| all.draw(|| Lsn(10 + lsn / 2))).collect();
        all.expire_all(Lsn(59));
        assert_eq!(all.horizon(|| Lsn(70)), Lsn(70));
        assert!(held.iter().all(|snapshot| all.is_expired(snapshot.lsn())));
    }

    #[test]
    fn an_expired_snapshot_does_not_hold_the_horizon() {
        let all = Snapshots::default();
        assert!(!all.expire_oldest(Lsn(9)));
        let (old, new) = (all.draw(|| Lsn(10)), all.draw(|| Lsn(20)));
        assert!(!all.expire_oldest(Lsn(9)) && all.expire_oldest(Lsn(25)));
        assert!(all.is_expired(old.lsn()) && !all.is_expired(new.lsn()));
        assert_eq!((all.horizon(|| Lsn(30)), all.len()), (Lsn(20), 2));
        let many: Vec<_> = (0..20).map(|_| all.draw(|| Lsn(30))).collect();
        assert!(all.expire_oldest(Lsn(25)) && all.is_expired(new.lsn()));
        assert_eq!(all.horizon(|| Lsn(40)), Lsn(30));
        assert!(all.expire_oldest(Lsn(35)) && all.is_expired(many[19].lsn()));
        assert_eq!((all.horizon(|| Lsn(40)), all.expire_oldest(Lsn(35))), (Lsn(40), false));
    }

    /// The snapshot that held back purge ends. Another one is drawn at the end of a log in which
    /// nothing happens. If that one expired, every snapshot drawn after it would expire too, until
    /// somebody writes.
    #[test]
    fn a_snapshot_that_needs_no_version_does_not_expire() {
        let all = Snapshots::default();
        let (commit, end) = (Lsn(15), || Lsn(20));
        let old = all.draw(|| Lsn(10));
        assert_eq!(all.horizon(end), Lsn(10), "the commit waits");
        drop(old);
        let young = all.draw(end);
        assert!(!all.expire_oldest(commit));
        assert!(!all.is_expired(young.lsn()) && !all.is_expired(all.draw(end).lsn()));
    }

    /// While a snapshot is drawn its slot holds an LSN that is not its own.
    #[test]
    fn cuts_tell_of_a_snapshot_that_is_being_drawn() {
        let all = Snapshots::default();
        let readings = AtomicU64::new(0);
        let drawn = all.draw(|| {
            if readings.fetch_add(1, Ordering::SeqCst) == 1 {
                assert_eq!(all.cuts(|| Lsn(50)), (vec![], Lsn(10)));
                return Lsn(20);
            }
            Lsn(10)
        });
        assert_eq!((drawn.lsn(), all.cuts(|| Lsn(50))), (Lsn(20), (vec![Lsn(20)], Lsn(50))));
    }

    /// The slot is taken after a first reading, which may be old by then. If that were the
    /// snapshot, a horizon in between would have passed it.
    #[test]
    fn a_reading_from_before_the_slot_was_taken_is_not_the_snapshot() {
        let all = Snapshots::default();
        let reserved = AtomicU64::new(10);
        let drawn = all.draw(|| {
            // Between this reading and the taking of the slot other threads reserve, and the
            // horizon moves.
            let reading = reserved.swap(20, Ordering::SeqCst);
            if reading == 10 {
                assert_eq!(all.horizon(|| Lsn(20)), Lsn(20));
            }
            Lsn(reading)
        });
        assert_eq!(drawn.lsn(), Lsn(20));
        assert!(all.horizon(|| Lsn(30)) <= Lsn(20));
    }

    #[test]
    fn no_horizon_passes_a_live_snapshot() {
        const ROUNDS: u64 = 20_000;
        let all = Arc::new((Snapshots::default(), AtomicU64::new(1), AtomicU64::new(0)));
        let threads: Vec<_> = (0..3)
            .map(|n| {
                let all = Arc::clone(&all);
                spawn("snapshots", move || {
                    let (snapshots, reserved, top) = &*all;
                    for round in 0..ROUNDS {
                        if n == 0 {
                            reserved.fetch_add(1, Ordering::SeqCst);
                            let horizon = snapshots.horizon(|| Lsn(reserved.load(Ordering::SeqCst)));
                            top.fetch_max(horizon.0, Ordering::SeqCst);
                            continue;
                        }
                        let snapshot = snapshots.draw(|| Lsn(reserved.load(Ordering::SeqCst)));
                        for _ in 0..round % 8 {
                            let top = top.load(Ordering::SeqCst);
                            assert!(top <= snapshot.lsn().0, "{:?} below the horizon {top}", snapshot.lsn());
                        }
                    }
                })
                .unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(all.0.len(), 0);
    }
}
