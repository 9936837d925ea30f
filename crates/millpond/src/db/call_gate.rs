//! The gate of all public calls: closing the database refuses new calls and waits for those inside.
//! A process made by `fork` does not pass it: it has a copy of the memory, but not the threads, and
//! its files are those of its parent.

use crate::engine::{ActiveCall, ActiveCalls};
use crate::error::{Error, Result};
use base::sync::atomic::{AtomicBool, Ordering};
use base::sync::{ProcessStamp, spin};

/// Whether the database is open, and how many calls are inside.
#[derive(Debug)]
pub(super) struct CallGate {
    /// The process that opened the database.
    process: ProcessStamp,
    closed: AtomicBool,
    calls: ActiveCalls,
}

impl CallGate {
    /// Makes an open gate that counts its calls in `crowd`.
    pub(super) fn new(calls: &ActiveCalls) -> CallGate {
        CallGate { process: ProcessStamp::here(), closed: AtomicBool::new(false), calls: calls.clone() }
    }

    /// Whether this is a child of the process that opened the database.
    #[inline]
    pub(super) fn is_in_child(&self) -> bool {
        !self.process.is_here()
    }

    /// Fails in a child of the process that opened the database.
    #[inline]
    pub(super) fn check_process(&self) -> Result {
        if self.is_in_child() { Err(Error::Forked) } else { Ok(()) }
    }

    /// Begins a call. Errors: `Closed` after [`CallGate::close`]; `Forked`.
    #[inline]
    pub(super) fn enter(&self) -> Result<ActiveCall<'_>> {
        self.check_process()?;
        let inside = self.calls.enter();
        if self.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(inside) }
    }

    /// Checks that the gate is open, without beginning a call. Errors: `Closed`, `Forked`.
    #[inline]
    pub(super) fn check_open(&self) -> Result {
        self.check_process()?;
        if self.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Closes the gate. Returns false if it was closed before.
    pub(super) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::SeqCst)
    }

    /// Waits until no call is inside. REQUIRES: the gate is closed, and no call inside waits for
    /// the caller.
    pub(super) fn drain(&self) {
        let mut spins = 0;
        self.calls.drain(|| spin(&mut spins));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn closing_waits_for_calls_inside_and_refuses_new_ones() {
        let gate = Arc::new(CallGate::new(&ActiveCalls::default()));
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
