//! How good a forecast was: a pure count over what it said and what came. `docs/forecast.md` has
//! the definitions in words.

use serde::Serialize;

/// From this part of the limit on the age has reached it.
pub(super) const REACHED: f64 = 0.99;
/// Below this part of it, for [`CALM_S`] seconds, the age is away from its limit. Only then the
/// next time that it is reached is another event.
pub(super) const CALM: f64 = 0.9;
/// See [`CALM`].
pub(super) const CALM_S: f64 = 5.0;
/// An event is foreseen if it was said so many seconds before.
pub(super) const AHEAD_S: f64 = 10.0;
/// What was said came true if the limit is reached within so many times the seconds that were said.
const PATIENCE: f64 = 2.0;
/// Fewer seconds are taken as these: a sample a second knows no better.
const LEAST_S: f64 = 5.0;
/// A forecast that is not said for so many seconds and then again is one.
const PAUSE_S: f64 = 2.5;
/// The rise to the limit begins after the last fall by more than this part of the limit,
const FALL: f64 = 0.2;
/// and there where the age was last no more than this part of its way above its lowest.
const FOOT: f64 = 0.1;
/// Samples that are further apart belong to two pieces, each of which is judged alone.
const GAP_S: f64 = 5.0;

/// One second: how high the age was, and what was said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment {
    /// The time, seconds.
    pub(crate) seconds: f64,
    /// The age of its limit.
    pub(crate) share: f64,
    /// The soft limit of the limit, where there is one.
    pub(crate) soft: f64,
    /// The seconds to the limit that were said, if any were.
    pub(crate) left: Option<f64>,
}

/// The age has reached its limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Event {
    /// When, seconds from the beginning.
    pub(crate) at: f64,
    /// How long the whole rise took, seconds.
    pub(crate) rise: f64,
    /// For how long the age had been at its soft limit or above without a pause, seconds.
    pub(crate) above_soft: f64,
    /// How long before it was said, seconds.
    pub(crate) lead: Option<f64>,
}

impl Event {
    /// Whether the whole rise was shorter than what a forecast is to be ahead.
    pub(crate) fn is_too_fast(&self) -> bool {
        self.rise.round() < AHEAD_S
    }

    /// Whether it was said soon enough.
    pub(crate) fn is_foreseen(&self) -> bool {
        self.lead.is_some_and(|lead| lead.round() >= AHEAD_S)
    }
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Score {
    /// The time that was judged, seconds.
    pub(crate) seconds: f64,
    /// The times that the limit was reached.
    pub(crate) events: Vec<Event>,
    /// Forecasts after which it was reached in time.
    pub(crate) right: usize,
    /// When those were said after which it was not.
    pub(crate) wrong: Vec<f64>,
    /// Forecasts whose time was not over at the end.
    pub(crate) open: usize,
}

impl Score {
    /// Adds the score of another part.
    pub(crate) fn add(&mut self, other: &Score) {
        self.seconds += other.seconds;
        self.events.extend(&other.events);
        self.right += other.right;
        self.wrong.extend(&other.wrong);
        self.open += other.open;
    }

    /// Returns how many events were too fast to be foreseen.
    pub(crate) fn too_fast(&self) -> usize {
        self.events.iter().filter(|event| event.is_too_fast()).count()
    }

    /// Returns how many of the others were foreseen.
    pub(crate) fn foreseen(&self) -> usize {
        self.events.iter().filter(|event| !event.is_too_fast() && event.is_foreseen()).count()
    }

    /// Returns the share of the events that were foreseen, without those that were too fast.
    pub(crate) fn recall(&self) -> Option<f64> {
        ratio(self.foreseen(), self.events.len() - self.too_fast())
    }

    /// Returns the share of the forecasts that came true.
    pub(crate) fn precision(&self) -> Option<f64> {
        ratio(self.right, self.right + self.wrong.len())
    }

    /// Returns the false alarms an hour.
    pub(crate) fn false_an_hour(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.wrong.len() as f64 * 3600.0 / self.seconds)
    }
}

fn ratio(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Counts.
pub(crate) fn score(moments: &[Moment]) -> Score {
    let mut whole = Score::default();
    for piece in moments.chunk_by(|one, next| next.seconds - one.seconds <= GAP_S) {
        whole.add(&score_piece(piece));
    }
    whole
}

fn score_piece(piece: &[Moment]) -> Score {
    let seconds = piece.last().map_or(0.0, |last| last.seconds - piece[0].seconds);
    let mut score = Score { seconds, events: events(piece), ..Score::default() };
    count_forecasts(piece, &mut score);
    score
}

/// Finds the times that the limit was reached.
fn events(piece: &[Moment]) -> Vec<Event> {
    let mut found = Vec::new();
    let (mut low_since, mut is_away, mut since) = (None, false, 0);
    for (i, now) in piece.iter().enumerate() {
        low_since = (now.share < CALM).then(|| low_since.unwrap_or(now.seconds));
        is_away |= low_since.is_some_and(|low| now.seconds - low >= CALM_S);
        if is_away && now.share >= REACHED {
            found.push(event(piece, since, i));
            (is_away, since) = (false, i);
        }
    }
    found
}

/// Describes the event at a moment; the one before it was at `since`.
fn event(piece: &[Moment], since: usize, at: usize) -> Event {
    let (now, before) = (piece[at], &piece[since..=at]);
    let mut lowest = now.share;
    for moment in before.iter().rev() {
        if moment.share > lowest + FALL {
            break;
        }
        lowest = lowest.min(moment.share);
    }
    let foot = lowest + FOOT * (REACHED - lowest);
    let from = |wanted: &dyn Fn(&Moment) -> bool| {
        let last = before.iter().rev().find(|moment| wanted(moment));
        last.map_or(0.0, |last| now.seconds - last.seconds)
    };
    Event {
        at: now.seconds,
        rise: from(&|moment| moment.share <= foot),
        above_soft: (from(&|moment| moment.share < moment.soft) - 1.0).max(0.0),
        lead: lead(&piece[..at], now.seconds),
    }
}

/// Returns how long before an event it was said: since when without a pause, as far as the event
/// came within the patience of what was said.
fn lead(before: &[Moment], at: f64) -> Option<f64> {
    let (mut said_at, mut lead) = (at, None);
    for moment in before.iter().rev() {
        if said_at - moment.seconds > PAUSE_S {
            break;
        }
        if let Some(left) = moment.left {
            said_at = moment.seconds;
            if at - said_at <= PATIENCE * left.max(LEAST_S) {
                lead = Some(at - said_at);
            }
        }
    }
    lead
}

/// Counts which forecasts came true. A forecast that is still said when its time is over is another
/// one from then on.
fn count_forecasts(piece: &[Moment], score: &mut Score) {
    let (mut said_at, mut deadline) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for (i, now) in piece.iter().enumerate() {
        let Some(left) = now.left else { continue };
        let is_new = now.seconds - said_at > PAUSE_S || now.seconds > deadline;
        said_at = now.seconds;
        if !is_new {
            continue;
        }
        deadline = now.seconds + PATIENCE * left.max(LEAST_S);
        let mut later = piece[i..].iter().take_while(|moment| moment.seconds <= deadline);
        if later.any(|moment| moment.share >= REACHED) {
            score.right += 1;
        } else if piece.last().is_some_and(|last| last.seconds >= deadline) {
            score.wrong.push(now.seconds);
        } else {
            score.open += 1;
        }
    }
}

#[cfg(test)]
mod tests;
