//! The simulator (deterministic simulation testing): it runs the engine's real threads in worlds
//! that a seed decides, cuts the power at every disk operation of every script, and checks that
//! recovery keeps what was promised.
//!
//! A *workload* is a short script with a few threads. It runs in a world (`base::sync::sim`) on a
//! simulated disk (`vfs::mem`). A [`history`] records each effect: when it was requested, when it
//! was acknowledged, and its place in the order of commits. Then [`explore`] cuts the power before
//! every operation of the disk. Of the writes that are not yet durable it keeps nothing,
//! everything, or one of eight random subsets. Each such image is opened, again in a world. It must
//! show a state that the history allows: no acknowledged commit is lost, no transaction is half
//! there, no row appears that was never written. The check must be clean, and the database must
//! accept more work. Some states are crashed again inside their recovery, four times in a row.
//!
//! Everything follows from the seed, so every finding is printed with the command that replays it.
//! `docs/simulator.md` says what is simulated and what is not.

pub mod budget;
pub mod driver;
pub mod engine;
pub mod explore;
pub mod flips;
pub mod held;
pub mod history;
pub mod jobs;
pub mod shape;
pub mod waits;
pub mod workloads;
