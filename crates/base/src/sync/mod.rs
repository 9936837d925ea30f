//! The one module through which every wait and wake goes.
//!
//! Engine code takes its mutexes, condition variables, parkers, futexes and threads from here and nowhere else, so
//! that the simulator can make each of them a scheduling point. Mutexes do not poison: a panic inside the engine
//! either aborts or poisons the database as a whole.
//!
//! `real` is what a program runs. With the feature `sim` the same names come from `sim`, which does the same for an
//! ordinary thread and runs the threads of a simulated world one at a time.

pub mod atomic;
#[cfg(not(loom))]
mod lane;
#[cfg(loom)]
mod model;
#[cfg(loom)]
mod model_atomic;
#[cfg(not(loom))]
mod parker;
#[cfg(not(any(loom, feature = "sim")))]
mod real;
#[cfg(not(loom))]
mod share;
#[cfg(all(not(loom), feature = "sim"))]
pub mod sim;

#[cfg(not(loom))]
pub use lane::lane;
#[cfg(loom)]
pub use model::{Mutex, MutexGuard, futex_wait, futex_wake, lane, point, set_lane, spin};
#[cfg(not(loom))]
pub use parker::{Parker, Unparker};
#[cfg(not(any(loom, feature = "sim")))]
pub use real::{
    Condvar, JoinHandle, Mutex, MutexGuard, cores, device, event, futex_wait, futex_wake, point,
    simulated_us, spawn, spin, world_flags,
};
#[cfg(not(loom))]
pub use share::share_out;
#[cfg(all(not(loom), feature = "sim"))]
pub use sim::{
    Condvar, JoinHandle, Mutex, MutexGuard, cores, device, event, futex_wait, futex_wake, point,
    simulated_us, spawn, spin, world_flags,
};
