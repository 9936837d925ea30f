//! `millpond top`: the write path of servers and databases, live in a terminal.
//!
//! [`sampler`] asks a target once a second in a thread of its own, so that a server that hangs
//! stops no key. [`state`] is what is shown of it and what keys do, [`reading`] what two samples
//! tell and [`outlook`] what to look at first, [`panels`] and [`draw`] how it looks; [`fleet`] and
//! [`list`] are the same for several targets. None of these needs a terminal. [`past`] reads what
//! was recorded. [`terminal`] is the loop around them.

mod draw;
mod fleet;
mod list;
pub(crate) mod outlook;
pub(crate) mod panels;
mod past;
pub(crate) mod reading;
pub(crate) mod sampler;
mod state;
mod terminal;
#[cfg(test)]
mod tests;

pub(crate) use terminal::{Job, print, print_at, run, run_at};
