//! Atomics on loom whose `SeqCst` operations have one order that all threads agree on.
//!
//! Loom treats `SeqCst` as `AcqRel`. So it allows two threads that each write one word and then
//! read the other's word to both miss the other's write. Its fences are exact. Therefore each
//! `SeqCst` operation here is between two `SeqCst` fences. That is a little stronger than the
//! language, because the fences also order weaker operations next to them. A mistake in the order
//! of `SeqCst` operations is found. A mistake in how they mix with weaker operations on other words
//! may be missed.

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

/// Methods that take values of `$int` and an order, each between its fences.
macro_rules! calls {
    ($int:ty: $($name:ident($($arg:ident),*) -> $out:ty;)*) => {
        $(
            /// As in the standard library.
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
            /// Makes an atomic that holds `value`.
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

            /// As in the standard library.
            pub fn compare_exchange(
                &self,
                old: $int,
                new: $int,
                order: Ordering,
                failed: Ordering,
            ) -> Result<$int, $int> {
                between_fences(order, || self.0.compare_exchange(old, new, order, failed))
            }

            /// As in the standard library, but never fails spuriously.
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
