//! The gate of all public calls: closing the database refuses new calls and waits for those inside.

use crate::engine::{ActiveCall, ActiveCalls};
use crate::error::{Error, Result};
use base::sync::atomic::{AtomicBool, Ordering};
use base::sync::spin;

/// Whether the database is open, and how many calls are inside.
#[derive(Debug, Default)]
pub(super) struct CallGate {
    closed: AtomicBool,
    calls: ActiveCalls,
}

impl CallGate {
    /// Makes an open gate that counts its calls in `crowd`.
    pub(super) fn new(calls: &ActiveCalls) -> CallGate {
        CallGate { closed: AtomicBool::new(false), calls: calls.clone() }
    }

    /// Begins a call. Errors: `Closed` after [`CallGate::close`].
    #[inline]
    pub(super) fn enter(&self) -> Result<ActiveCall<'_>> {
        let inside = self.calls.enter();
        if self.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(inside) }
    }

    /// Checks that the gate is open, without beginning a call. Errors: `Closed`.
    #[inline]
    pub(super) fn check_open(&self) -> Result {
        if self.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Closes the gate. Returns false if it was closed before.
    pub(super) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::SeqCst)
    }

    /// Waits until no call is inside. REQUIRES: the gate is closed, and no call inside waits for
    /// the caller.
    pub(super) fn drain(&self) {
        let mut turn = 0;
        self.calls.drain(|| spin(&mut turn));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn closing_waits_for_calls_inside_and_refuses_new_ones() {
        let gate = Arc::new(CallGate::default());
        let inside = gate.enter().unwrap();
        assert!(gate.close() && !gate.close());
        assert!(matches!(gate.enter(), Err(Error::Closed)));
        let waiter = {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || gate.drain())
        };
        assert!(!waiter.is_finished());
        drop(inside);
        waiter.join().unwrap();
    }
}
