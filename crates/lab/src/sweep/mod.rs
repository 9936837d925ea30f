//! `millpond sweep`: the same load with each combination of some settings.
//!
//! `grid` has the points and their order, `settings` sets them on a server and puts the old values
//! back, `found` says which point is best: both the first and the last are pure.

mod found;
mod grid;
mod settings;

pub(crate) use found::{Found, Sweep};
pub(crate) use grid::{Axis, Point, order, points};
pub(crate) use settings::Settings;
