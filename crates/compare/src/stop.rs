//! Ctrl-C and SIGTERM: the work ends early, the databases are removed, and the exit status is a
//! failure.

use crate::peer::Result;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static STOPPED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Makes the signals end the work instead of the process. A second signal ends the process.
pub fn listen() -> Result {
    let flag = STOPPED.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(flag))?;
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Fails after a signal.
#[inline]
pub fn check() -> Result {
    if STOPPED.get().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
        return Err("stopped by a signal".into());
    }
    Ok(())
}
