//! Atomics that are scheduling points in some worlds.
//!
//! Only operations with an order stronger than relaxed are scheduling points: threads communicate
//! by these. Relaxed ones are counters and hints; there are far too many of them. Simulated threads
//! run one at a time, so weak memory is not simulated.

use super::world::atomic_point;
use std::panic::Location;
pub use std::sync::atomic::{Ordering, fence};

#[inline]
#[track_caller]
fn scheduling_point(order: Ordering) {
    if order != Ordering::Relaxed {
        atomic_point(Location::caller());
    }
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[doc = concat!("`", stringify!($name), "` of the standard library, under the scheduler.")]
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(pub(super) std::sync::atomic::$name);

        #[allow(missing_docs)] // each is as in the standard library
        impl $name {
            #[inline]
            pub const fn new(value: $value) -> Self {
                $name(std::sync::atomic::$name::new(value))
            }
            #[inline]
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                scheduling_point(order);
                self.0.load(order)
            }
            #[inline]
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                scheduling_point(order);
                self.0.store(value, order);
            }
            #[inline]
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                scheduling_point(order);
                self.0.swap(value, order)
            }
            #[inline]
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                scheduling_point(success);
                self.0.compare_exchange(current, new, success, failure)
            }
            /// Never fails spuriously, so that a run repeats.
            #[inline]
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                scheduling_point(success);
                self.0.compare_exchange(current, new, success, failure)
            }
            #[inline]
            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                scheduling_point(set);
                self.0.fetch_update(set, fetch, f)
            }
            #[inline]
            #[track_caller]
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                scheduling_point(order);
                self.0.fetch_and(value, order)
            }
            #[inline]
            #[track_caller]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                scheduling_point(order);
                self.0.fetch_or(value, order)
            }
            #[inline]
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }
            #[inline]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }
        }
    };
}

macro_rules! counting {
    ($name:ident, $value:ty) => {
        atomic!($name, $value);

        #[allow(missing_docs)] // each is as in the standard library
        impl $name {
            #[inline]
            #[track_caller]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                scheduling_point(order);
                self.0.fetch_add(value, order)
            }
            #[inline]
            #[track_caller]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                scheduling_point(order);
                self.0.fetch_sub(value, order)
            }
            #[inline]
            #[track_caller]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                scheduling_point(order);
                self.0.fetch_max(value, order)
            }
            #[inline]
            #[track_caller]
            pub fn fetch_min(&self, value: $value, order: Ordering) -> $value {
                scheduling_point(order);
                self.0.fetch_min(value, order)
            }
        }
    };
}

atomic!(AtomicBool, bool);
counting!(AtomicU8, u8);
counting!(AtomicU16, u16);
counting!(AtomicU32, u32);
counting!(AtomicU64, u64);
counting!(AtomicUsize, usize);
