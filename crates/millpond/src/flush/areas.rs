//! The areas of the doublewrite, each with the memory for the copies of one batch. A batch holds an
//! area from its first copy until it is synced in place, so no area is used again too early (To2).
//! As many batches as there are areas are under way at the same time.

use base::aligned::AlignedBuf;
use base::sync::{Condvar, Mutex};

/// An area that no batch uses.
#[derive(Debug)]
struct FreeArea {
    number: usize,
    copies: AlignedBuf,
}

#[derive(Debug)]
struct State {
    free: Vec<FreeArea>,
    /// Areas in use.
    taken: usize,
    /// The next caller's number, and the number that is served next: areas are given out in the
    /// order in which threads ask, so no thread waits for ever.
    next_ticket: u64,
    serving: u64,
}

/// All areas.
#[derive(Debug)]
pub(super) struct Areas {
    state: Mutex<State>,
    returned: Condvar,
}

/// An area in the hands of one batch.
#[derive(Debug)]
pub(super) struct TakenArea<'a> {
    areas: &'a Areas,
    /// Which area of the doublewrite it is.
    pub(super) number: usize,
    /// Memory for the copies of a batch.
    pub(super) copies: AlignedBuf,
}

impl Areas {
    /// Returns `count` areas, each with memory for `bytes` of copies.
    pub(super) fn new(count: usize, bytes: usize) -> Areas {
        let free = (0..count).rev().map(|number| FreeArea { number, copies: AlignedBuf::zeroed(bytes) });
        let state = State { free: free.collect(), taken: 0, next_ticket: 0, serving: 0 };
        Areas { state: Mutex::new(state), returned: Condvar::new() }
    }

    /// Takes an area; waits if all are in use.
    pub(super) fn take(&self) -> TakenArea<'_> {
        let mut state = self.state.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        loop {
            if state.serving == ticket
                && let Some(FreeArea { number, copies }) = state.free.pop()
            {
                state.serving += 1;
                state.taken += 1;
                drop(state);
                self.returned.notify_all();
                return TakenArea { areas: self, number, copies };
            }
            self.returned.wait(&mut state);
        }
    }

    /// Waits until the batches that are under way now have ended. REQUIRES: the caller holds no
    /// area, and no other thread is in this call.
    pub(super) fn await_all(&self, count: usize) {
        drop((0..count).map(|_| self.take()).collect::<Vec<_>>());
    }

    /// Waits while `must` says so; asks it again whenever an area was returned. Returns at once if
    /// no area is in use.
    pub(super) fn wait_while(&self, must: impl Fn() -> bool) {
        let mut state = self.state.lock();
        while state.taken > 0 && must() {
            self.returned.wait(&mut state);
        }
    }
}

impl Drop for TakenArea<'_> {
    fn drop(&mut self) {
        let copies = std::mem::replace(&mut self.copies, AlignedBuf::zeroed(1));
        let mut state = self.areas.state.lock();
        state.free.push(FreeArea { number: self.number, copies });
        state.taken -= 1;
        drop(state);
        self.areas.returned.notify_all();
    }
}
