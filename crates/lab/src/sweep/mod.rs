//! `millpond sweep`: the same load with each combination of some settings.
//!
//! `grid` has the points and their order, `found` says which point is best: both are pure.

mod found;
mod grid;

pub(crate) use found::{Found, Sweep};
pub(crate) use grid::{Axis, Point, order, points};
