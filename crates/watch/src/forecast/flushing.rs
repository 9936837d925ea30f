//! Whether InnoDB's flushing holds the age between its soft limit and its limit.
//!
//! At the soft limit InnoDB begins to write the pages whose first change is oldest, at most
//! `innodb_io_capacity_max` of them a second. As long as it writes so many, the checkpoint stands
//! (measured with MariaDB 10.11): it moves when a pass is complete, that is when no page is left
//! whose first change lies further back than the soft limit. So the race is between the redo, which
//! needs a known time from the soft limit to the limit, and a number of pages that is known too. At
//! the beginning of a load this number is large, because each change meets a page that is clean.

use super::point::Flushing;
use std::collections::VecDeque;

/// The most seconds of the past that are kept.
const KEPT: usize = 900;
/// The step in which the race is followed, seconds.
const STEP_S: f64 = 0.5;
/// The checkpoint of a pass is written so long after it began to write pages, and the time for
/// these, seconds.
const DELAY_S: f64 = 1.0;

/// How the log grew, and how many pages were dirty and were written meanwhile; oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    steps: VecDeque<Flushing>,
}

impl Past {
    /// Takes a second, and forgets what is before the checkpoint.
    pub(super) fn take(&mut self, now: Flushing, checkpoint: f64) {
        self.steps.push_back(now);
        while self.steps.len() > 2 && self.steps[1].end <= checkpoint {
            self.steps.pop_front();
        }
        if self.steps.len() > KEPT {
            // A long log is remembered with fewer steps, from the checkpoint on all the same.
            let half = self.steps.len() / 2;
            let thinned = self.steps.iter().enumerate().filter(|(i, _)| *i >= half || i % 2 == 0);
            self.steps = thinned.map(|(_, step)| *step).collect();
        }
    }

    /// Whether the limit is reached: the redo fills the room between both limits before the pass is
    /// complete. The checkpoint is that of now; until the soft limit it does not move.
    pub(super) fn is_lost(&self, checkpoint: f64, redo: f64, room: f64) -> bool {
        let Some(now) = self.steps.back() else { return false };
        if redo <= 0.0 {
            return false;
        }
        let mut seconds = STEP_S;
        while seconds <= room / redo {
            let written = now.force * (seconds - DELAY_S).max(0.0);
            if written >= self.pages_before(checkpoint + redo * seconds, now) {
                return false;
            }
            seconds += STEP_S;
        }
        true
    }

    /// Returns how many of the pages that are dirty now were first changed before this position of
    /// the log: those that were dirty then, without what was written since, oldest first.
    fn pages_before(&self, position: f64, now: &Flushing) -> f64 {
        let (dirty, written) = self.at(position);
        (dirty - (now.written - written)).min(now.dirty)
    }

    /// Returns the dirty pages and the written ones when the log ended here.
    fn at(&self, position: f64) -> (f64, f64) {
        let after = self.steps.partition_point(|step| step.end < position);
        let one = self.steps.get(after.saturating_sub(1));
        let (Some(one), Some(next)) = (one, self.steps.get(after).or(self.steps.back())) else {
            return (0.0, 0.0);
        };
        let width = next.end - one.end;
        let part = if width > 0.0 { ((position - one.end) / width).clamp(0.0, 1.0) } else { 1.0 };
        let between = |a: f64, b: f64| a + part * (b - a);
        (between(one.dirty, next.dirty), between(one.written, next.written))
    }
}
