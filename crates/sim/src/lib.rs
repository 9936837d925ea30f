//! The simulator: the engine's real threads in worlds that a seed decides, the power cut at every operation of every
//! script, recovery judged against what had been promised.
//!
//! A *workload* is a short script with a few threads. It runs in a world (`base::sync::sim`) on a simulated disk
//! (`vfs::mem`), and a [`history`] notes each effect: when it was asked for, when acknowledged, its place in the order
//! of commits. Then [`explore`] stands before every operation of the disk and lets survive, of what nothing had made
//! durable: nothing, everything, eight random subsets. Each image is opened, in a world again, and must show a state
//! that the history allows: no acknowledged commit lost, no part of a transaction, nothing that nobody wrote. The check
//! must be clean, and work must go on. One state in some is crashed again inside its recovery, four deep.
//!
//! Everything follows from the seed, so every finding is printed with the command that replays it. `docs/simulator.md`
//! tells what is simulated and what is not.

pub mod budget;
pub mod driver;
pub mod engine;
pub mod explore;
pub mod flips;
pub mod history;
pub mod jobs;
pub mod subject;
pub mod toy;
pub mod waits;
pub mod workloads;
