//! The report of `millpond plot`, and its views for a page that moves.
//!
//! `watched` is the report; `views` are what it shows by itself, `chosen` what a user names;
//! `compared` sets several inputs side by side; `live` are the views of `serve`; `event` is the
//! page of an event of `stalk`. All of these are pure.

mod chosen;
mod compared;
mod event;
mod live;
mod views;
mod watched;

pub(crate) use compared::SUMMARY;
pub(crate) use event::{EventReport, Noted};
pub(crate) use live::{LiveLine, LiveView, live_views};
pub use views::views_of;
pub use watched::{Drawing, WatchedReport};
