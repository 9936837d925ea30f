//! Ctrl-C: the first one asks the command to stop and clean up; the second one deletes what the run
//! made and exits at once.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

static ASKED: AtomicBool = AtomicBool::new(false);
/// The directory that this process made and has not yet decided to keep.
static MADE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Ignores SIGXFSZ. A write beyond the limit on file sizes (`ulimit -f`) returns an error, which
/// the engine treats as a full disk. The signal that is sent with it would end the program.
pub(crate) fn survive_large_files() {
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Starts to listen for SIGINT, SIGTERM and SIGHUP.
///
/// REQUIRES: called once in a process.
pub(crate) fn install() {
    // If this fails, Ctrl-C still ends the program, but the directory stays.
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

/// Returns whether the user asked to stop.
pub(crate) fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Fails if the user asked to stop.
pub(crate) fn check() -> Result<(), Failure> {
    if asked() { Err(Failure::failed("interrupted before the work was done")) } else { Ok(()) }
}

/// Sets the directory that the handler deletes when it must exit at once.
pub(crate) fn remember(made: Option<PathBuf>) {
    if let Ok(mut slot) = MADE.lock() {
        *slot = made;
    }
}
