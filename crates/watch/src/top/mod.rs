//! `millpond top`: the write path of a server or a database, live in a terminal.
//!
//! [`sampler`] asks the target once a second in a thread of its own, so that a server that hangs
//! stops no key. [`state`] is what is shown and what keys do, [`reading`] what two samples tell and
//! [`outlook`] what to look at first, [`panels`] and [`draw`] how it looks; none of these needs a
//! terminal. [`past`] reads what was recorded. [`terminal`] is the loop around
//! them.

mod draw;
pub(crate) mod outlook;
pub(crate) mod panels;
mod past;
pub(crate) mod reading;
pub(crate) mod sampler;
mod state;
mod terminal;
#[cfg(test)]
mod tests;

pub(crate) use terminal::{print, print_at, run, run_at};
