//! [`Gate`]: what is still admitted while the database closes, and the sleeps that closing ends.

use crate::error::{Error, Poison, Result};
use base::sync::atomic::{AtomicU32, Ordering};
use base::sync::{futex_wait, futex_wake};
use std::sync::Arc;
use std::time::Duration;

const OPEN: u32 = 0;
/// No row operation is admitted any more. Rollback and purge are.
const CLOSING: u32 = 1;
/// Nothing is admitted any more.
const CLOSED: u32 = 2;

/// Who asks. Each is refused from a value of `Gate::closed` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Asker {
    /// A call of the program, which closing waits for.
    Caller = CLOSING as isize,
    /// Rollback and purge in the background. On a full disk closing needs their work.
    Background = CLOSED as isize,
}

/// Open, closing or closed.
#[derive(Debug)]
pub(super) struct Gate {
    /// [`OPEN`], [`CLOSING`] or [`CLOSED`]. Sleepers wait on this word.
    closed: AtomicU32,
    poison: Arc<Poison>,
}

impl Gate {
    pub(super) fn new(poison: Arc<Poison>) -> Gate {
        Gate { closed: AtomicU32::new(OPEN), poison }
    }

    /// An error if the database is poisoned, or closed to the asker.
    pub(super) fn check(&self, asker: Asker) -> Result {
        self.poison.check()?;
        if self.is_closed(asker) { Err(Error::Closed) } else { Ok(()) }
    }

    /// An error if the database is poisoned.
    pub(super) fn check_poison(&self) -> Result {
        self.poison.check()
    }

    pub(super) fn is_closed(&self, asker: Asker) -> bool {
        self.closed.load(Ordering::Acquire) >= asker as u32
    }

    /// Sleeps once; closing and [`Gate::wake`] end it.
    pub(super) fn sleep(&self, delay_us: u64, asker: Asker) {
        let closed = self.closed.load(Ordering::Acquire);
        if closed < asker as u32 {
            futex_wait(&self.closed, closed, Some(Duration::from_micros(delay_us)));
        }
    }

    /// Admits no more of this asker, and nothing that is refused before it. The caller then wakes
    /// those that sleep.
    pub(super) fn close(&self, asker: Asker) {
        self.closed.fetch_max(asker as u32, Ordering::AcqRel);
    }

    /// Wakes all that sleep.
    pub(super) fn wake(&self) {
        futex_wake(&self.closed, u32::MAX >> 1);
    }
}
