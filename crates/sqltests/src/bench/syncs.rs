//! The server's syncs, counted from outside and alike for each engine: strace writes a line for
//! each call, and makes it take longer if that is asked for.
//!
//! A sync through `io_uring` would not be seen: neither engine's log syncs so.

use std::path::{Path, PathBuf};

/// The package of the program that counts.
pub(super) const PACKAGE: &str = "strace";

/// The syncs of a commit, as a share of InnoDB's: at most, and the aim.
pub(super) const LIMITS: (f64, f64) = (1.0, 0.8);

fn file(dir: &Path) -> PathBuf {
    dir.join("syncs")
}

/// Returns the program that watches a server of `dir`, and its arguments.
pub(super) fn watcher(dir: &Path, delay_us: u32) -> Vec<String> {
    let mut words: Vec<String> =
        ["strace", "-f", "--seccomp-bpf", "--quiet=all", "-o"].map(str::to_owned).into();
    words.push(file(dir).display().to_string());
    words.extend(["-e", "trace=fsync,fdatasync", "-e", "signal=none"].map(str::to_owned));
    if delay_us > 0 {
        words.extend(["-e".to_owned(), format!("inject=fsync,fdatasync:delay_exit={delay_us}")]);
    }
    words
}

/// Returns how many syncs the server of a data directory has begun; NaN if nothing counts them.
pub(super) fn count(data: &Path) -> f64 {
    let text = data.parent().map(file).and_then(|file| std::fs::read_to_string(file).ok());
    text.map_or(f64::NAN, |text| begun(&text) as f64)
}

/// Counts the calls in what strace writes. A call during which another thread's is written has two
/// lines; the second names it as resumed.
fn begun(text: &str) -> usize {
    text.lines().filter(|line| line.contains("sync(") && !line.contains("resumed>")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_with_two_lines_is_counted_once() {
        let text = "11 fdatasync(4 <unfinished ...>\n12 fsync(5) = 0\n\
                    11 <... fdatasync resumed>) = 0\n12 +++ exited with 0 +++\n";
        assert_eq!(begun(text), 2);
    }

    #[test]
    fn only_a_delay_changes_the_calls() {
        assert!(!watcher(Path::new("/d"), 0).iter().any(|word| word.starts_with("inject")));
        assert!(
            watcher(Path::new("/d"), 1000).contains(&"inject=fsync,fdatasync:delay_exit=1000".to_owned())
        );
    }
}
