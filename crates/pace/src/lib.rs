//! The laws of flow control as pure functions. The engine samples, asks, and acts; nothing here reads a clock, takes a
//! lock, or knows what a page is, so each law is tested by a script of numbers and drawn from it.
//!
//! Rates are per second, times are microseconds, sizes are bytes, unless a name says otherwise. Positions in the redo
//! stream are plain numbers.

pub mod active_threads;
pub mod admission;
pub mod budget;
pub mod capacity;
pub mod checkpoint;
pub mod commit;
pub mod free_frames;
pub mod governor;
pub mod growth;
pub mod history;
pub mod segments;
pub mod smoothed_rate;
pub mod thresholds;
pub mod undo_admission;

#[cfg(test)]
mod closed_loop;
