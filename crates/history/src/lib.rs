//! Isolation, checked from outside: many threads run transactions on the real engine, [`record`] notes what each was told,
//! [`check`] builds the graph of who depends on whom (Adya, Liskov and O'Neil, "Generalized Isolation Level Definitions", ICDE
//! 2000) and looks for the cycles that a level forbids. [`elle`] asks another program for its opinion on the same history.
//!
//! Every write has a number of its own, so a read tells whose write it saw. In which order the writes of a key stand follows
//! from the commits' LSNs, or, where a power cut has hidden some of these, from the lists that the keys hold.
//!
//! [`stress`] asks other questions of more threads: whether sums, counts and checksums hold in a pool that is far too small.
//!
//! [`soak`] lets everything happen at once for hours, kills the process again and again, and adds everything up.
//!
//! A checker that finds nothing proves little, so each workload must show its anomaly at the level below.

pub mod check;
pub mod elle;
pub mod graph;
pub mod record;
pub mod run;
pub mod soak;
pub mod stress;
pub mod workload;
