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

/// Calls that take words of `$int` and an order, each between its fences.
macro_rules! calls {
    ($int:ty: $($name:ident($($arg:ident),*) -> $out:ty;)*) => {
        $(
            /// As the standard library's.
            pub fn $name(&self, $($arg: $int,)* order: Ordering) -> $out {
                between_fences(order, || self.0.$name($($arg,)* order))
            }
        )*
    };
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

            calls! { $int:
                load() -> $int;
                store(value) -> ();
                swap(value) -> $int;
                fetch_add(value) -> $int;
                fetch_sub(value) -> $int;
                fetch_and(value) -> $int;
                fetch_or(value) -> $int;
                fetch_max(value) -> $int;
                fetch_min(value) -> $int;
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
        }
    };
}

atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
