//! Flow control as pure functions: adaptive flushing (page cleaning), admission of writers, group
//! commit, size of the redo log, reading ahead, return of freed memory. The engine takes a sample,
//! asks a function here, and acts. Nothing here reads a clock, takes a lock, or knows what a page
//! is. So each rule is tested with a script of numbers.
//!
//! Rates are per second, times are microseconds, sizes are bytes, unless a name says otherwise.
//! Positions in the redo stream (LSNs) are plain numbers.

pub mod active_threads;
pub mod admission;
pub mod age_limits;
pub mod budget;
pub mod capacity;
pub mod checkpoint;
pub mod commit;
pub mod constants;
pub mod free_frames;
pub mod governor;
pub mod growth;
pub mod heap_trim;
pub mod helpful_log;
pub mod history;
pub mod innodb;
pub mod law;
pub mod read_ahead;
pub mod replay_progress;
pub mod segments;
pub mod smoothed_rate;
pub mod undo_admission;

#[cfg(test)]
mod closed_loop;
