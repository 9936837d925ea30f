//! Comments that are easy to read: at most so many columns, indentation included.

use super::Report;
use super::source::{File, Tree};

/// The widest line with a comment, in columns.
const COLUMNS_MAX: usize = 100;

/// Files with wider comments that were there before the rule. The list may only shrink.
const WIDE: &[&str] = &[
    "crates/base/src/by_hash.rs",
    "crates/millpond/examples/beside_scans.rs",
    "crates/millpond/examples/burst.rs",
    "crates/millpond/examples/hot_row.rs",
    "crates/millpond/examples/laws.rs",
    "crates/millpond/examples/long_snapshot.rs",
    "crates/millpond/examples/many_locks.rs",
    "crates/millpond/src/buffer/arena.rs",
    "crates/millpond/src/buffer/dirty.rs",
    "crates/millpond/src/buffer/frame.rs",
    "crates/millpond/src/buffer/free.rs",
    "crates/millpond/src/buffer/guard.rs",
    "crates/millpond/src/buffer/latch.rs",
    "crates/millpond/src/buffer/mod.rs",
    "crates/millpond/src/buffer/page_table.rs",
    "crates/millpond/src/buffer/past.rs",
    "crates/millpond/src/buffer/pool.rs",
    "crates/millpond/src/buffer/tests.rs",
    "crates/millpond/src/buffer/tests/file.rs",
    "crates/millpond/src/checkpoint/fuzzy.rs",
    "crates/millpond/src/checkpoint/root.rs",
    "crates/millpond/src/db/bulk_load.rs",
    "crates/millpond/src/db/check.rs",
    "crates/millpond/src/db/durability.rs",
    "crates/millpond/src/db/gate.rs",
    "crates/millpond/src/db/isolation.rs",
    "crates/millpond/src/db/locking.rs",
    "crates/millpond/src/db/mod.rs",
    "crates/millpond/src/db/range.rs",
    "crates/millpond/src/db/receipt.rs",
    "crates/millpond/src/db/scan.rs",
    "crates/millpond/src/db/share.rs",
    "crates/millpond/src/db/tests.rs",
    "crates/millpond/src/db/tests/bulk_load.rs",
    "crates/millpond/src/db/tests/digests.rs",
    "crates/millpond/src/db/tests/drops.rs",
    "crates/millpond/src/db/tests/figures.rs",
    "crates/millpond/src/db/tests/figures/watched.rs",
    "crates/millpond/src/db/tests/full_disk.rs",
    "crates/millpond/src/db/tests/growth.rs",
    "crates/millpond/src/db/tests/history.rs",
    "crates/millpond/src/db/tests/hogs.rs",
    "crates/millpond/src/db/tests/idle.rs",
    "crates/millpond/src/db/tests/laws.rs",
    "crates/millpond/src/db/tests/limits.rs",
    "crates/millpond/src/db/tests/long_values.rs",
    "crates/millpond/src/db/tests/memory.rs",
    "crates/millpond/src/db/tests/power_cuts.rs",
    "crates/millpond/src/db/tests/scans.rs",
    "crates/millpond/src/db/tests/serializable.rs",
    "crates/millpond/src/db/tests/small_pool.rs",
    "crates/millpond/src/db/tests/small_tables.rs",
    "crates/millpond/src/db/tests/undoing.rs",
    "crates/millpond/src/db/transaction.rs",
    "crates/millpond/src/engine/admission.rs",
    "crates/millpond/src/engine/capacity.rs",
    "crates/millpond/src/engine/cleaner.rs",
    "crates/millpond/src/engine/create.rs",
    "crates/millpond/src/engine/crowd.rs",
    "crates/millpond/src/engine/figures.rs",
    "crates/millpond/src/engine/growth.rs",
    "crates/millpond/src/engine/home.rs",
    "crates/millpond/src/engine/mod.rs",
    "crates/millpond/src/engine/sim_tests.rs",
    "crates/millpond/src/engine/speed.rs",
    "crates/millpond/src/engine/tests.rs",
    "crates/millpond/src/engine/tests/corruption.rs",
    "crates/millpond/src/engine/tests/decay.rs",
    "crates/millpond/src/engine/tests/descriptors.rs",
    "crates/millpond/src/engine/tests/faults.rs",
    "crates/millpond/src/engine/tests/flow.rs",
    "crates/millpond/src/engine/tests/flow/rest.rs",
    "crates/millpond/src/engine/tests/formats.rs",
    "crates/millpond/src/engine/tests/places.rs",
    "crates/millpond/src/engine/undoing.rs",
    "crates/millpond/src/error.rs",
    "crates/millpond/src/lib.rs",
    "crates/millpond/src/mvcc/cleared.rs",
    "crates/millpond/src/mvcc/mod.rs",
    "crates/millpond/src/mvcc/purge.rs",
    "crates/millpond/src/mvcc/snapshot.rs",
    "crates/millpond/src/mvcc/status.rs",
    "crates/millpond/src/mvcc/version.rs",
    "crates/millpond/src/mvcc/visible.rs",
    "crates/millpond/src/recover/apply.rs",
    "crates/millpond/src/recover/end.rs",
    "crates/millpond/src/recover/txn_table.rs",
    "crates/millpond/src/recover/undo.rs",
    "crates/millpond/src/space.rs",
    "crates/millpond/src/space/ends.rs",
    "crates/millpond/src/space/grow.rs",
    "crates/millpond/src/space/release.rs",
    "crates/millpond/src/space/reservation.rs",
    "crates/millpond/src/space/shared.rs",
    "crates/millpond/src/space/sharing.rs",
    "crates/millpond/src/space/state.rs",
    "crates/millpond/src/space/tests.rs",
    "crates/millpond/src/txn/aside.rs",
    "crates/millpond/src/txn/end.rs",
    "crates/millpond/src/txn/harden.rs",
    "crates/millpond/src/txn/history.rs",
    "crates/millpond/src/txn/load.rs",
    "crates/millpond/src/txn/lock.rs",
    "crates/millpond/src/txn/lock_range.rs",
    "crates/millpond/src/txn/marks.rs",
    "crates/millpond/src/txn/mod.rs",
    "crates/millpond/src/txn/purge.rs",
    "crates/millpond/src/txn/read.rs",
    "crates/millpond/src/txn/release.rs",
    "crates/millpond/src/txn/revert.rs",
    "crates/millpond/src/txn/room.rs",
    "crates/millpond/src/txn/scan.rs",
    "crates/millpond/src/txn/system.rs",
    "crates/millpond/src/txn/trees.rs",
    "crates/millpond/src/txn/write.rs",
    "crates/millpond/src/undo/chunks.rs",
    "crates/millpond/src/undo/delta.rs",
    "crates/millpond/src/undo/fetch.rs",
    "crates/millpond/src/undo/history.rs",
    "crates/millpond/src/undo/journal.rs",
    "crates/millpond/src/undo/journal/tests.rs",
    "crates/millpond/src/undo/mod.rs",
    "crates/millpond/src/undo/record.rs",
    "crates/millpond/src/undo/segment.rs",
    "crates/millpond/src/undo/shortcuts.rs",
    "crates/millpond/src/undo/spares.rs",
    "crates/millpond/src/undo/spill.rs",
    "crates/millpond/src/undo/stream.rs",
    "crates/millpond/src/undo/streams.rs",
    "crates/millpond/src/undo/walk.rs",
    "crates/millpond/tests/full_disk.rs",
];

