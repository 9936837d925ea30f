//! Atomics. They are those of the standard library; under `--cfg loom` those of loom, with the
//! order that `SeqCst` means; with the feature `sim`, atomics that the simulator can schedule at.

#[cfg(loom)]
pub use super::model_atomic::{AtomicU32, AtomicU64};
#[cfg(all(not(loom), feature = "sim"))]
pub use super::sim::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicUsize, Ordering, fence};
#[cfg(all(not(loom), not(feature = "sim")))]
pub use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
