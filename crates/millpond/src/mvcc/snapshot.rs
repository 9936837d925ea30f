//! Snapshots, and the oldest one that somebody holds.
//!
//! A snapshot is the log's reservation point. Who draws one takes a *place* that the horizon looks at, and reads the
//! reservation point *again* with the place taken; the horizon reads the reservation point first and looks at the places
//! after. So if the horizon missed the place, the snapshot's reading comes after the horizon's and lies at or above it; if
//! it did not, what stands in the place lies at or below the snapshot. Nobody sees less than the horizon shows, now or
//! later. All of these steps are sequentially consistent. Then the second reading takes the first one's place, so that who
//! asks for the snapshots themselves ([`Snapshots::cuts`]) is told where they are.
//!
//! A snapshot below the *given-up* bound is too old: the horizon does not wait for it, and purge goes on. Whoever reads by a snapshot
//! looks at the bound *after* it has read: the bound was moved before anything went that the snapshot needs.
//!
//! Each thread has places of its own, a cache line of them. Who finds them all taken enters a map behind a mutex, the *overflow*, and moves
//! the oldest snapshot of its line there, too: so places are for those that come and go, however many others are held for long. Snapshots
//! of one LSN are all alike, so a holder need not be told that its own was moved: what it finds in its place when it ends is
//! one of its LSN, or its own is in the overflow.

use base::sync::Mutex;
use base::sync::atomic::{AtomicU64, Ordering};
use base::{CachePadded, Lsn, StripedArc};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Places of a stripe.
const PLACES: usize = if cfg!(loom) { 1 } else { 8 };
/// What stands in a place that nobody has.
const FREE: u64 = u64::MAX;
/// With the reading that a place was taken with: the snapshot lies at or above it, and is not known yet.
const DRAWING: u64 = 1 << 63;

/// Places of one thread, or of a few.
#[derive(Debug)]
struct Places {
    places: [AtomicU64; PLACES],
    overflow: Arc<Overflow>,
}

/// How many snapshots there are at each LSN.
type Counts = BTreeMap<Lsn, usize>;

/// The snapshots that have no place.
type Overflow = Mutex<Counts>;

/// The live snapshots.
#[derive(Debug)]
pub(crate) struct Snapshots {
    stripes: StripedArc<Places>,
    overflow: Arc<Overflow>,
    /// Snapshots below it are given up.
    expired_below: AtomicU64,
}

/// A moment in commit order; sees every commit below its LSN. Versions that it needs are kept until it is dropped.
#[derive(Debug)]
pub(crate) struct Snapshot {
    lsn: Lsn,
    stripe: Arc<CachePadded<Places>>,
    /// The place that it was drawn with, where it stands unless it was moved.
    at: Option<usize>,
}

impl Default for Snapshots {
    fn default() -> Self {
        let overflow = Arc::<Overflow>::default();
        let places = || std::array::from_fn(|_| AtomicU64::new(FREE));
        let stripes = StripedArc::new(|| Places { places: places(), overflow: Arc::clone(&overflow) });
        Snapshots { stripes, expired_below: AtomicU64::new(0), overflow }
    }
}

