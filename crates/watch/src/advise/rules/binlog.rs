//! The binary log: how many transactions share a sync of it.

use crate::advise::advice::{Advice, Urgency};
use crate::advise::facts::Facts;
use crate::advise::gates;

const RULE: &str = "binlog";
/// With so many transactions in a group there is nothing to gain.
const SHARED: f64 = 1.5;
/// With fewer threads there is nobody to share with.
const THREADS: f64 = 8.0;
/// With fewer transactions a second no sync is worth a wait.
const RATE: f64 = 100.0;
/// How long a group waits for others, microseconds: about a sync of a fast device.
const WAIT_US: f64 = 500.0;

/// Decides.
pub(crate) fn decide(facts: &Facts) -> Option<Advice> {
    if facts.settings.is_on("log_bin") != Some(true) {
        return None;
    }
    let commits = facts.binlog.commits.filter(|commits| *commits > 0.0)?;
    let groups = facts.binlog.groups.filter(|groups| *groups > 0.0)?;
    let group = commits / groups;
    let evidence = format!("{commits:.0} transactions in {groups:.0} groups in {:.0} s", facts.seconds);
    match facts.settings.number("sync_binlog")? {
        0.0 => not_synced(facts, evidence),
        1.0 if group >= SHARED => Some(Advice::none(
            RULE,
            format!("nothing to gain: {group:.1} transactions share a sync"),
            evidence,
            "the groups are counted".to_owned(),
        )),
        1.0 => alone(facts, commits, evidence),
        _ => None,
    }
}

/// A power cut leaves transactions in the engine that the binary log does not have.
fn not_synced(facts: &Facts, evidence: String) -> Option<Advice> {
    if facts.settings.number("innodb_flush_log_at_trx_commit")? != 1.0 {
        return None;
    }
    let change = gates::online(&[("sync_binlog", 0.0, 1.0)]);
    Some(Advice {
        rule: RULE,
        urgency: Urgency::Useful,
        finding: "InnoDB syncs each commit, the binary log none: after a power cut a replica lacks \
                  transactions that the server has"
            .to_owned(),
        evidence: format!("{evidence}; sync_binlog is 0"),
        action: change.action,
        costs: format!("{}; one more sync for each group", change.note),
        undo: change.undo,
        sure: "it matters if a replica or a recovery to a point in time uses the binary log".to_owned(),
    })
}

/// Hardly a transaction shares a sync, although many threads commit.
fn alone(facts: &Facts, commits: f64, evidence: String) -> Option<Advice> {
    let threads = facts.pool.threads.filter(|threads| *threads >= THREADS)?;
    let count = facts.settings.number("binlog_commit_wait_count")?;
    let wait = facts.settings.number("binlog_commit_wait_usec")?;
    if commits / facts.seconds.max(1.0) < RATE || count > 0.0 {
        return None;
    }
    let wanted = (threads / 2.0).floor();
    let change = gates::online(&[
        ("binlog_commit_wait_usec", wait, WAIT_US),
        ("binlog_commit_wait_count", count, wanted),
    ]);
    Some(Advice {
        rule: RULE,
        urgency: Urgency::Useful,
        finding: "hardly a transaction shares its sync of the binary log".to_owned(),
        evidence: format!("{evidence}; {threads:.0} threads at most"),
        action: change.action,
        costs: format!("{}; each commit waits up to {WAIT_US} µs for others", change.note),
        undo: change.undo,
        sure: "a wait pays only where a sync takes longer than it. Compare transactions a second \
               before and after"
            .to_owned(),
    })
}
