//! Isolation levels, checked from outside: many threads run transactions on the real engine,
//! [`record`] keeps the result of each operation, [`anomalies`] builds the graph of dependencies
//! between transactions (Adya, Liskov and O'Neil, "Generalized Isolation Level Definitions", ICDE
//! 2000) and searches it for cycles that a level forbids. [`elle`] gets a second opinion on the
//! same history from another checker.
//!
//! Every write has a unique number, so a read shows which write it saw. The order of the writes of
//! a key follows from the commit LSNs. A power cut hides some of these; then the order follows from
//! the lists that the keys hold.
//!
//! [`stress`] runs more threads in a buffer pool that is far too small, and checks sums, counts and
//! checksums.
//!
//! [`soak`] runs everything at once for hours, kills the process again and again, and adds
//! everything up.
//!
//! A checker that finds nothing proves little, so each workload must show its anomaly at the next
//! weaker level.

pub mod anomalies;
pub mod elle;
mod graph;
pub mod record;
pub mod soak;
pub mod stress;
pub mod workload;
pub mod workload_run;
