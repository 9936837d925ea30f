//! Ctrl-C: the first asks the command to stop and tidy up, the second removes what the run made and leaves at once.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

static ASKED: AtomicBool = AtomicBool::new(false);
/// The directory that this process made and has not yet decided to keep.
static MADE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// A file that would grow beyond the limit on the size of files (`ulimit -f`) is an error of the call that wrote, which the engine takes
/// for a full disk. The signal that comes with it would end the program.
pub(crate) fn survive_large_files() {
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Starts to listen for SIGINT, SIGTERM and SIGHUP. Once in a process.
pub(crate) fn install() {
    // Where this fails Ctrl-C still ends the program; only the directory stays behind.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if ASKED.swap(true, Ordering::SeqCst) {
                leave();
            }
        }
    });
}

fn leave() -> ! {
    if let Some(dir) = MADE.lock().ok().and_then(|mut made| made.take()) {
        let _ = std::fs::remove_dir_all(dir);
    }
    std::process::exit(1)
}

/// Whether the user asked to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Fails if the user asked to stop.
pub(crate) fn check() -> Result<(), Failure> {
    if asked() { Err(Failure::failed("interrupted before the work was done")) } else { Ok(()) }
}

/// Tells the handler what to remove when it has to leave at once.
pub(crate) fn remember(made: Option<PathBuf>) {
    if let Ok(mut slot) = MADE.lock() {
        *slot = made;
    }
}
