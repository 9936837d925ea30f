//! Each isolation level shows only the anomalies that it allows, and each weaker level does show
//! them.

use history::anomalies::{Anomaly, Verdict, check};
use history::elle;
use history::record::History;
use history::workload::Workload;
use history::workload_run::{Plan, run};
use millpond::Isolation;

fn plan(workload: Workload, isolation: Isolation) -> Plan {
    Plan { workload, isolation, threads: 8, transactions: 1500, seed: 1, cuts: false }
}

/// Runs and checks a plan. Panics on an anomaly that the level does not allow.
fn judged(plan: &Plan) -> (History, Verdict) {
    let history = run(plan);
    let verdict = check(&history);
    let forbidden = verdict.forbidden(plan.isolation);
    assert!(forbidden.is_empty(), "{plan:?}: {forbidden:#?}");
    assert!(verdict.txns > 0 && verdict.edges > verdict.txns / 4, "{plan:?}: too few conflicts");
    (history, verdict)
}

/// Runs until the level shows an anomaly that it allows. How soon depends on the scheduler, so it
/// tries often.
fn shows(workload: Workload, isolation: Isolation, anomaly: Anomaly) {
    for seed in 1..200 {
        let (_, verdict) = judged(&Plan { seed, ..plan(workload, isolation) });
        if verdict.found.contains_key(&anomaly) {
            return;
        }
    }
    panic!("{workload:?} at {isolation:?} never showed {anomaly:?}: the workload or the checker is too weak");
}

#[test]
fn read_committed_shows_what_a_snapshot_excludes() {
    for workload in [Workload::Append, Workload::Register, Workload::Bank, Workload::Fork, Workload::Range] {
        shows(workload, Isolation::ReadCommitted, Anomaly::GSingle);
    }
    shows(Workload::Bank, Isolation::ReadCommitted, Anomaly::Rule);
}

#[test]
fn a_snapshot_shows_what_serializable_excludes() {
    for workload in [Workload::Append, Workload::Register, Workload::Bank, Workload::Range] {
        shows(workload, Isolation::RepeatableRead, Anomaly::G2);
    }
    shows(Workload::Bank, Isolation::RepeatableRead, Anomaly::Rule);
    shows(Workload::Range, Isolation::RepeatableRead, Anomaly::Rule);
}

#[test]
fn serializable_shows_nothing() {
    for &workload in Workload::ALL {
        let (_, verdict) = judged(&Plan { transactions: 6000, ..plan(workload, Isolation::Serializable) });
        assert!(verdict.found.is_empty());
    }
}

#[test]
fn power_cuts_lose_no_acknowledged_commit() {
    for &isolation in Isolation::ALL.iter().filter(|level| level.repeats_reads()) {
        let (history, _) =
            judged(&Plan { transactions: 9000, cuts: true, ..plan(Workload::Append, isolation) });
        assert!(history.cuts == 3 && elle::ask(&history, isolation) == Ok(Vec::new()));
    }
}

/// The other checker infers the order of writes from reads, so it may miss anomalies. What it
/// finds, `check` must find too.
#[test]
fn another_checker_agrees() {
    for workload in [Workload::Append, Workload::Register] {
        let serializable = plan(workload, Isolation::Serializable);
        assert_eq!(elle::ask(&judged(&serializable).0, Isolation::Serializable), Ok(Vec::new()));
        let sees_skew = (1..50).any(|seed| {
            let (history, verdict) = judged(&Plan { seed, ..plan(workload, Isolation::RepeatableRead) });
            assert_eq!(elle::ask(&history, Isolation::RepeatableRead), Ok(Vec::new()), "{workload:?}");
            let against = elle::ask(&history, Isolation::Serializable).expect("an opinion");
            let here = verdict.found.contains_key(&Anomaly::Stale);
            assert!(against.is_empty() || here, "{workload:?}: only the other checker found {against:?}");
            !against.is_empty()
        });
        assert!(sees_skew, "{workload:?}: it accepted snapshot isolation as serializable");
    }
}
