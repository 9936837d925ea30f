//! The gate through which every call goes, so that closing can wait for those inside and keep others out.

use crate::error::{Error, Result};
use base::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use base::sync::{lane, spin};

/// Counters, so that threads do not share a cache line for this alone.
const STRIPES: usize = 16;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe(AtomicU32);

/// Open or closed, and how many calls are inside.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    closed: AtomicBool,
    stripes: [Stripe; STRIPES],
}

/// One call inside.
#[derive(Debug)]
pub(crate) struct Inside<'g>(&'g AtomicU32);

impl Gate {
    /// Goes in; `Closed` if the gate is.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Inside<'_>> {
        let stripe = &self.stripes[lane() % STRIPES].0;
        stripe.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(stripe);
        if self.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(inside) }
    }

    /// Looks in without going in: `Closed` if the gate is.
    #[inline]
    pub(crate) fn look(&self) -> Result {
        if self.closed.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Closes the gate. False if it was closed before.
    pub(crate) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::SeqCst)
    }

    /// Waits until nobody is inside. REQUIRES: the gate is closed, and nothing inside waits for the caller.
    pub(crate) fn drain(&self) {
        let mut turn = 0;
        for stripe in &self.stripes {
            while stripe.0.load(Ordering::SeqCst) > 0 {
                spin(&mut turn);
            }
        }
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn closing_waits_for_those_inside_and_keeps_others_out() {
        let gate = Arc::new(Gate::default());
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