pub(super) fn check(tree: &Tree, report: &mut Report<'_>) {
    for file in tree.rust() {
        check_file(file, WIDE, report);
    }
    for path in WIDE.iter().filter(|path| tree.get(path).is_none()) {
        report(path, 1, "is gone; take it off the list of files with wide comments".into());
    }
}

fn check_file(file: &File, wide: &[&str], report: &mut Report<'_>) {
    let comments = file.comments();
    let lines = file.text.lines().zip(comments.lines()).enumerate();
    let too_wide =
        lines.filter(|(_, (line, comment))| !comment.trim().is_empty() && line.chars().count() > COLUMNS_MAX);
    let too_wide: Vec<usize> = too_wide.map(|(n, _)| n + 1).collect();
    match (wide.contains(&file.path.as_str()), too_wide.as_slice()) {
        (true, []) => {
            report(&file.path, 1, "has no wide comment now; take it off the list of such files".into());
        }
        (true, _) => {}
        (false, lines) => {
            for line in lines {
                report(&file.path, *line, format!("a comment beyond column {COLUMNS_MAX}: wrap it"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/a/src/lib.rs";

    fn found(text: &str, wide: &[&str]) -> Vec<String> {
        let mut out = Vec::new();
        check_file(&File::new(PATH, text), wide, &mut |_, line, what| out.push(format!("{line}: {what}")));
        out
    }

    #[test]
    fn a_wide_comment_is_found_and_wide_code_is_not() {
        let wide = format!("//! x\n    // {}\n", "é".repeat(COLUMNS_MAX - 6));
        assert_eq!(found(&wide, &[]), ["2: a comment beyond column 100: wrap it"]);
        assert!(found(&wide.replacen('é', "", 1), &[]).is_empty());
        let code = format!("let x = \"// {}\";\n", "x".repeat(COLUMNS_MAX));
        assert!(found(&code, &[]).is_empty());
        let behind = format!("let x = {}; // y\n", "x".repeat(COLUMNS_MAX));
        assert_eq!(found(&behind, &[]).len(), 1);
    }

    #[test]
    fn a_listed_file_may_have_wide_comments_until_it_has_none() {
        let wide = format!("// {}\n", "x".repeat(COLUMNS_MAX));
        assert!(found(&wide, &[PATH]).is_empty());
        let stale = found("// x\n", &[PATH]);
        assert_eq!(stale, ["1: has no wide comment now; take it off the list of such files"]);
    }
}
