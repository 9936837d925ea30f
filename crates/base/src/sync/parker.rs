//! A parker: one thread waits for a token that other threads give, on a futex.

use super::atomic::{AtomicU32, Ordering};
use super::{futex_wait, futex_wake};
use std::sync::Arc;
use std::time::Duration;

/// Lets one thread wait for a token. A token that comes before the wait is kept; more than one is
/// not.
#[derive(Debug)]
pub struct Parker {
    state: Arc<AtomicU32>,
}

/// Gives the token to a [`Parker`].
#[derive(Clone, Debug)]
pub struct Unparker {
    state: Arc<AtomicU32>,
}

impl Parker {
    /// Makes a parker without a token.
    pub fn new() -> Self {
        Parker { state: Arc::new(AtomicU32::new(0)) }
    }

    /// Returns the end that gives the token.
    pub fn unparker(&self) -> Unparker {
        Unparker { state: Arc::clone(&self.state) }
    }

    /// Waits for the token and takes it.
    #[track_caller]
    pub fn park(&self) {
        while self.state.swap(0, Ordering::Acquire) == 0 {
            futex_wait(&self.state, 0, None);
        }
    }

    /// Waits for the token for at most `timeout`. Returns whether it came.
    #[track_caller]
    pub fn park_for(&self, timeout: Duration) -> bool {
        if self.state.swap(0, Ordering::Acquire) == 1 {
            return true;
        }
        futex_wait(&self.state, 0, Some(timeout));
        self.state.swap(0, Ordering::Acquire) == 1
    }
}

impl Unparker {
    /// Gives the token.
    pub fn unpark(&self) {
        if self.state.swap(1, Ordering::Release) == 0 {
            futex_wake(&self.state, 1);
        }
    }
}
