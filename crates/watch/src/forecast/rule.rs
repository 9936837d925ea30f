//! The rule: from a point a second to a forecast. No clock; the same points give the same
//! forecasts.
//!
//! The growth of the age is that of a line through the last seconds, which the steps of the
//! checkpoint do not bend, and no more than that of the last few: a rise that ends is seen at once.
//! It gives the seconds to the soft limit. From there to the limit it takes what the redo needs,
//! unless [`super::flushing`] says that the flushing holds the age. An age that stands above its
//! soft limit swings, because the checkpoint moves in steps; [`super::swing`] tells how soon such
//! a swing touches the limit. A forecast is said only after it was so for some points in a row, and
//! until it was not so for some.

use super::flushing::Past;
use super::point::Point;
use super::score::{CALM, CALM_S, REACHED};
use super::swing::Swing;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// The seconds of the line: more than two steps of a checkpoint, which moves about once a second.
const WINDOW_S: f64 = 8.5;
/// The last few of them.
const RECENT_S: f64 = 4.5;
/// The growth of all is at most so many times that of the last few.
const MOST_OF_RECENT: f64 = 1.25;
/// The least number of points.
const LEAST_POINTS: usize = 4;
/// The same for Millpond.
const STEADY_POINTS: usize = 7;
/// The least age that is foretold from, of the limit.
const LEAST_SHARE: f64 = 0.1;
/// The least growth that is foretold from, of the limit, a second: a log that takes an hour to
/// fill. Less is the noise of an age that stands.
const LEAST_GROWTH: f64 = 0.0003;
/// A forecast begins with at most so many seconds, and ends with more than so many.
const BEGIN_S: f64 = 18.0;
const END_S: f64 = 60.0;
/// It begins after so many points in a row, and ends after so many.
const BEGIN_POINTS: usize = 2;
const END_POINTS: usize = 3;
/// A forecast of the limit begins with no less: what comes sooner is seen, not foretold.
const BEGIN_LEAST_S: f64 = 8.0;
/// Above the soft limit the flushing holds the age if the checkpoint moves by this part of the
/// redo.
const HOLDS: f64 = 0.5;
/// Below this part of the soft limit the age is no longer above it.
const BELOW_SOFT: f64 = 0.95;
/// Points that lie further apart do not belong together.
const GAP_S: f64 = 5.0;
/// How much of the past is looked at for the beginning of the rise.
const RISE_S: f64 = 900.0;
/// The rise began where the age was last no more than this part of its way above its lowest.
const FOOT: f64 = 0.1;

/// Where the age goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Forecast {
    /// Seconds to the soft limit, unless it is reached.
    pub(crate) to_soft: Option<f64>,
    /// Seconds to the limit, if the flushing will not hold the age.
    pub(crate) to_limit: Option<f64>,
    /// How fast the age grows, bytes a second.
    pub(crate) growth: f64,
    /// Since when it grows, seconds.
    pub(crate) rises_for: f64,
}

/// Returns a forecast, and what drives the age, as JSON.
pub(crate) fn told_forecast(forecast: Option<(Forecast, Option<&str>)>) -> Value {
    let Some((forecast, driver)) = forecast else { return Value::Null };
    let seconds = |left: Option<f64>| left.map(f64::round);
    json!({
        "seconds_to_soft_limit": seconds(forecast.to_soft),
        "seconds_to_limit": seconds(forecast.to_limit),
        "growth_bytes": forecast.growth.round(),
        "rises_for_s": forecast.rises_for.round(),
        "driver": driver,
    })
}

/// A number of seconds that is said after it was known for some points, until it was not for some.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    left: Option<f64>,
    /// Points in a row that contradict.
    against: usize,
}

