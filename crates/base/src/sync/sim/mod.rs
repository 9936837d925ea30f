//! Simulated worlds: real threads, of which exactly one of a world runs at a time, in an order that a seed decides.
//!
//! [`run()`] begins a world with one thread; whatever that spawns through `base::sync` belongs to it too. Every lock,
//! wait, wake, spawn, join, [`spin`], [`point`], clock reading and file operation is a place where the generator picks
//! who goes on; in some worlds every atomic operation is, too. Time is simulated: a step costs a microsecond, and when nobody can run it jumps to the next timeout.
//! The same seed gives the same run, which [`Run::hash`] proves: every decision and every file operation feeds it.
//!
//! What ends a world early is a [`Failure`]: a panic in any of its threads, nobody able to run and no timeout to wait
//! for, more steps than allowed, or a thread that computes without ever reaching a scheduling point. The threads of a
//! failed world stay where they are for the rest of the process, a panicking one at the first scheduling point of its
//! destructors: they hold latches and half-done work that must not be let go of. So a process can bear many failures,
//! but not millions.
//!
//! A thread that belongs to no world finds here what `real` would give it. A world and the threads around it must not
//! wait for each other; what they share, they use one after the other.

pub(super) mod atomic;
mod failure;
mod policy;
mod primitives;
mod run;
#[cfg(test)]
mod tests;
mod world;

pub use failure::Failure;
pub(super) use primitives::number_in_world;
pub use primitives::{
    Condvar, JoinHandle, Mutex, MutexGuard, cores, device_time, event, futex_wait, futex_wake, pause, point,
    simulated_us, spawn, spin, world_flags,
};
pub use run::{Run, WorldOptions, run};
