//! The simulator finds nothing in the correct toy database and something in each wrong one.

use sim::budget::{Budget, PARTS, Summary, explore};
use sim::explore::Plan;
use sim::toy::{Flaw, Toy};
use sim::workloads::ALL;
use std::sync::Arc;
use std::time::Duration;

fn judge(flaw: Flaw, seed: u64, findings: usize) -> Summary {
    explore(&Budget {
        plan: Plan { subject: Arc::new(Toy(flaw)), seed, flags: 0, backtrace: false },
        only: None,
        // The end of the seed ends it, so the test does not depend on the clock.
        time: Duration::MAX,
        threads: 2,
        share: (0, 1),
        core: 0,
        findings,
        parts: PARTS,
        quiet: false,
        began: None,
    })
}

#[test]
fn nothing_is_found_in_a_correct_database() {
    let done = judge(Flaw::None, 1, 1);
    assert!(done.findings.is_empty());
    assert_eq!(done.states.len(), ALL.len());
    assert!(done.states.values().all(|states| *states > 20), "{:?}", done.states);
    println!("{} states", done.total());
}

#[test]
fn something_is_found_in_every_wrong_database() {
    for flaw in [Flaw::NoSync, Flaw::NoDirSync, Flaw::NoChecksum, Flaw::EndTooEarly, Flaw::NotAtomic] {
        let done = judge(flaw, 1, 1);
        let finding = done.findings.first().unwrap_or_else(|| panic!("{flaw:?} was not found"));
        assert!(finding.cut.is_some() && finding.to_string().contains("--seed 1 --workload"), "{finding}");
        println!("{flaw:?}: found after {} states", done.total());
    }
}
