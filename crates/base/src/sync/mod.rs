//! The one module through which every wait and wake goes.
//!
//! Engine code takes its mutexes, condition variables, parkers, futexes and threads from here and nowhere else, so
//! that the simulator can make each of them a scheduling point. Mutexes do not poison: a panic inside the engine
//! either aborts or poisons the database as a whole.

pub mod atomic;
#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod real;

#[cfg(loom)]
pub use model::{Mutex, MutexGuard, futex_wait, futex_wake, point, spin};
#[cfg(not(loom))]
pub use real::{
    Condvar, JoinHandle, Mutex, MutexGuard, Parker, Unparker, futex_wait, futex_wake, point, spawn, spin,
};
