//! The report of `millpond plot`, and its views for a page that moves.
//!
//! `watched` is the report; `views` are what it shows by itself, `chosen` what a user names;
//! `compared` sets several inputs side by side; `moving` are the views of `serve`. All of these are
//! pure.

mod chosen;
mod compared;
mod moving;
mod views;
mod watched;

pub(crate) use compared::SUMMARY;
pub(crate) use moving::{MovingLine, MovingView, moving};
pub use watched::{Drawing, WatchedReport};
