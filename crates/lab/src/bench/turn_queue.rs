//! A bare queue of threads that take turns. It shows what the machine can do without an engine.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A thread that waits for its turn.
struct QueuedThread {
    thread: Thread,
    has_turn: AtomicBool,
}

#[derive(Default)]
struct QueueState {
    busy: bool,
    waiting: VecDeque<Arc<QueuedThread>>,
}

/// A queue of threads, served in the order of their arrival.
#[derive(Default)]
pub(super) struct TurnQueue(Mutex<QueueState>);

impl TurnQueue {
    /// Parks until this thread has the turn, works for so long, and passes the turn on.
    pub(super) fn take_turn(&self, work: Duration) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut state.busy, true) {
            let waiter =
                Arc::new(QueuedThread { thread: std::thread::current(), has_turn: AtomicBool::new(false) });
            state.waiting.push_back(Arc::clone(&waiter));
            drop(state);
            while !waiter.has_turn.load(Ordering::Acquire) {
                std::thread::park();
            }
        } else {
            drop(state);
        }
        let from = Instant::now();
        while from.elapsed() < work {
            std::hint::spin_loop();
        }
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = state.waiting.pop_front();
        state.busy = next.is_some();
        drop(state);
        if let Some(next) = next {
            next.has_turn.store(true, Ordering::Release);
            next.thread.unpark();
        }
    }
}
