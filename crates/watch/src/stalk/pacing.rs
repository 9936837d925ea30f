//! When an event may begin: not soon after another, and only some a day. Pure: it is given the
//! second.

use std::collections::VecDeque;

const DAY: u64 = 86_400;
/// The cool-down is never longer than this, seconds.
const LONGEST: u64 = 3600;

/// Limits of events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// After an event none begins for so long, seconds.
    pub(crate) cool_down: u64,
    /// The most events of the last 24 hours.
    pub(crate) a_day: usize,
}

/// What has happened so far.
#[derive(Clone, Debug)]
pub(super) struct Pacing {
    pace: Pace,
    /// The cool-down of now.
    length: u64,
    ended: Option<u64>,
    begun: VecDeque<u64>,
}

/// Whether an event may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum May {
    Begin,
    /// Not before so many seconds are over.
    CoolDown(u64),
    /// Not before the oldest of the day is a day old.
    Enough,
}

impl Pacing {
    pub(super) fn new(pace: Pace) -> Pacing {
        Pacing { pace, length: pace.cool_down, ended: None, begun: VecDeque::new() }
    }

    /// Returns whether an event may begin now.
    pub(super) fn may(&mut self, now: u64) -> May {
        let free = self.ended.map_or(0, |ended| ended + self.length);
        if now < free {
            return May::CoolDown(free - now);
        }
        while self.begun.front().is_some_and(|begun| begun + DAY <= now) {
            self.begun.pop_front();
        }
        if self.begun.len() < self.pace.a_day { May::Begin } else { May::Enough }
    }

    /// Notes that an event begins. If it follows the one before within twice the cool-down, the
    /// next cool-down is twice as long.
    pub(super) fn begins(&mut self, now: u64) {
        let soon = self.ended.is_some_and(|ended| now < ended + 2 * self.length.max(1));
        self.length =
            if soon { (2 * self.length).min(LONGEST.max(self.pace.cool_down)) } else { self.pace.cool_down };
        self.begun.push_back(now);
    }

    /// Notes that it has ended.
    pub(super) fn ends(&mut self, now: u64) {
        self.ended = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use std::fmt::Write;

    /// Asks at these seconds; an event that may begin lasts for 60 s.
    fn script(pace: Pace, seconds: &[u64]) -> String {
        let (mut pacing, mut out) = (Pacing::new(pace), String::new());
        for second in seconds {
            let may = pacing.may(*second);
            let _ = writeln!(out, "{second}: {may:?}");
            if may == May::Begin {
                pacing.begins(*second);
                pacing.ends(second + 60);
            }
        }
        out
    }

    #[test]
    fn the_cool_down_doubles_while_events_repeat() {
        let pace = Pace { cool_down: 60, a_day: 9 };
        expect![[r#"
            100: Begin
            219: CoolDown(1)
            220: Begin
            399: CoolDown(1)
            400: Begin
            699: CoolDown(1)
            700: Begin
            5000: Begin
            5119: CoolDown(1)
            5120: Begin
        "#]]
        .assert_eq(&script(pace, &[100, 219, 220, 399, 400, 699, 700, 5000, 5119, 5120]));
    }

    #[test]
    fn a_day_has_only_so_many() {
        let pace = Pace { cool_down: 0, a_day: 2 };
        expect![[r#"
            100: Begin
            1000: Begin
            2000: Enough
            86499: Enough
            86500: Begin
            86501: CoolDown(59)
        "#]]
        .assert_eq(&script(pace, &[100, 1000, 2000, 86_499, 86_500, 86_501]));
    }
}
