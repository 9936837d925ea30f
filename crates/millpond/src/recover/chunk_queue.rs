//! A bounded queue that carries the log from the thread that reads and checks it to the threads
//! that use it, a chunk at a time. So reading goes on while earlier chunks are processed.

use crate::error::Result;
use crate::log::group::{GROUP_BYTES_MAX, GROUP_HEADER_BYTES};
use crate::log::reader::Scanner;
use base::Lsn;
use base::aligned_vec::AlignedVec;
use base::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a chunk, the last group included.
pub(super) const CHUNK_BYTES: usize = 2 << 20;
const _: () = assert!(CHUNK_BYTES > GROUP_BYTES_MAX);

/// Consecutive groups of the log, checked.
#[derive(Debug, Default)]
pub(crate) struct LogChunk {
    /// LSN at which the first group may begin.
    pub(crate) from: Lsn,
    bytes: AlignedVec,
    /// For each group its LSN, and where in `bytes` its records begin and end.
    groups: Vec<(Lsn, usize, usize)>,
}

impl LogChunk {
    /// Reads the next chunk, up to `end` and not much longer than `most` bytes, in place of what it
    /// was. False: the log ends.
    pub(super) fn refill(&mut self, scanner: &mut Scanner<'_>, end: Lsn, most: usize) -> Result<bool> {
        let most = most.clamp(1, CHUNK_BYTES - GROUP_BYTES_MAX);
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

    /// Returns each group's LSN and records.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (Lsn, &[u8])> {
        self.groups.iter().map(|&(lsn, start, end)| (lsn, &self.bytes[start..end]))
    }

    /// Returns the LSN of the last group, and where it ends. Padding may follow.
    pub(crate) fn last(&self) -> (Lsn, Lsn) {
        let span = |&(lsn, start, end): &(Lsn, usize, usize)| {
            (lsn, lsn.plus((end - start + GROUP_HEADER_BYTES) as u64))
        };
        let (last, end) = self.groups.last().map_or((self.from, self.from), span);
        base::verify!(self.from <= last && last <= end, "a chunk from {} ends at {end}", self.from);
        (last, end)
    }
}

/// Carries every chunk, or what was made of it, from one thread to each of the takers, in order.
#[derive(Debug)]
pub(crate) struct BoundedQueue<T> {
    /// Chunks that may wait for one taker.
    waiting_max: usize,
    mu: Mutex<QueueState<T>>,
    /// A chunk was put, or the queue was closed.
    filled: Condvar,
    /// A chunk was taken.
    taken: Condvar,
}

#[derive(Debug)]
struct QueueState<T> {
    waiting: Vec<VecDeque<Arc<T>>>,
    /// Used chunks, kept for their memory.
    spare: Vec<T>,
    closed: bool,
    abandoned: bool,
}

impl<T: Default> BoundedQueue<T> {
    /// A queue with `takers` takers, for each of which `waiting_max` chunks may wait.
    pub(crate) fn new(takers: usize, waiting_max: usize) -> Arc<BoundedQueue<T>> {
        let waiting = (0..takers).map(|_| VecDeque::new()).collect();
        let state = QueueState { waiting, spare: Vec::new(), closed: false, abandoned: false };
        Arc::new(BoundedQueue {
            waiting_max,
            mu: Mutex::new(state),
            filled: Condvar::new(),
            taken: Condvar::new(),
        })
    }

    /// Returns a chunk to be filled, with the memory of a used one if there is one.
    pub(crate) fn spare(&self) -> T {
        self.mu.lock().spare.pop().unwrap_or_default()
    }

    /// Takes back a chunk that a taker has used.
    pub(crate) fn give_back(&self, chunk: Arc<T>) {
        if let Some(last) = Arc::into_inner(chunk) {
            self.mu.lock().spare.push(last);
        }
    }

    /// Puts a chunk on the queue, once every taker has room for it. Returns false if a taker has
    /// failed.
    pub(crate) fn put(&self, chunk: T) -> bool {
        let chunk = Arc::new(chunk);
        let mut state = self.mu.lock();
        while !state.abandoned && state.waiting.iter().any(|queue| queue.len() >= self.waiting_max) {
            self.taken.wait(&mut state);
        }
        if state.abandoned {
            return false;
        }
        base::check!(!state.closed, "a chunk is put on a closed queue");
        for queue in &mut state.waiting {
            queue.push_back(Arc::clone(&chunk));
        }
        drop(state);
        self.filled.notify_all();
        true
    }
}

impl<T> BoundedQueue<T> {
    /// Closes the queue: no chunk follows.
    pub(crate) fn close(&self) {
        self.mu.lock().closed = true;
        self.filled.notify_all();
    }

    /// Waits for the next chunk for `taker`. Returns `None` at the end.
    pub(crate) fn take(&self, taker: usize) -> Option<Arc<T>> {
        let mut state = self.mu.lock();
        loop {
            if let Some(chunk) = state.waiting[taker].pop_front() {
                drop(state);
                self.taken.notify_one();
                return Some(chunk);
            }
            if state.closed || state.abandoned {
                return None;
            }
            self.filled.wait(&mut state);
        }
    }

    /// Says that a taker has failed: the other threads need not go on.
    pub(super) fn abandon(&self) {
        let mut state = self.mu.lock();
        state.abandoned = true;
        state.waiting.iter_mut().for_each(VecDeque::clear);
        drop(state);
        self.filled.notify_all();
        self.taken.notify_all();
    }
}

/// Closes the queue when it is dropped, also by a panic, so that no taker waits for ever.
#[derive(Debug)]
pub(crate) struct CloseOnDrop<T>(pub(crate) Arc<BoundedQueue<T>>);

impl<T> Drop for CloseOnDrop<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Abandons the queue when it is dropped, unless defused: a taker that panicked takes nothing more.
#[derive(Debug)]
pub(crate) struct AbandonOnDrop<T>(Option<Arc<BoundedQueue<T>>>);

impl<T> AbandonOnDrop<T> {
    /// A guard for a taker of `queue`.
    pub(crate) fn new(queue: &Arc<BoundedQueue<T>>) -> AbandonOnDrop<T> {
        AbandonOnDrop(Some(Arc::clone(queue)))
    }

    /// Says that the taker has reached the end.
    pub(super) fn defuse(mut self) {
        self.0 = None;
    }
}

impl<T> Drop for AbandonOnDrop<T> {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.abandon();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_taker_gets_every_chunk_in_order() {
        let queue = BoundedQueue::<u64>::new(3, 4);
        let takers: Vec<_> = (0..3)
            .map(|taker| {
                let queue = Arc::clone(&queue);
                let take = move || std::iter::from_fn(|| queue.take(taker)).map(|n| *n).collect::<Vec<_>>();
                base::sync::spawn("taker", take).unwrap()
            })
            .collect();
        let closing = CloseOnDrop(Arc::clone(&queue));
        for n in 0..100 {
            assert!(queue.put(n));
        }
        drop(closing);
        for taker in takers {
            assert_eq!(taker.join().unwrap(), (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_taker_that_fails_stops_all() {
        let queue = BoundedQueue::<u64>::new(2, 4);
        for n in 0..4 {
            assert!(queue.put(n));
        }
        let other = {
            let queue = Arc::clone(&queue);
            base::sync::spawn("taker", move || drop(AbandonOnDrop::new(&queue))).unwrap()
        };
        // No taker takes anything: only the other's failure ends this wait.
        assert!(!queue.put(100));
        other.join().unwrap();
        assert!(queue.take(0).is_none());
        AbandonOnDrop::new(&queue).defuse();
    }
}
