//! The gate through which every call goes, so that closing can wait for those inside and keep others out.

use crate::engine::{Crowd, Inside};
use crate::error::{Error, Result};
use base::sync::atomic::{AtomicBool, Ordering};
use base::sync::spin;

/// Open or closed, and how many calls are inside.
#[derive(Debug, Default)]
pub(crate) struct CallGate {
    closed: AtomicBool,
    crowd: Crowd,
}

impl CallGate {
    /// A gate that counts who goes in.
    pub(crate) fn new(crowd: &Crowd) -> CallGate {
        CallGate { closed: AtomicBool::new(false), crowd: crowd.clone() }
    }

    /// Goes in; `Closed` if the gate is.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Inside<'_>> {
        let inside = self.crowd.enter();
        if self.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(inside) }
    }

    /// Looks in without going in: `Closed` if the gate is.
    #[inline]
    pub(crate) fn check_open(&self) -> Result {
        if self.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Closes the gate. False if it was closed before.
    pub(crate) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::SeqCst)
    }

    /// Waits until nobody is inside. REQUIRES: the gate is closed, and nothing inside waits for the caller.
    pub(crate) fn drain(&self) {
        let mut turn = 0;
        self.crowd.drain(|| spin(&mut turn));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn closing_waits_for_those_inside_and_keeps_others_out() {
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