impl Said {
    /// Takes the seconds of the next point. They begin to be said with no less than `least`.
    fn take(&mut self, left: Option<f64>, least: f64) {
        let is_said = self.left.is_some();
        let (least, most) = if is_said { (0.0, END_S) } else { (least, BEGIN_S) };
        let left = left.filter(|left| (least..=most).contains(left));
        if left.is_some() == is_said {
            *self = Said { left, against: 0 };
            return;
        }
        self.against += 1;
        if self.against >= if is_said { END_POINTS } else { BEGIN_POINTS } {
            *self = Said { left, against: 0 };
        }
    }
}

/// What was seen, and what is said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forecaster {
    window: VecDeque<Point>,
    /// Seconds and ages, to find the beginning of the rise.
    ages: VecDeque<(f64, f64)>,
    past: Past,
    swing: Swing,
    soft: Said,
    limit: Said,
    /// The age has come to its limit, and was not away from it since.
    is_reached: bool,
    /// The age is above the soft limit, or was there and is not far below.
    is_above_soft: bool,
    /// Since when the age is low.
    low_since: Option<f64>,
    growth: f64,
}

impl Forecaster {
    /// Takes the point of the next second. One without figures, or after a gap, begins anew.
    pub(crate) fn take(&mut self, point: Option<Point>) -> Option<Forecast> {
        let Some(now) = point else {
            *self = Forecaster::default();
            return None;
        };
        if self.window.back().is_some_and(|last| !follows(last, &now)) {
            *self = Forecaster::default();
        }
        self.note(&now);
        let growth = self.growth_of_age();
        let (to_soft, to_limit) = (self.to_soft(&now, growth), self.to_limit(&now, growth));
        self.soft.take(to_soft, 0.0);
        self.limit.take(to_limit, BEGIN_LEAST_S);
        if self.is_reached {
            self.limit = Said::default();
        }
        if self.is_above_soft {
            self.soft = Said::default();
        }
        self.growth = growth.unwrap_or(self.growth);
        self.now()
    }

    /// Returns what is said now.
    pub(crate) fn now(&self) -> Option<Forecast> {
        let at_least = |said: &Said| said.left.map(|left| left.max(1.0));
        let (to_soft, to_limit) = (at_least(&self.soft), at_least(&self.limit));
        to_soft.or(to_limit)?;
        Some(Forecast { to_soft, to_limit, growth: self.growth, rises_for: self.rises_for() })
    }

    /// Keeps what a point tells.
    fn note(&mut self, now: &Point) {
        let share = now.age / now.limit;
        self.is_reached |= share >= REACHED;
        self.low_since = (share < CALM).then(|| self.low_since.unwrap_or(now.seconds));
        if self.low_since.is_some_and(|since| now.seconds - since >= CALM_S) {
            self.is_reached = false;
        }
        let soft = if self.is_above_soft { BELOW_SOFT * now.soft } else { now.soft };
        self.is_above_soft = now.age >= soft;
        self.swing.take((now.age >= BELOW_SOFT * now.soft).then_some(share));
        self.window.push_back(*now);
        while self.window.front().is_some_and(|first| now.seconds - first.seconds > WINDOW_S) {
            self.window.pop_front();
        }
        self.ages.push_back((now.seconds, now.age));
        while self.ages.front().is_some_and(|first| now.seconds - first.0 > RISE_S) {
            self.ages.pop_front();
        }
        if let Some(flushing) = now.flushing {
            self.past.take(flushing, flushing.end - now.age);
        }
    }

    /// Returns the first of the last few points.
    fn recent(&self) -> Option<&Point> {
        let now = self.window.back()?.seconds;
        self.window.iter().find(|point| now - point.seconds <= RECENT_S)
    }

    /// Returns how fast the age grows, bytes a second.
    fn growth_of_age(&self) -> Option<f64> {
        if self.window.len() < LEAST_POINTS {
            return None;
        }
        let now = self.window.back()?;
        let recent = self.recent().map(|first| a_second(first, now, now.age - first.age))?;
        Some(slope(&self.window).min(MOST_OF_RECENT * recent))
    }

