//! Striping: one value for each group of threads, so that threads that count or collect side by
//! side do not share a cache line. [`Sharded`](crate::Sharded) is its sibling: one value for each
//! group of keys.
//!
//! Only speed may depend on which stripe a thread has. Threads may share a stripe, so what is in it
//! must be safe to share: atomics, or a mutex.

use crate::sync::thread_number;
use std::ops::Deref;
use std::sync::Arc;

/// How many stripes a value usually has. It bounds memory, and the work of adding all stripes
/// up.
pub const STRIPES: usize = stripes(16);

/// `usual` stripes, or 2 in a loom model, where each stripe multiplies the orders of steps to try.
#[must_use]
pub const fn stripes(usual: usize) -> usize {
    if cfg!(loom) { 2 } else { usual }
}

/// A value that shares no cache line with its neighbours.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct CachePadded<T>(pub T);

impl<T> Deref for CachePadded<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// `N` values in place, each on cache lines of its own; a thread uses the one of its number.
///
/// For stripes that are used where they are. Where a caller keeps its stripe for longer than a
/// borrow lasts, or where a stripe is large, use [`StripedArc`].
#[derive(Debug)]
pub struct Striped<T, const N: usize = STRIPES>([CachePadded<T>; N]);

impl<T: Default, const N: usize> Default for Striped<T, N> {
    fn default() -> Self {
        Striped(std::array::from_fn(|_| CachePadded::default()))
    }
}

impl<T, const N: usize> Striped<T, N> {
    /// The calling thread's stripe.
    #[inline]
    pub fn own(&self) -> &T {
        &self.0[thread_number() % N]
    }

    /// All stripes, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(Deref::deref)
    }
}

/// `N` values behind counted references, each on cache lines of its own; a thread uses the one of
/// its number. The reference count of a stripe lies beside the stripe, so that threads do not share
/// one count either.
#[derive(Debug)]
pub struct StripedArc<T, const N: usize = STRIPES>([Arc<CachePadded<T>>; N]);

impl<T: Default, const N: usize> Default for StripedArc<T, N> {
    fn default() -> Self {
        StripedArc::new(T::default)
    }
}

impl<T, const N: usize> StripedArc<T, N> {
    /// Stripes that `make` makes.
    pub fn new(mut make: impl FnMut() -> T) -> Self {
        StripedArc(std::array::from_fn(|_| Arc::new(CachePadded(make()))))
    }

    /// The calling thread's stripe. Clone it to keep it.
    #[inline]
    pub fn own(&self) -> &Arc<CachePadded<T>> {
        &self.0[thread_number() % N]
    }

    /// The first stripe, for what only one stripe holds.
    #[inline]
    pub fn first(&self) -> &T {
        &self.0[0]
    }

    /// All stripes, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|stripe| &stripe.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::atomic::{AtomicU64, Ordering};
    use crate::sync::spawn;

    #[test]
    fn a_thread_keeps_its_stripe_and_nothing_is_lost() {
        let both = Arc::new((Striped::<AtomicU64>::default(), StripedArc::<AtomicU64, 4>::default()));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let both = Arc::clone(&both);
                let count = move || {
                    let (first, kept) = (std::ptr::from_ref(both.0.own()), Arc::clone(both.1.own()));
                    for _ in 0..1000 {
                        assert!(std::ptr::eq(both.0.own(), first) && Arc::ptr_eq(both.1.own(), &kept));
                        both.0.own().fetch_add(1, Ordering::Relaxed);
                        kept.fetch_add(1, Ordering::Relaxed);
                    }
                };
                spawn("counter", count).unwrap()
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let sum = |stripe: &AtomicU64| stripe.load(Ordering::Relaxed);
        assert_eq!(both.0.iter().map(sum).sum::<u64>(), 8000);
        assert_eq!(both.1.iter().map(sum).sum::<u64>(), 8000);
        assert_eq!((both.0.iter().count(), both.1.iter().count()), (16, 4));
    }

    #[test]
    fn neighbours_share_no_cache_line() {
        let striped = Striped::<u8>::default();
        let places: Vec<usize> = striped.iter().map(|stripe| std::ptr::from_ref(stripe).addr()).collect();
        assert!(places.iter().all(|place| place % 64 == 0) && places.is_sorted_by(|a, b| a < b));
        let striped = StripedArc::<u8>::default();
        assert!(striped.iter().all(|stripe| std::ptr::from_ref(stripe).addr() % 64 == 0));
        assert!(std::ptr::eq(striped.first(), striped.iter().next().unwrap()));
    }
}
