//! Hands the log from the one thread that reads and checks it to those that use it, a stretch at a time, so that reading
//! is under way while what has been read is worked on.

use crate::error::Result;
use crate::log::group::{GROUP_BYTES_MAX, GROUP_HEADER_BYTES};
use crate::log::reader::Scanner;
use base::Lsn;
use base::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a stretch, about.
const STRETCH_BYTES: usize = 512 << 10;
/// Fewer stretches than this never wait for a taker before their reader does.
const WAITING_MIN: usize = 4;

/// Groups in a row, checked.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    /// Where the first one stands.
    pub(crate) from: Lsn,
    bytes: Vec<u8>,
    /// Of each group its LSN, and where in `bytes` its records begin and end.
    groups: Vec<(Lsn, usize, usize)>,
}

impl Stretch {
    /// Reads the next stretch, up to `end` and not much longer than `most` bytes, in place of what it was. False: the log
    /// ends.
    pub(crate) fn refill(&mut self, scanner: &mut Scanner<'_>, end: Lsn, most: usize) -> Result<bool> {
        let most = most.clamp(1, STRETCH_BYTES);
        self.bytes.clear();
        self.groups.clear();
        self.from = scanner.position();
        // The last group may be longer than what was left.
        self.bytes.reserve(most + GROUP_BYTES_MAX);
        while self.bytes.len() < most && scanner.position() < end {
            let start = self.bytes.len();
            let Some(lsn) = scanner.append_next(&mut self.bytes)? else { break };
            base::verify!(
                self.groups.last().is_none_or(|last| last.0 < lsn) && lsn >= self.from,
                "the group at {lsn} comes late"
            );
            self.groups.push((lsn, start + GROUP_HEADER_BYTES, self.bytes.len()));
        }
        Ok(!self.groups.is_empty())
    }

    /// Each group's LSN and where its records lie in [`Stretch::bytes`].
    pub(crate) fn groups(&self) -> impl Iterator<Item = (Lsn, &[u8])> {
        self.groups.iter().map(|&(lsn, start, end)| (lsn, &self.bytes[start..end]))
    }

    /// The LSN of the last group, and where it ends: padding may follow.
    pub(crate) fn last(&self) -> (Lsn, Lsn) {
        let span = |&(lsn, start, end): &(Lsn, usize, usize)| {
            (lsn, lsn.plus((end - start + GROUP_HEADER_BYTES) as u64))
        };
        let (last, end) = self.groups.last().map_or((self.from, self.from), span);
        base::verify!(self.from <= last && last <= end, "a stretch from {} ends at {end}", self.from);
        (last, end)
    }

    /// All groups, headers included.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where in [`Stretch::bytes`] a part of them lies. REQUIRES: `part` is one.
    pub(crate) fn offset_of(&self, part: &[u8]) -> usize {
        let at = (part.as_ptr() as usize).wrapping_sub(self.bytes.as_ptr() as usize);
        base::verify!(
            at <= self.bytes.len() && part.len() <= self.bytes.len() - at,
            "no part of the stretch"
        );
        at
    }
}

/// Takes every stretch, or what was made of it, from one thread to each of the takers, in order.
#[derive(Debug)]
pub(crate) struct Belt<T> {
    /// Stretches that may wait for one taker.
    waiting_max: usize,
    mu: Mutex<State<T>>,
    /// Something was put on the belt, or it ended.
    filled: Condvar,
    /// Something was taken off it.
    taken: Condvar,
}

#[derive(Debug)]
struct State<T> {
    waiting: Vec<VecDeque<Arc<T>>>,
    /// Those that nobody needs any more, for their memory.
    spare: Vec<T>,
    ended: bool,
    abandoned: bool,
}

impl<T: Default> Belt<T> {
    /// A belt with so many takers, for each of which about `bytes` of the log may wait.
    pub(crate) fn new(takers: usize, bytes: usize) -> Arc<Belt<T>> {
        let waiting = (0..takers).map(|_| VecDeque::new()).collect();
        let state = State { waiting, spare: Vec::new(), ended: false, abandoned: false };
        Arc::new(Belt {
            waiting_max: (bytes / STRETCH_BYTES).max(WAITING_MIN),
            mu: Mutex::new(state),
            filled: Condvar::new(),
            taken: Condvar::new(),
        })
    }

