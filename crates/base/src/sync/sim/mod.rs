//! Simulated worlds (deterministic simulation): exactly one thread of a world runs at a time, in an
//! order that a seed decides.
//!
//! [`run()`] begins a world with one thread. Threads that it spawns through `base::sync` belong to
//! the world too. Every lock, wait, wake, spawn, join, [`spin`], [`point`], clock reading and file
//! operation is a *scheduling point*: there the generator picks the thread that runs next. In some
//! worlds every atomic operation is one, too. Time is simulated: a step takes a microsecond, and
//! when no thread can run, time jumps to the next timeout. The same seed gives the same run.
//! [`Run::hash`] proves it: every decision and every file operation is mixed into it.
//!
//! A [`Failure`] ends a world early: a panic in any of its threads; a deadlock, where no thread can
//! run and none waits for a timeout; more steps than allowed; or a thread that computes without
//! ever reaching a scheduling point. The threads of a failed world stay parked for the rest of the
//! process. A panicking thread is parked at the first scheduling point of its destructors. These
//! threads hold latches and half-done work that must not be released. So a process can bear many
//! failures, but not millions.
//!
//! A thread that belongs to no world gets the behaviour of `real`. A world and the threads outside
//! it must not wait for each other. They may share data, but only one after the other.

pub(super) mod atomic;
mod failure;
mod options;
mod policy;
mod primitives;
#[cfg(test)]
mod tests;
mod world;
mod world_run;

pub use failure::Failure;
pub use options::WorldOptions;
pub(super) use primitives::number_in_world;
pub use primitives::{
    Condvar, JoinHandle, Mutex, MutexGuard, cores, device_time, event, futex_wait, futex_wait_for_latch,
    futex_wake, pause, point, simulated_us, spawn, spin, world_flags,
};
pub use world_run::{Run, run};
