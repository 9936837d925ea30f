//! Atomics over loom whose `SeqCst` operations have one order that all threads agree on.
//!
//! Loom takes `SeqCst` for `AcqRel`, and so shows two threads that each write one word and read the other's both missing the other.
//! Its fences are exact. So each `SeqCst` operation stands between two of them here. That is a little stronger than the
//! language: the fences order weaker operations beside them too. A mistake in an order of `SeqCst` operations is found; one
//! in how they mix with weaker operations on other words may not be.

use loom::sync::atomic::{Ordering, fence};

fn between_fences<R>(order: Ordering, operation: impl FnOnce() -> R) -> R {
    if order != Ordering::SeqCst {
        return operation();
    }
    fence(Ordering::SeqCst);
    let result = operation();
    fence(Ordering::SeqCst);
    result
}

macro_rules! atomic {
    ($name:ident, $int:ty) => {
        #[doc = concat!("Loom's `", stringify!($name), "`, with a total order of `SeqCst` operations.")]
        #[derive(Debug, Default)]
        pub struct $name(loom::sync::atomic::$name);

        impl $name {
            /// A word that holds `value`.
            #[must_use]
            pub fn new(value: $int) -> $name {
                $name(loom::sync::atomic::$name::new(value))
            }

            /// As the standard library's.
            pub fn load(&self, order: Ordering) -> $int {
                between_fences(order, || self.0.load(order))
            }

            /// As the standard library's.
            pub fn store(&self, value: $int, order: Ordering) {
                between_fences(order, || self.0.store(value, order));
            }

            /// As the standard library's.
            pub fn swap(&self, value: $int, order: Ordering) -> $int {
                between_fences(order, || self.0.swap(value, order))
            }

            /// As the standard library's.
            pub fn compare_exchange(
                &self,
                old: $int,
                new: $int,
                order: Ordering,
                failed: Ordering,
            ) -> Result<$int, $int> {
                between_fences(order, || self.0.compare_exchange(old, new, order, failed))
            }

            /// As the standard library's; never fails without cause.
            pub fn compare_exchange_weak(
                &self,
                old: $int,
                new: $int,
                order: Ordering,
                failed: Ordering,
            ) -> Result<$int, $int> {
                self.compare_exchange(old, new, order, failed)
            }

            /// As the standard library's.
            pub fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                between_fences(order, || self.0.fetch_add(value, order))
            }

            /// As the standard library's.
            pub fn fetch_sub(&self, value: $int, order: Ordering) -> $int {
                between_fences(order, || self.0.fetch_sub(value, order))
            }

            /// As the standard library's.
            pub fn fetch_and(&self, value: $int, order: Ordering) -> $int {
                between_fences(order, || self.0.fetch_and(value, order))
            }

            /// As the standard library's.
            pub fn fetch_or(&self, value: $int, order: Ordering) -> $int {
                between_fences(order, || self.0.fetch_or(value, order))
            }

            /// As the standard library's.
            pub fn fetch_max(&self, value: $int, order: Ordering) -> $int {
                between_fences(order, || self.0.fetch_max(value, order))
            }

            /// As the standard library's.
            pub fn fetch_min(&self, value: $int, order: Ordering) -> $int {
                between_fences(order, || self.0.fetch_min(value, order))
            }
        }
    };
}

atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
