//! A part of the exploration for every change: each workload, one operation of its disk in sixteen, on one seed.

use millpond::planted::Bug;
use sim::budget::{Budget, Summary, explore};
use sim::engine::Engine;
use sim::explore::Plan;
use sim::workloads::{ALL, Workload, find};
use std::sync::Arc;
use std::time::Duration;

fn explore_with(flags: u64, only: Option<&'static Workload>, parts: u64) -> Summary {
    explore(&Budget {
        plan: Plan { subject: Arc::new(Engine), seed: 1, flags, backtrace: false },
        only,
        // No test depends on the clock: the parts end it.
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
fn the_engine_keeps_its_promises() {
    let done = explore_with(0, None, 1);
    assert!(done.findings.is_empty());
    assert_eq!(done.runs, ALL.len() as u64);
    assert_eq!(done.repeated, done.runs, "each workload ran twice and gave the same");
    assert!(done.total() > 500, "{} states", done.total());
}

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
        (Bug::DurableOutOfOrder, "flights"),
        (Bug::CheckpointIgnoresReplay, "overflow"),
    ];
    for (bug, workload) in planted {
        // The first finding ends it. How many seeds that takes is luck, and another with each change of the engine.
        let done = explore_with(bug.flag(), find(workload), 2_000);
        let finding = done.findings.first().unwrap_or_else(|| panic!("{bug:?} was not found"));
        assert!(finding.cut.is_some(), "{finding}");
    }
}

/// Whoever cannot open his database on a full disk has not lost anything, so no power cut shows it.
#[test]
fn what_a_full_disk_needs_given_away_is_found() {
    let done = explore_with(Bug::LogGivenAway.flag(), find("full-disk"), 4);
    let finding = done.findings.first().expect("it was not found");
    assert!(finding.to_string().contains("no space left for"), "{finding}");
}

/// What lets others into what was read shows in the running database, before any power cut.
#[test]
fn a_lock_left_out_is_found() {
    let planted = [(Bug::RangesIgnored, "serializable"), (Bug::GapsFree, "serializable")];
    for (bug, workload) in planted {
        let done = explore_with(bug.flag(), find(workload), 16);
        assert!(!done.findings.is_empty(), "{bug:?} was not found");
    }
}

/// What is wrong where the disk is full or a page cannot be read shows in the running database as well.
#[test]
fn what_goes_on_half_undone_or_not_at_all_is_found() {
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

/// Pages that two tables have show when one of them reads its rows, or the whole database is looked at.
#[test]
fn a_shared_extent_that_goes_with_one_table_is_found() {
    let done = explore_with(Bug::SharedFreedWhole.flag(), find("small-tables"), 16);
    assert!(!done.findings.is_empty(), "it was not found");
}

/// Databases that a workload makes beside its own: what is wrong with them shows at once.
#[test]
fn what_decay_and_strange_directories_find_is_found() {
    for (bug, workload) in [(Bug::RestoredStale, "decayed"), (Bug::CreatedOverOthers, "others-places")] {
        let done = explore_with(bug.flag(), find(workload), 64);
        let finding = done.findings.first().unwrap_or_else(|| panic!("{bug:?} was not found"));
        assert!(finding.cut.is_none(), "{finding}");
    }
}