    /// Whether the age has fallen in no second of the line, and these are enough.
    fn never_falls(&self) -> bool {
        let mut pairs = self.window.iter().zip(self.window.iter().skip(1));
        self.window.len() >= STEADY_POINTS && pairs.all(|(one, next)| one.age <= next.age)
    }

    /// Returns how fast the redo grows, bytes a second.
    fn redo(&self) -> Option<f64> {
        let end = |point: &Point| point.flushing.map(|flushing| flushing.end);
        let (now, first, recent) = (self.window.back()?, self.window.front()?, self.recent()?);
        let since = |first: &Point| Some(a_second(first, now, end(now)? - end(first)?));
        Some(since(first)?.min(MOST_OF_RECENT * since(recent)?))
    }

    fn to_soft(&self, now: &Point, growth: Option<f64>) -> Option<f64> {
        let growth = growth.filter(|growth| *growth >= LEAST_GROWTH * now.limit)?;
        // Millpond's cleaning keeps the age near a target: there only a rise without a step is one.
        let is_rise = now.flushing.is_some() || self.never_falls();
        let far = now.age >= LEAST_SHARE * now.limit;
        (is_rise && far && now.age < now.soft).then(|| (now.soft - now.age) / growth)
    }

    fn to_limit(&self, now: &Point, growth: Option<f64>) -> Option<f64> {
        let by_rise = self.to_limit_by_rise(now, growth);
        let by_swing = self.swing.seconds_to(REACHED).filter(|_| now.flushing.is_some());
        [by_rise, by_swing].into_iter().flatten().min_by(f64::total_cmp)
    }

    fn to_limit_by_rise(&self, now: &Point, growth: Option<f64>) -> Option<f64> {
        let (flushing, redo) = (now.flushing?, self.redo().filter(|redo| *redo > 0.0)?);
        let limit = REACHED * now.limit;
        if now.age < now.soft {
            let (to_soft, room) = (self.to_soft(now, growth)?, limit - now.soft);
            let is_lost = self.past.is_lost(flushing.end - now.age, redo, room);
            return is_lost.then_some(to_soft + room / redo);
        }
        let recent = self.recent()?;
        let moves = (redo - a_second(recent, now, now.age - recent.age)).max(0.0);
        let is_enough = self.window.len() >= LEAST_POINTS && moves <= HOLDS * redo;
        is_enough.then(|| (limit - now.age).max(0.0) / (redo - moves))
    }

    /// Returns for how long the age has risen, seconds.
    fn rises_for(&self) -> f64 {
        let Some(now) = self.ages.back() else { return 0.0 };
        let lowest = self.ages.iter().map(|(_, age)| *age).fold(f64::INFINITY, f64::min);
        let foot = lowest + FOOT * (now.1 - lowest);
        self.ages.iter().rev().find(|(_, age)| *age <= foot).map_or(0.0, |(at, _)| now.0 - at)
    }
}

/// Whether two points belong together: there is no gap, and the server was not started again.
fn follows(last: &Point, now: &Point) -> bool {
    let written = |point: &Point| point.flushing.map_or(0.0, |flushing| flushing.written);
    let passed = now.seconds - last.seconds;
    passed > 0.0 && passed <= GAP_S && last.limit == now.limit && written(now) >= written(last)
}

fn a_second(first: &Point, now: &Point, grown: f64) -> f64 {
    grown / (now.seconds - first.seconds).max(0.5)
}

/// Returns the slope of the line through the ages, bytes a second.
fn slope(window: &VecDeque<Point>) -> f64 {
    let n = window.len() as f64;
    let mean = |of: &dyn Fn(&Point) -> f64| window.iter().map(of).sum::<f64>() / n;
    let (seconds, age) = (mean(&|point| point.seconds), mean(&|point| point.age));
    let spread = mean(&|point| (point.seconds - seconds).powi(2));
    let both = mean(&|point| (point.seconds - seconds) * (point.age - age));
    if spread > 0.0 { both / spread } else { 0.0 }
}
