//! Ctrl-C: the first one asks the command to stop and clean up; the second one deletes what the run
//! made and exits at once. In a benchmark the first one does that. The end of the terminal is asked
//! in the same way, by SIGHUP; a command that was started by `nohup` outlives it.
//!
//! One Ctrl-C may come as two signals: `timeout` sends what it gets to the program and then to the
//! program's group. So a signal soon after the first one is no second Ctrl-C.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

static ASKED: AtomicBool = AtomicBool::new(false);
/// The directories that this process made and has not yet decided to keep.
static MADE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// How often a directory is deleted in which the engine still makes files.
const DELETE_ATTEMPTS: usize = 10;
/// For how long after the first signal further ones are copies of it. Nobody presses faster.
const COPIES: Duration = Duration::from_millis(100);

/// Ignores SIGXFSZ. A write beyond the limit on file sizes (`ulimit -f`) returns an error, which
/// the engine treats as a full disk. The signal that is sent with it would end the program.
pub fn survive_large_files() {
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Starts to listen for SIGINT, SIGTERM and SIGHUP.
///
/// REQUIRES: called once in a process, this or [`exit_when_asked`].
pub fn install() {
    listen(|| {});
}

/// Like [`install`], for a command that does not look at [`asked`]: the first signal ends it.
pub fn exit_when_asked() {
    listen(|| {
        if let Err(failure) = check() {
            failure.complain();
        }
        leave();
    });
}

fn listen(on_first: impl Fn() + Send + 'static) {
    // If this fails, Ctrl-C still ends the program, but the directory stays.
    let wanted: &[i32] = if is_ignored(SIGHUP) { &[SIGINT, SIGTERM] } else { &[SIGINT, SIGTERM, SIGHUP] };
    let Ok(mut signals) = Signals::new(wanted) else { return };
    std::thread::spawn(move || {
        let mut first = None;
        for _ in signals.forever() {
            ASKED.store(true, Ordering::SeqCst);
            match meaning(&mut first, Instant::now()) {
                Meaning::First => on_first(),
                Meaning::Copy => {}
                Meaning::Second => leave(),
            }
        }
    });
}

#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    First,
    Copy,
    Second,
}

/// Returns what a signal that comes `now` means, and keeps when the first one came.
fn meaning(first: &mut Option<Instant>, now: Instant) -> Meaning {
    match *first {
        None => {
            *first = Some(now);
            Meaning::First
        }
        Some(first) if now.duration_since(first) < COPIES => Meaning::Copy,
        Some(_) => Meaning::Second,
    }
}

/// Returns whether this process was started with a signal ignored, as `nohup` does with SIGHUP.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}

/// Deletes what the process made and has not yet decided to keep, and ends it with status 1.
pub(crate) fn leave() -> ! {
    for dir in MADE.lock().iter().flat_map(|made| made.iter()) {
        let _ = (0..DELETE_ATTEMPTS).any(|_| std::fs::remove_dir_all(dir).is_ok());
    }
    std::process::exit(1)
}

/// Returns whether the user asked to stop.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Fails if the user asked to stop.
pub fn check() -> Result<(), Failure> {
    if asked() { Err(Failure::failed("interrupted before the work was done")) } else { Ok(()) }
}

/// Makes a directory that the handler deletes when it must exit at once. It does so also if the
/// signal comes when the directory has just been made, and none is made afterwards.
pub fn make(dir: PathBuf, make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let made = MADE.lock();
    make()?;
    if let Ok(mut made) = made {
        made.push(dir);
    }
    Ok(())
}

/// Takes a directory off the list of [`make`].
pub fn forget(dir: &Path) {
    if let Ok(mut made) = MADE.lock() {
        made.retain(|one| one != dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `timeout -s INT 60 millpond run` lost its results now and then: the copy that went to the
    /// group came as a second Ctrl-C.
    #[test]
    fn a_copy_of_the_first_signal_is_no_second_ctrl_c() {
        let mut first = None;
        let at = Instant::now();
        assert_eq!(meaning(&mut first, at), Meaning::First);
        assert_eq!(meaning(&mut first, at), Meaning::Copy);
        assert_eq!(meaning(&mut first, at + COPIES / 2), Meaning::Copy);
        assert_eq!(meaning(&mut first, at + COPIES), Meaning::Second);
        assert_eq!(meaning(&mut first, at + COPIES * 2), Meaning::Second);
    }
}
