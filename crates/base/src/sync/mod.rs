//! Synchronisation: the one module through which every wait and wake goes.
//!
//! Engine code takes its mutexes, condition variables, parkers, futexes and threads from here and
//! nowhere else. So the simulator can make each of them a scheduling point. A mutex is not poisoned
//! by a panic: a panic inside the engine aborts the process or poisons the whole database.
//!
//! A program runs `real`. With the feature `sim` the same names come from `sim`. It does the same
//! for an ordinary thread, and it runs the threads of a simulated world one at a time. With `--cfg
//! loom` they come from `model`.

pub mod atomic;
mod fork;
mod held;
#[cfg(loom)]
mod model;
#[cfg(loom)]
mod model_atomic;
#[cfg(not(loom))]
mod parallel;
#[cfg(not(loom))]
mod parker;
#[cfg(not(any(loom, feature = "sim")))]
mod real;
#[cfg(all(not(loom), feature = "sim"))]
pub mod sim;
#[cfg(not(loom))]
mod thread_number;

pub use fork::ProcessStamp;
pub use held::{holds_no_latch, latch_released, latch_taken};
#[cfg(loom)]
pub use model::{
    Mutex, MutexGuard, futex_wait, futex_wait_for_latch, futex_wake, point, set_thread_number, spin,
    thread_number,
};
#[cfg(not(loom))]
pub use parallel::for_each_in_parallel;
#[cfg(not(loom))]
pub use parker::{Parker, Unparker};
#[cfg(not(any(loom, feature = "sim")))]
pub use real::{
    Condvar, JoinHandle, Mutex, MutexGuard, cores, device_time, event, futex_wait, futex_wait_for_latch,
    futex_wake, point, simulated_us, spawn, spin, world_flags,
};
#[cfg(all(not(loom), feature = "sim"))]
pub use sim::{
    Condvar, JoinHandle, Mutex, MutexGuard, cores, device_time, event, futex_wait, futex_wait_for_latch,
    futex_wake, point, simulated_us, spawn, spin, world_flags,
};
#[cfg(not(loom))]
pub use thread_number::thread_number;
