//! Rules for a file: its first line is a module comment, it is not too long, and `unsafe` is only
//! in listed files.

use super::problem::Report;
use super::source::{File, Tree, line_of, whole_words};

/// The longest file, in lines.
const LINES_MAX: usize = 600;

/// Files that may have `unsafe`: memory by address, system calls, latches, and the C API.
const UNSAFE: &[&str] = &[
    "crates/base/src/aligned.rs",
    "crates/base/src/crc.rs",
    "crates/base/src/memory.rs",
    "crates/base/src/prefetch.rs",
    "crates/base/src/schedule.rs",
    "crates/base/src/sync/fork.rs",
    "crates/vfs/src/mapping.rs",
    "crates/vfs/src/os.rs",
    "crates/vfs/src/uring.rs",
    "crates/millpond/src/buffer/arena.rs",
    "crates/millpond/src/buffer/frame.rs",
    "crates/millpond/src/buffer/latch.rs",
    "crates/millpond/src/log/write.rs",
    "crates/millpond/src/log/ring.rs",
    "crates/cuts/tests/mapped.rs",
    "crates/ffi/src/",
    "crates/millpond/tests/fork.rs",
    "crates/compare/src/peers/lmdb.rs",
    "loom/src/watched.rs",
];

pub(super) fn check(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.rust() {
        check_file(file, report);
    }
}

fn check_file(file: &File, report: &mut Report<'_>) {
    if !file.text.starts_with("//! ") {
        report(&file.path, 1, "the first line is not `//!` with the idea of the file".into());
    }
    let lines = file.text.lines().count();
    if lines > LINES_MAX {
        let what = format!("{lines} lines, at most {LINES_MAX} are allowed: split the file by idea");
        report(&file.path, lines, what);
    }
    if !UNSAFE.iter().any(|allowed| file.path.starts_with(allowed)) {
        for at in whole_words(&file.code, "unsafe") {
            report(&file.path, line_of(&file.code, at), "`unsafe` outside the files that may have it".into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::made;
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        made::found_in_text(&[(path, text)], check).len()
    }

    #[test]
    fn each_rule_can_fail() {
        assert_eq!(found("crates/base/src/a.rs", "//! One idea.\nfn a() {} // unsafe in a comment\n"), 0);
        assert_eq!(found("crates/base/src/a.rs", "fn a() {}\n"), 1);
        assert_eq!(found("crates/base/src/a.rs", "//! One idea.\nunsafe fn a() {}\n"), 1);
        assert_eq!(found("crates/base/src/aligned.rs", "//! One idea.\nunsafe fn a() {}\n"), 0);
        assert_eq!(found("crates/base/src/a.rs", &"//! x\n".repeat(LINES_MAX)), 0);
        assert_eq!(found("crates/base/src/a.rs", &"//! x\n".repeat(LINES_MAX + 1)), 1);
    }
}
