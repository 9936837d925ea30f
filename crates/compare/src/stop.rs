//! Ctrl-C and SIGTERM: the work ends early, what was made is removed, and the status says so.

use crate::peer::Result;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static STOPPED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on the signals end the work instead of the process.
pub fn listen() -> Result {
    let flag = STOPPED.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // A second one ends the process at once.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(flag))?;
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// An error once a signal has come.
#[inline]
pub fn check() -> Result {
    if STOPPED.get().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
        return Err("stopped by a signal".into());
    }
    Ok(())
}
