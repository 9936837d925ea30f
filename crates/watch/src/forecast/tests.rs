//! Scripts of ages, redo and pages, and what is foretold.

use super::point::{Flushing, Point};
use super::rule::{Forecast, Forecaster};

/// A server whose limit is 1000 bytes and whose soft limit is 875.
struct Script {
    forecaster: Forecaster,
    second: f64,
    point: Flushing,
    age: f64,
}

impl Script {
    /// A server that writes so many pages a second with full force.
    fn new(force: f64) -> Script {
        let point = Flushing { end: 0.0, dirty: 0.0, written: 0.0, force };
        Script { forecaster: Forecaster::default(), second: 0.0, point, age: 0.0 }
    }

    /// Goes on for some seconds with this growth of the redo, of the age and of the dirty pages.
    fn go(&mut self, seconds: usize, redo: f64, age: f64, dirty: f64) -> Option<Forecast> {
        let mut said = None;
        for _ in 0..seconds {
            self.second += 1.0;
            self.point.end += redo;
            self.age += age;
            self.point.dirty += dirty;
            let (seconds, age, flushing) = (self.second, self.age, Some(self.point));
            said = self.forecaster.take(Some(Point { seconds, age, soft: 875.0, limit: 1000.0, flushing }));
        }
        said
    }
}

/// Shows a forecast: seconds to the soft limit and to the limit.
fn seconds(forecast: Option<Forecast>) -> Option<(Option<f64>, Option<f64>)> {
    let round = |left: Option<f64>| left.map(f64::round);
    forecast.map(|forecast| (round(forecast.to_soft), round(forecast.to_limit)))
}

#[test]
fn a_rise_reaches_the_limit_if_the_pages_are_too_many_for_the_force() {
    // 50 pages a second become dirty, and 20 can be written.
    let mut slow = Script::new(20.0);
    slow.go(5, 0.0, 0.0, 0.0);
    let said = slow.go(16, 30.0, 30.0, 50.0);
    assert_eq!(seconds(said), Some((Some(13.0), Some(17.0))));
    assert_eq!(said.map(|said| (said.growth.round(), said.rises_for)), Some((30.0, 15.0)));
    // 500 can be written: the flushing will hold the age at its soft limit.
    let mut fast = Script::new(500.0);
    fast.go(5, 0.0, 0.0, 0.0);
    assert_eq!(seconds(fast.go(16, 30.0, 30.0, 50.0)), Some((Some(13.0), None)));
    // All pages became dirty at once at the beginning of the load. Few do now, and yet the limit is
    // reached, because the first step of the checkpoint needs them all.
    let mut first = Script::new(500.0);
    first.go(5, 0.0, 0.0, 0.0);
    first.go(1, 30.0, 30.0, 4000.0);
    assert_eq!(seconds(first.go(15, 30.0, 30.0, 1.0)), Some((Some(13.0), Some(17.0))));
}

#[test]
fn nothing_is_foretold_of_a_saw_of_a_slow_rise_or_of_an_end() {
    let mut saw = Script::new(20.0);
    for _ in 0..20 {
        saw.go(3, 30.0, 30.0, 50.0);
        assert_eq!(saw.go(1, 30.0, -90.0, -150.0), None);
    }
    let mut slow = Script::new(20.0);
    slow.go(1, 500.0, 500.0, 500.0);
    assert_eq!(slow.go(60, 2.0, 2.0, 2.0), None);
    // A log of some GiB fills so slowly: it is foretold when it is near.
    assert_eq!(seconds(slow.go(115, 2.0, 2.0, 2.0)), Some((Some(13.0), None)));
    // The load ends: the forecast is not said for longer than some seconds.
    let mut ends = Script::new(20.0);
    ends.go(5, 0.0, 0.0, 0.0);
    assert!(ends.go(16, 30.0, 30.0, 50.0).is_some());
    assert_eq!(ends.go(7, 0.0, 0.0, 0.0), None);
}

#[test]
fn a_forecast_ends_at_the_limit_and_begins_anew_after_a_restart() {
    let mut script = Script::new(20.0);
    script.go(5, 0.0, 0.0, 0.0);
    let last = script.go(27, 30.0, 30.0, 50.0);
    assert!(seconds(last).is_some());
    script.go(8, 30.0, 30.0, 50.0);
    assert_eq!(script.go(20, 30.0, 0.0, 0.0), None, "it is at its limit");
    // The counters of a server that was started again are smaller.
    script.point = Flushing { end: 2000.0, dirty: 100.0, written: -1.0, force: 20.0 };
    script.age = 300.0;
    assert_eq!(script.go(3, 30.0, 30.0, 50.0), None);
    script.forecaster.take(None);
    assert_eq!(script.go(3, 30.0, 30.0, 50.0), None);
}

/// Millpond delays its writers from the soft limit on, so they do not come to the limit.
#[test]
fn of_millpond_only_the_soft_limit_is_foretold() {
    let mut forecaster = Forecaster::default();
    let mut said = None;
    for second in 0..16 {
        let age = 30.0 * f64::from(second);
        let seconds = f64::from(second);
        said = forecaster.take(Some(Point { seconds, age, soft: 850.0, limit: 1000.0, flushing: None }));
    }
    assert_eq!(seconds(said), Some((Some(13.0), None)));
}
