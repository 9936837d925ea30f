//! Tests that change what all threads of a process share: limits, the working directory. Each runs
//! in a process of its own.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const CHILD: &str = "MILLPOND_CHILD";

/// Runs the test of this name in a new process, with a directory that is removed afterwards.
/// Returns the most descriptors that the new process had, as seen from outside; `None` in the new
/// process itself.
pub(crate) fn in_a_process(name: &str, child: impl FnOnce(&Path)) -> Option<usize> {
    if let Some(dir) = std::env::var_os(CHILD) {
        child(Path::new(&dir));
        return None;
    }
    let dir = std::env::temp_dir().join(format!("millpond-limits-{name}-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, &dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let descriptors = format!("/proc/{}/fd", run.id());
    let (ended, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                let open = std::fs::read_dir(&descriptors).map_or(0, Iterator::count);
                seen.fetch_max(open, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let run = run.wait_with_output().unwrap();
        ended.store(true, Ordering::Relaxed);
        run
    });
    let text = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(run.status.success() && text.contains("1 passed"), "{:?}: {text}", run.status);
    Some(seen.into_inner())
}
