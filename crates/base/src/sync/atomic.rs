//! Atomics: the standard library's; loom's under `--cfg loom`; with the feature `sim`, ones that the simulator sees.

#[cfg(all(not(loom), feature = "sim"))]
pub use super::sim::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(all(not(loom), not(feature = "sim")))]
pub use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
