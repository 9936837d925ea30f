//! Comments that are easy to read: at most so many columns, indentation included.

use super::Report;
use super::source::{File, Tree};

/// The widest line with a comment, in columns.
const COLUMNS_MAX: usize = 100;

/// Files with wider comments that were there before the rule. The list may only shrink.
const WIDE: &[&str] = &[
    "crates/base/src/by_hash.rs",
    "crates/compare/src/device.rs",
    "crates/compare/src/main.rs",
    "crates/compare/src/peer.rs",
    "crates/compare/src/peers/lmdb.rs",
    "crates/compare/src/peers/sqlite.rs",
    "crates/compare/src/place.rs",
    "crates/compare/src/run.rs",
    "crates/compare/src/work.rs",
    "crates/history/src/check.rs",
    "crates/history/src/elle.rs",
    "crates/history/src/graph.rs",
    "crates/history/src/lib.rs",
    "crates/history/src/main.rs",
    "crates/history/src/run.rs",
    "crates/history/src/soak/client.rs",
    "crates/history/src/soak/life.rs",
    "crates/history/src/soak/mod.rs",
    "crates/history/src/soak/recipe.rs",
    "crates/history/src/soak/vitals.rs",
    "crates/history/src/stress/client.rs",
    "crates/history/src/stress/mod.rs",
    "crates/history/src/stress/row.rs",
    "crates/history/src/workload.rs",
    "crates/history/tests/levels.rs",
    "crates/lab/src/cli/compare.rs",
    "crates/lab/src/cli/crash.rs",
    "crates/lab/src/cli/mod.rs",
    "crates/lab/src/cli/run.rs",
    "crates/lab/src/crash/mod.rs",
    "crates/lab/src/crash/recipe.rs",
    "crates/lab/src/crash/reopen.rs",
    "crates/lab/src/crash/verify.rs",
    "crates/lab/src/crash/victim.rs",
    "crates/lab/src/crash/wire.rs",
    "crates/lab/src/driver.rs",
    "crates/lab/src/figures.rs",
    "crates/lab/src/main.rs",
    "crates/lab/src/place.rs",
    "crates/lab/src/recorder.rs",
    "crates/lab/src/report/axis.rs",
    "crates/lab/src/report/chart.rs",
    "crates/lab/src/report/dir.rs",
    "crates/lab/src/report/machine.rs",
    "crates/lab/src/report/mod.rs",
    "crates/lab/src/report/page.rs",
    "crates/lab/src/report/run.rs",
    "crates/lab/src/report/svg.rs",
    "crates/lab/src/report/tests.rs",
    "crates/lab/src/samples.rs",
    "crates/lab/src/stop.rs",
    "crates/lab/src/units.rs",
    "crates/lab/src/workload/bulk_load.rs",
    "crates/lab/src/workload/distribution.rs",
    "crates/lab/src/workload/insert.rs",
    "crates/lab/src/workload/load.rs",
    "crates/lab/src/workload/mod.rs",
    "crates/lab/src/workload/napkin.rs",
    "crates/lab/src/workload/oltp.rs",
    "crates/lab/src/workload/row.rs",
    "crates/lab/src/workload/schema_reload.rs",
    "crates/lab/tests/program.rs",
    "crates/millpond/examples/async_service.rs",
    "crates/millpond/examples/big_transaction.rs",
    "crates/millpond/examples/bulk_load.rs",
    "crates/millpond/examples/common/bench.rs",
    "crates/millpond/examples/durable_updates.rs",
    "crates/millpond/examples/hogs.rs",
    "crates/millpond/examples/instructions.rs",
    "crates/millpond/examples/ledger.rs",
    "crates/millpond/examples/long_snapshot.rs",
    "crates/millpond/examples/queue.rs",
    "crates/millpond/examples/who_writes.rs",
    "crates/millpond/src/btree/ahead.rs",
    "crates/millpond/src/btree/bulk.rs",
    "crates/millpond/src/btree/check.rs",
    "crates/millpond/src/btree/descend.rs",
    "crates/millpond/src/btree/merge.rs",
    "crates/millpond/src/btree/mod.rs",
    "crates/millpond/src/btree/overflow.rs",
    "crates/millpond/src/btree/root_copy.rs",
    "crates/millpond/src/btree/split.rs",
    "crates/millpond/src/btree/tests.rs",
    "crates/millpond/src/btree/tree.rs",
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
    "crates/millpond/src/catalog.rs",
    "crates/millpond/src/checkpoint/fuzzy.rs",
    "crates/millpond/src/checkpoint/list.rs",
    "crates/millpond/src/checkpoint/mod.rs",
    "crates/millpond/src/checkpoint/root.rs",
    "crates/millpond/src/duty.rs",
    "crates/millpond/src/engine/admission.rs",
    "crates/millpond/src/engine/capacity.rs",
    "crates/millpond/src/engine/cleaner.rs",
    "crates/millpond/src/engine/create.rs",
    "crates/millpond/src/engine/crowd.rs",
    "crates/millpond/src/engine/figures.rs",
    "crates/millpond/src/engine/growth.rs",
    "crates/millpond/src/engine/home.rs",
    "crates/millpond/src/engine/mod.rs",
    "crates/millpond/src/engine/open.rs",
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
    "crates/millpond/src/flush/batch.rs",
    "crates/millpond/src/flush/doublewrite.rs",
    "crates/millpond/src/flush/restore.rs",
    "crates/millpond/src/fuzz/log.rs",
    "crates/millpond/src/fuzz/mod.rs",
    "crates/millpond/src/fuzz/open.rs",
    "crates/millpond/src/fuzz/page.rs",
    "crates/millpond/src/fuzz/tests.rs",
    "crates/millpond/src/inspect/mod.rs",
    "crates/millpond/src/inspect/page.rs",
    "crates/millpond/src/inspect/place.rs",
    "crates/millpond/src/inspect/rows.rs",
    "crates/millpond/src/inspect/tail.rs",
    "crates/millpond/src/inspect/tests.rs",
    "crates/millpond/src/inspect/tests/format.rs",
    "crates/millpond/src/lib.rs",
    "crates/millpond/src/lock/deadlock.rs",
    "crates/millpond/src/lock/key.rs",
    "crates/millpond/src/lock/mod.rs",
    "crates/millpond/src/lock/mode.rs",
    "crates/millpond/src/lock/owner.rs",
    "crates/millpond/src/lock/queue.rs",
    "crates/millpond/src/lock/range.rs",
    "crates/millpond/src/lock/ranges.rs",
    "crates/millpond/src/lock/table.rs",
    "crates/millpond/src/lock/table_lock.rs",
    "crates/millpond/src/lock/tests.rs",
    "crates/millpond/src/lock/tests/circles.rs",
    "crates/millpond/src/lock/tests/memory.rs",
    "crates/millpond/src/lock/tests/ranges.rs",
    "crates/millpond/src/lock/users.rs",
    "crates/millpond/src/log/ahead.rs",
    "crates/millpond/src/log/block.rs",
    "crates/millpond/src/log/bounded.rs",
    "crates/millpond/src/log/commit.rs",
    "crates/millpond/src/log/digest.rs",
    "crates/millpond/src/log/digest/read.rs",
    "crates/millpond/src/log/group.rs",
    "crates/millpond/src/log/landed.rs",
    "crates/millpond/src/log/mod.rs",
    "crates/millpond/src/log/reader.rs",
    "crates/millpond/src/log/ring.rs",
    "crates/millpond/src/log/segment.rs",
    "crates/millpond/src/log/speed.rs",
    "crates/millpond/src/log/tests.rs",
    "crates/millpond/src/log/waiters.rs",
    "crates/millpond/src/mtr.rs",
    "crates/millpond/src/mvcc/cleared.rs",
    "crates/millpond/src/mvcc/mod.rs",
    "crates/millpond/src/mvcc/purge.rs",
    "crates/millpond/src/mvcc/snapshot.rs",
    "crates/millpond/src/mvcc/status.rs",
    "crates/millpond/src/mvcc/version.rs",
    "crates/millpond/src/mvcc/visible.rs",
    "crates/millpond/src/options.rs",
    "crates/millpond/src/page/apply.rs",
    "crates/millpond/src/page/edit.rs",
    "crates/millpond/src/page/header.rs",
    "crates/millpond/src/page/map.rs",
    "crates/millpond/src/page/mod.rs",
    "crates/millpond/src/page/node.rs",
    "crates/millpond/src/page/op.rs",
    "crates/millpond/src/page/overflow.rs",
    "crates/millpond/src/page/owners.rs",
    "crates/millpond/src/page/verify.rs",
    "crates/millpond/src/planted.rs",
    "crates/millpond/src/recover/apply.rs",
    "crates/millpond/src/recover/end.rs",
    "crates/millpond/src/recover/standing.rs",
    "crates/millpond/src/recover/stretch.rs",
    "crates/millpond/src/recover/undo.rs",
    "crates/millpond/src/reserve.rs",
    "crates/millpond/src/space.rs",
    "crates/millpond/src/space/ends.rs",
    "crates/millpond/src/space/grow.rs",
    "crates/millpond/src/space/release.rs",
    "crates/millpond/src/space/reservation.rs",
    "crates/millpond/src/space/shared.rs",
    "crates/millpond/src/space/sharing.rs",
    "crates/millpond/src/space/state.rs",
    "crates/millpond/src/space/tests.rs",
    "crates/millpond/src/table.rs",
    "crates/millpond/src/txn/aside.rs",
    "crates/millpond/src/txn/end.rs",
    "crates/millpond/src/txn/harden.rs",
    "crates/millpond/src/txn/history.rs",
    "crates/millpond/src/txn/load.rs",
    "crates/millpond/src/txn/lock.rs",
    "crates/millpond/src/txn/lock_range.rs",
    "crates/millpond/src/txn/marks.rs",
    "crates/millpond/src/txn/mod.rs",
    "crates/millpond/src/txn/near.rs",
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
    "crates/millpond/tests/broken_directories.rs",
    "crates/millpond/tests/descriptors.rs",
    "crates/millpond/tests/hermitage.rs",
    "crates/millpond/tests/last_handle.rs",
    "crates/sim/src/budget.rs",
    "crates/sim/src/driver.rs",
    "crates/sim/src/engine.rs",
    "crates/sim/src/explore.rs",
    "crates/sim/src/flips.rs",
    "crates/sim/src/history.rs",
    "crates/sim/src/jobs.rs",
    "crates/sim/src/lib.rs",
    "crates/sim/src/stuck.rs",
    "crates/sim/src/subject.rs",
    "crates/sim/src/toy.rs",
    "crates/sim/src/workloads/beside.rs",
    "crates/sim/src/workloads/decay.rs",
    "crates/sim/src/workloads/growth.rs",
    "crates/sim/src/workloads/history.rs",
    "crates/sim/src/workloads/load.rs",
    "crates/sim/src/workloads/mod.rs",
    "crates/sim/src/workloads/places.rs",
    "crates/sim/src/workloads/schema.rs",
    "crates/sim/src/workloads/serial.rs",
    "crates/sim/src/workloads/several.rs",
    "crates/sim/src/workloads/stuck.rs",
    "crates/sim/src/workloads/waiters.rs",
    "crates/sim/tests/engine.rs",
    "crates/sim/tests/flips.rs",
    "crates/sim/tests/stuck.rs",
    "loom/src/buffer.rs",
    "loom/src/locks.rs",
    "loom/src/log.rs",
    "loom/src/main.rs",
    "loom/src/mvcc.rs",
    "loom/src/watched.rs",
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
