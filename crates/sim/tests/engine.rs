//! A short exploration for every change: each workload on one seed, cut at one disk operation in
//! sixteen.

use millpond::planted::Bug;
use sim::budget::{Budget, Summary, explore};
use sim::explore::Plan;
use sim::workloads::{ALL, Workload, find};
use std::time::Duration;

fn explore_with(flags: u128, only: Option<&'static Workload>, parts: u64) -> Summary {
    explore(&Budget {
        plan: Plan { seed: 1, flags, backtrace: false },
        only,
        // The number of parts ends it, so the test does not depend on the clock.
        time: Duration::MAX,
        threads: 2,
        share: (0, 1),
        core: 0,
        findings: 1,
        parts,
        quiet: flags != 0,
        began: None,
    })
}

#[test]
fn nothing_is_found_in_the_engine() {
    let done = explore_with(0, None, 1);
    assert!(done.findings.is_empty());
    assert_eq!(done.runs, ALL.len() as u64);
    assert_eq!(done.repeated, done.runs, "each workload ran twice with the same result");
    assert!(done.total() > 500, "{} states", done.total());
}

/// Whether a part of what needs many seeds is looked for. In CI it is one, which the seed chooses;
/// else each is.
fn has(part: usize) -> bool {
    let seed = std::env::var("MILLPOND_PLANTED_SEED").ok().and_then(|seed| seed.parse::<usize>().ok());
    seed.is_none_or(|seed| seed % PARTS == part)
}

/// The last part is the mistake for which most seeds are tried.
const PARTS: usize = 4;

#[test]
fn planted_mistakes_are_found() {
    let planted = [
        (Bug::NoLogSync, "splits"),
        (Bug::NoRestore, "overflow"),
        (Bug::RewindNotLogged, "savepoints"),
        (Bug::LoadNotSynced, "loads"),
        (Bug::LoadNotAwaited, "loads-long"),
        (Bug::CommitNotAwaited, "futures"),
        (Bug::CheckpointOrder, "checkpoint-always"),
        (Bug::DurableOutOfOrder, "overlapping-flushes"),
        (Bug::CheckpointIgnoresReplay, "overflow"),
        (Bug::FreedPagesNamed, "overflow-steps"),
    ];
    let of_share = planted.into_iter().enumerate().filter(|(i, _)| has(i % (PARTS - 1)));
    for (_, (bug, workload)) in of_share {
        // The first finding ends it. The number of seeds is luck and changes with each change of
        // the engine.
        let done = explore_with(bug.flag(), find(workload), 2_000);
        let finding = done.findings.first().unwrap_or_else(|| panic!("{bug:?} was not found"));
        assert!(finding.cut.is_some(), "{finding}");
    }
}

/// It takes a kill soon after an opening that itself followed a kill. The life after it finds the
/// bug, which may be another one than the last. One seed in some hundreds has it, so many are
/// tried; the test of the engine in `engine/tests/on_demand.rs` builds the state without luck.
#[test]
fn a_page_that_was_made_anew_beside_replay_is_found() {
    if !has(PARTS - 1) {
        return;
    }
    let done = explore_with(Bug::AnewUnseen.flag(), find("lives"), 8_000);
    assert!(!done.findings.is_empty(), "it was not found");
}

/// A database that cannot be opened on a full disk has lost nothing, so no power cut shows this
/// bug.
#[test]
fn a_checkpoint_that_frees_the_space_which_opening_needs_is_found() {
    let done = explore_with(Bug::LogShrunkTooFar.flag(), find("full-disk"), 4);
    let finding = done.findings.first().expect("it was not found");
    assert!(finding.to_string().contains("no space left for"), "{finding}");
}

/// Once the ballast could not be held again, a transaction could still write. Its undo then found
/// no space when the database was closed before purge had come to it.
#[test]
fn closing_on_a_full_disk_finds_space_for_what_purge_has_left() {
    for seed in [1000, 2000] {
        let done = explore(&Budget {
            plan: Plan { seed, flags: 0, backtrace: false },
            only: find("full-disk"),
            time: Duration::MAX,
            threads: 2,
            share: (0, 1),
            core: 0,
            findings: 1,
            parts: 8,
            quiet: false,
            began: None,
        });
        assert!(done.findings.is_empty());
    }
}

/// Redo that was let in without room for it shows where the limits are set, before a disk is full.
#[test]
fn room_that_is_not_there_is_found() {
    for (bug, workload) in [(Bug::FilesBelowCounted, "overflow"), (Bug::ShrunkBeforeLimits, "splits")] {
        let done = explore_with(bug.flag(), find(workload), 40);
        let finding = done.findings.first().unwrap_or_else(|| panic!("{bug:?} was not found"));
        assert!(finding.to_string().contains("the files end at"), "{finding}");
    }
}

/// A missing range lock shows in the running database, before any power cut.
#[test]
fn a_missing_lock_is_found() {
    let planted = [(Bug::RangesIgnored, "serializable"), (Bug::GapsFree, "serializable")];
    for (bug, workload) in planted {
        let done = explore_with(bug.flag(), find(workload), 16);
        assert!(!done.findings.is_empty(), "{bug:?} was not found");
    }
}

/// A scan for share and a lookup for update both got a row: the scan looked for other locks before
/// the lookup had entered its own, and added its range after the lookup had looked for ranges.
#[test]
fn a_row_that_a_scan_and_a_lookup_both_lock_is_found() {
    let done = explore_with(Bug::ScanLatchedShared.flag(), find("locking-scans"), 2_000);
    let finding = done.findings.first().expect("it was not found");
    assert!(finding.to_string().contains("is locked by two transactions"), "{finding}");
}

/// Bugs on a full disk or at an unreadable page show in the running database as well.
#[test]
fn a_rollback_that_half_happens_or_stops_everything_is_found() {
    let planted = [
        (Bug::HalfUndoneGoesOn, "full-disk-undo"),
        (Bug::UndoingUnasked, "full-log-undo"),
        (Bug::StuckAtUnreadable, "unreadable"),
    ];
    for (bug, workload) in planted {
        let done = explore_with(bug.flag(), find(workload), 40);
        assert!(!done.findings.is_empty(), "{bug:?} was not found");
    }
}

/// A page that two tables own shows when one of them reads its rows, or when the whole database is
/// read.
#[test]
fn a_shared_extent_that_is_freed_with_one_table_is_found() {
    let done = explore_with(Bug::SharedFreedWhole.flag(), find("small-tables"), 16);
    assert!(!done.findings.is_empty(), "it was not found");
}

/// Some workloads make further databases of their own; bugs there show at once.
#[test]
fn bugs_with_damaged_pages_and_foreign_directories_are_found() {
    for (bug, workload) in [(Bug::RestoredStale, "decayed"), (Bug::CreatedOverOthers, "others-places")] {
        let done = explore_with(bug.flag(), find(workload), 64);
        let finding = done.findings.first().unwrap_or_else(|| panic!("{bug:?} was not found"));
        assert!(finding.cut.is_none(), "{finding}");
    }
}