impl Snapshots {
    /// Draws a snapshot; `reserved` reads the log's reservation point and must not wait.
    pub(crate) fn draw(&self, reserved: impl Fn() -> Lsn) -> Snapshot {
        let stripe = self.stripes.own();
        let free = stripe.places.iter().position(|place| place.load(Ordering::Relaxed) == FREE);
        if let Some(at) = free
            && let taken = DRAWING | reserved().0
            && stripe.places[at].compare_exchange(FREE, taken, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        {
            let lsn = reserved();
            base::verify!(DRAWING | lsn.0 >= taken && lsn.0 < DRAWING, "the log's end went back to {lsn}");
            stripe.places[at].store(lsn.0, Ordering::Release);
            return Snapshot { lsn, stripe: Arc::clone(stripe), at: Some(at) };
        }
        let mut overflow = self.overflow.lock();
        stripe.make_way(&mut overflow);
        let lsn = reserved();
        count(&mut overflow, lsn);
        Snapshot { lsn, stripe: Arc::clone(stripe), at: None }
    }

    /// What stands in the places that are taken.
    fn places(&self) -> impl Iterator<Item = u64> {
        let places = self.stripes.iter().flat_map(|stripe| &stripe.places);
        places.map(|place| place.load(Ordering::SeqCst)).filter(|&lsn| lsn != FREE)
    }

    /// Commits below this LSN are seen by every snapshot that is not given up, those held now and those drawn later.
    pub(crate) fn horizon(&self, reserved: impl FnOnce() -> Lsn) -> Lsn {
        let now = reserved();
        let expired_below = self.expired_below.load(Ordering::SeqCst);
        // Of one that is being drawn it is not known whether it is below the bound.
        let counts = self.places().filter(|&place| place >= expired_below);
        let oldest = counts.fold(now, |oldest, place| oldest.min(Lsn(place & !DRAWING)));
        let horizon = self
            .overflow
            .lock()
            .range(Lsn(expired_below)..)
            .next()
            .map_or(oldest, |(&lsn, _)| oldest.min(lsn));
        base::verify!(horizon <= now, "snapshots are seen from {horizon}, beyond the log's end {now}");
        horizon
    }

    /// The snapshots that are held, ascending, and where one may be that is being drawn: at or above that LSN. All that are drawn
    /// later lie at or above what `reserved` reads.
    pub(crate) fn cuts(&self, reserved: impl FnOnce() -> Lsn) -> (Vec<Lsn>, Lsn) {
        let mut below = reserved();
        let mut cuts = Vec::new();
        // The overflow after the places: what is moved meanwhile is met twice and not missed.
        for place in self.places() {
            match place & DRAWING {
                0 => cuts.push(Lsn(place)),
                _ => below = below.min(Lsn(place & !DRAWING)),
            }
        }
        cuts.extend(self.overflow.lock().keys());
        cuts.sort_unstable();
        cuts.dedup();
        (cuts, below)
    }

    /// Gives up the oldest snapshot that is not given up yet, if it does not see the commit at `kept`. Whether it did. One that sees it
    /// holds nothing of it; and since that commit lies below the log's end, no snapshot that is drawn later is given up with it.
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

    /// Whether a snapshot at `lsn` has been given up. To be asked after what it was to show has been read.
    #[inline]
    pub(crate) fn is_expired(&self, lsn: Lsn) -> bool {
        lsn.0 < self.expired_below.load(Ordering::SeqCst)
    }

    /// How many snapshots are held; one that is being moved may count twice.
    pub(crate) fn len(&self) -> usize {
        self.places().count() + self.overflow.lock().values().sum::<usize>()
    }

    /// How many of them have no place.
    #[cfg(test)]
    fn overflowed(&self) -> usize {
        self.overflow.lock().values().sum::<usize>()
    }
}

fn count(overflow: &mut Counts, lsn: Lsn) {
    *overflow.entry(lsn).or_insert(0) += 1;
}

fn uncount(overflow: &mut Counts, lsn: Lsn) {
    let count = overflow.get_mut(&lsn).expect("a snapshot without a place is in the overflow");
    *count -= 1;
    if *count == 0 {
        overflow.remove(&lsn);
    }
}

impl Places {
    /// Moves the oldest snapshot that has a place here to the overflow. It is there before its place is free, so whoever looks at the places
    /// first does not miss it.
    fn make_way(&self, overflow: &mut Counts) {
        let held = self.places.iter().map(|place| (place.load(Ordering::Relaxed), place));
        let oldest = held.filter(|(lsn, _)| lsn & DRAWING == 0).min_by_key(|(lsn, _)| *lsn);
        let Some((lsn, place)) = oldest else { return };
        count(overflow, Lsn(lsn));
        if place.compare_exchange(lsn, FREE, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            // It has ended.
            uncount(overflow, Lsn(lsn));
        }
    }
}

impl Snapshot {
    /// Commits below it are seen.
    pub(crate) fn lsn(&self) -> Lsn {
        self.lsn
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // What stands in the place may be another's of the same LSN: then ours is in the overflow, and will do for that one.
        let left = self.at.is_some_and(|at| {
            self.stripe.places[at]
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
    fn one_thread_may_hold_more_than_it_has_places() {
        let all = Snapshots::default();
        let mut held: Vec<_> = (0..100).map(|lsn| all.draw(|| Lsn(10 + lsn / 2))).collect();
        assert_eq!((all.horizon(|| Lsn(500)), all.len()), (Lsn(10), 100));
        for gone in 1..100 {
            held.remove(0);
            assert_eq!((all.horizon(|| Lsn(500)), all.len()), (Lsn(10 + gone / 2), 100 - gone as usize));
        }
    }

    /// Those that are held for long leave the places to those that come and go, and whatever is moved counts once.
    #[test]
    fn thousands_that_are_held_leave_the_places_to_others() {
        let all = Snapshots::default();
        let held: Vec<_> = (0..5000).map(|lsn| all.draw(|| Lsn(10 + lsn))).collect();
        // The first to come and go find no place and make some.
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

    /// Snapshots of one LSN take each other's places in every order.
    #[test]
    fn snapshots_of_one_moment_stand_in_for_each_other() {
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
    fn a_snapshot_that_is_given_up_holds_nothing() {
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

    /// The snapshot that held the past ends, another is drawn at the end of a log in which nothing happens; then that one's turn
    /// comes. Were it given up, so would be everyone drawn after it, for as long as nobody writes.
    #[test]
    fn a_snapshot_that_holds_nothing_is_not_given_up() {
        let all = Snapshots::default();
        let (commit, end) = (Lsn(15), || Lsn(20));
        let old = all.draw(|| Lsn(10));
        assert_eq!(all.horizon(end), Lsn(10), "the commit waits");
        drop(old);
        let young = all.draw(end);
        assert!(!all.expire_oldest(commit));
        assert!(!all.is_expired(young.lsn()) && !all.is_expired(all.draw(end).lsn()));
    }

    /// While a snapshot is drawn its place holds an LSN that is not its own.
    #[test]
    fn who_asks_for_cuts_is_told_of_one_that_is_being_drawn() {
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

    /// The place is taken after a first reading that may be old by then: were that the snapshot, a horizon in between
    /// would have passed it.
    #[test]
    fn a_reading_from_before_the_place_was_taken_is_no_snapshot() {
        let all = Snapshots::default();
        let reserved = AtomicU64::new(10);
        let drawn = all.draw(|| {
            // Between this reading and the taking of the place others reserve, and the horizon moves.
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