    /// One to be filled, with an old one's memory if there is one.
    pub(crate) fn spare(&self) -> T {
        self.mu.lock().spare.pop().unwrap_or_default()
    }

    /// Takes one back with which a taker is done.
    pub(crate) fn give_back(&self, stretch: Arc<T>) {
        if let Some(last) = Arc::into_inner(stretch) {
            self.mu.lock().spare.push(last);
        }
    }

    /// Puts a stretch on the belt, once every taker has room for it. False if a taker has given up.
    pub(crate) fn put(&self, stretch: T) -> bool {
        let stretch = Arc::new(stretch);
        let mut state = self.mu.lock();
        while !state.abandoned && state.waiting.iter().any(|queue| queue.len() >= self.waiting_max) {
            self.taken.wait(&mut state);
        }
        if state.abandoned {
            return false;
        }
        base::check!(!state.ended, "a belt that has ended is given more");
        for queue in &mut state.waiting {
            queue.push_back(Arc::clone(&stretch));
        }
        drop(state);
        self.filled.notify_all();
        true
    }
}

impl<T> Belt<T> {
    /// Nothing follows.
    pub(crate) fn end(&self) {
        self.mu.lock().ended = true;
        self.filled.notify_all();
    }

    /// The next stretch for `taker`, if one is waiting.
    pub(crate) fn try_take(&self, taker: usize) -> Option<Arc<T>> {
        let stretch = self.mu.lock().waiting[taker].pop_front()?;
        self.taken.notify_one();
        Some(stretch)
    }

    /// The next stretch for `taker`; `None` at the end.
    pub(crate) fn take(&self, taker: usize) -> Option<Arc<T>> {
        let mut state = self.mu.lock();
        loop {
            if let Some(stretch) = state.waiting[taker].pop_front() {
                drop(state);
                self.taken.notify_one();
                return Some(stretch);
            }
            if state.ended || state.abandoned {
                return None;
            }
            self.filled.wait(&mut state);
        }
    }

    /// A taker has failed: nobody need go on.
    pub(crate) fn abandon(&self) {
        let mut state = self.mu.lock();
        state.abandoned = true;
        state.waiting.iter_mut().for_each(VecDeque::clear);
        drop(state);
        self.filled.notify_all();
        self.taken.notify_all();
    }
}

/// Ends the belt when it goes, also by a panic: whoever takes from it must not wait for ever.
#[derive(Debug)]
pub(crate) struct Ending<T>(pub(crate) Arc<Belt<T>>);

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Abandons the belt when it goes, unless defused: a taker that is gone takes nothing more.
#[derive(Debug)]
pub(crate) struct Abandoning<T>(Option<Arc<Belt<T>>>);

impl<T> Abandoning<T> {
    /// Watches over a taker of `belt`.
    pub(crate) fn new(belt: &Arc<Belt<T>>) -> Abandoning<T> {
        Abandoning(Some(Arc::clone(belt)))
    }

    /// The taker has got to the end.
    pub(crate) fn defuse(mut self) {
        self.0 = None;
    }
}

impl<T> Drop for Abandoning<T> {
    fn drop(&mut self) {
        if let Some(belt) = self.0.take() {
            belt.abandon();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_taker_gets_every_stretch_in_order() {
        let belt = Belt::<u64>::new(3, 0);
        let takers: Vec<_> = (0..3)
            .map(|taker| {
                let belt = Arc::clone(&belt);
                let take = move || std::iter::from_fn(|| belt.take(taker)).map(|n| *n).collect::<Vec<_>>();
                base::sync::spawn("taker", take).unwrap()
            })
            .collect();
        let ending = Ending(Arc::clone(&belt));
        for n in 0..100 {
            assert!(belt.put(n));
        }
        drop(ending);
        for taker in takers {
            assert_eq!(taker.join().unwrap(), (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn one_that_gives_up_stops_all() {
        let belt = Belt::<u64>::new(2, 0);
        for n in 0..WAITING_MIN as u64 {
            assert!(belt.put(n));
        }
        let other = {
            let belt = Arc::clone(&belt);
            base::sync::spawn("taker", move || drop(Abandoning::new(&belt))).unwrap()
        };
        // Nobody takes anything: only the other's failure ends this wait.
        assert!(!belt.put(100));
        other.join().unwrap();
        assert!(belt.take(0).is_none());
        Abandoning::new(&belt).defuse();
    }
}
