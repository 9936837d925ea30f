//! What is shown and what keys do, without a terminal.

use super::outlook::Outlook;
use super::reading::Reading;
use crate::sources::{About, Sample, is_of_schema};
use std::collections::VecDeque;

/// Readings that are kept: as many seconds as a wide terminal has columns.
const KEPT: usize = 400;

/// Which figures are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Overview,
    Log,
    Pages,
    Waits,
}

impl View {
    /// All views, in the order of their tabs.
    pub(crate) const ALL: [View; 4] = [View::Overview, View::Log, View::Pages, View::Waits];

    /// Returns the title of its tab.
    pub(crate) fn title(self) -> &'static str {
        match self {
            View::Overview => "overview",
            View::Log => "log",
            View::Pages => "pages",
            View::Waits => "waits",
        }
    }

    fn number(self) -> usize {
        View::ALL.iter().position(|view| *view == self).unwrap_or(0)
    }

    fn moved(self, by: usize) -> View {
        View::ALL[(self.number() + by) % View::ALL.len()]
    }
}

/// A key, as far as it means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Quit,
    Escape,
    Pause,
    Help,
    Next,
    Previous,
    Number(usize),
    /// Of several targets: show the chosen one, the next, the one before.
    Open,
    NextTarget,
    PreviousTarget,
}

/// What is shown.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// What is looked at, and its version.
    pub(crate) target: String,
    pub(crate) version: String,
    pub(crate) view: View,
    pub(crate) help: bool,
    /// Why there is no newer sample, and since when, microseconds since 1970.
    pub(crate) trouble: Option<(u64, String)>,
    /// What makes the server count what it does not count now; SQL.
    pub(crate) switch_on: Option<String>,
    readings: VecDeque<Reading>,
    outlook: Outlook,
    /// What was there when the user paused; it is shown meanwhile.
    paused: Option<(VecDeque<Reading>, Outlook)>,
}

impl State {
    /// Shows nothing yet.
    pub(crate) fn new(target: String, version: String) -> State {
        State {
            target,
            version,
            view: View::Overview,
            help: false,
            trouble: None,
            switch_on: None,
            outlook: Outlook::default(),
            readings: VecDeque::new(),
            paused: None,
        }
    }

    /// Shows nothing yet of a target.
    pub(crate) fn of(about: About) -> State {
        let mut state = State::new(String::new(), String::new());
        state.is_now(about);
        state
    }

    /// Notes what the target is: another version after a restart, other settings.
    pub(crate) fn is_now(&mut self, about: About) {
        self.switch_on = about.switch_on();
        (self.target, self.version) = (about.target, about.version);
    }

    /// Takes a sample. One that is not newer than the last changes nothing.
    pub(crate) fn take(&mut self, mut sample: Sample) {
        let last = self.readings.back();
        if last.is_some_and(|last| last.unix_us() >= sample.unix_us) {
            return;
        }
        self.trouble = None;
        // A server has hundreds of values of its own besides.
        sample.values.retain(|value| is_of_schema(&value.0));
        let reading = Reading::new(sample, last.map(Reading::sample));
        if self.readings.len() == KEPT {
            self.readings.pop_front();
        }
        self.outlook.take(&reading);
        self.readings.push_back(reading);
    }

    /// Notes what drives the checkpoint age.
    pub(crate) fn is_driven_by(&mut self, driver: String) {
        self.outlook.is_driven_by(driver);
    }

    /// Notes why there is no sample.
    pub(crate) fn fail(&mut self, now_us: u64, why: String) {
        let since = self.trouble.as_ref().map_or(now_us, |(since, _)| *since);
        self.trouble = Some((since, why));
    }

    /// Takes a key. Returns whether to go on.
    pub(crate) fn key(&mut self, key: Key) -> bool {
        match key {
            Key::Quit => return false,
            Key::Escape if self.help => self.help = false,
            Key::Escape => return false,
            Key::Help => self.help = !self.help,
            Key::Pause => self.pause(!self.is_paused()),
            Key::Next => self.view = self.view.moved(1),
            Key::Previous => self.view = self.view.moved(View::ALL.len() - 1),
            Key::Number(n) => self.view = View::ALL.get(n.wrapping_sub(1)).copied().unwrap_or(self.view),
            Key::Open | Key::NextTarget | Key::PreviousTarget => {}
        }
        true
    }

    /// Holds the picture, or goes on.
    pub(crate) fn pause(&mut self, pause: bool) {
        let held = || (self.readings.clone(), self.outlook.clone());
        self.paused = pause.then(|| self.paused.clone().unwrap_or_else(held));
    }

    /// Returns whether the user has paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Returns the readings that are shown, oldest first.
    pub(crate) fn shown(&self) -> &VecDeque<Reading> {
        self.paused.as_ref().map_or(&self.readings, |(readings, _)| readings)
    }

    /// Returns the last of them.
    pub(crate) fn last(&self) -> Option<&Reading> {
        self.shown().back()
    }

    /// Returns what the readings that are shown tell of the next ones, and what to look at first.
    pub(crate) fn outlook(&self) -> &Outlook {
        self.paused.as_ref().map_or(&self.outlook, |(_, outlook)| outlook)
    }

    /// Returns the last `count` values of something, oldest first. What is not known is 0.
    pub(crate) fn series(&self, count: usize, of: impl Fn(&Reading) -> Option<f64>) -> Vec<u64> {
        let skipped = self.shown().len().saturating_sub(count);
        let values = self.shown().iter().skip(skipped).map(|reading| of(reading).unwrap_or(0.0));
        values.map(|value| value.max(0.0) as u64).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: u64) -> Sample {
        Sample::new(second * 1_000_000, Vec::new())
    }

    #[test]
    fn keys_change_views_and_end() {
        let mut state = State::new(String::new(), String::new());
        for (key, view) in [
            (Key::Next, View::Log),
            (Key::Next, View::Pages),
            (Key::Previous, View::Log),
            (Key::Number(4), View::Waits),
            (Key::Next, View::Overview),
            (Key::Previous, View::Waits),
            (Key::Number(9), View::Waits),
            (Key::Number(0), View::Waits),
        ] {
            assert!(state.key(key));
            assert_eq!(state.view, view, "{key:?}");
        }
        assert!(state.key(Key::Help) && state.help);
        assert!(state.key(Key::Escape) && !state.help, "the first one closes the help");
        assert!(!state.key(Key::Escape) && !state.key(Key::Quit));
    }

    #[test]
    fn a_pause_holds_the_picture_and_samples_go_on() {
        let mut state = State::new(String::new(), String::new());
        state.take(sample(1));
        state.key(Key::Pause);
        state.take(sample(2));
        assert_eq!((state.shown().len(), state.is_paused()), (1, true));
        state.key(Key::Pause);
        assert_eq!((state.shown().len(), state.is_paused()), (2, false));
    }

    #[test]
    fn a_target_that_is_gone_comes_back() {
        let mut state = State::new(String::new(), String::new());
        state.take(sample(5));
        state.fail(6_000_000, "gone".into());
        state.fail(7_000_000, "still gone".into());
        assert_eq!(state.trouble, Some((6_000_000, "still gone".into())));
        state.take(sample(5));
        assert!(state.trouble.is_some(), "an old sample is no news");
        state.take(sample(8));
        assert_eq!((state.trouble.clone(), state.shown().len()), (None, 2));
        (9..2000).for_each(|second| state.take(sample(second)));
        assert_eq!(state.shown().len(), KEPT);
    }
}
