//! When the checkpoint age will reach its limits, foretold from a reading a second.
//!
//! [`point`] is what of a sample matters. [`rule`] foretells; it asks [`flushing`] whether
//! InnoDB's full force is enough to hold the age, and [`swing`] how far an age swings that is
//! held. [`driver`] finds out which statement changes the most rows, when a forecast begins.
//! [`score`] counts how good forecasts were, and [`replay`] feeds them with what was recorded.
//! `docs/forecast.md` has the method and the figures.

mod driver;
mod flushing;
mod point;
#[cfg(test)]
mod recorded_tests;
mod replay;
mod rule;
mod score;
mod swing;
#[cfg(test)]
mod tests;

pub(crate) use driver::Driver;
pub(crate) use point::Point;
pub(crate) use replay::judge;
pub(crate) use rule::{Forecast, Forecaster, told_forecast};
