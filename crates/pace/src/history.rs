//! How much history is kept, and where. Undo, the status of transactions and locks share one memory
//! budget. Undo that does not fit is spilled to files. When those are full, the oldest snapshot
//! expires.

use crate::constants::{
    HISTORY_LOCKS_PART, HISTORY_PARTS, HISTORY_SPILL_ABOVE, HISTORY_SPILL_TO, HISTORY_UNDO_LEAST,
    HISTORY_WAITING_LEFT, HISTORY_WAITING_MAX,
};

/// The state on which the plan is based.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistorySample {
    /// The memory budget of history, bytes.
    pub budget: u64,
    /// Memory of undo, bytes, with its bookkeeping.
    pub undo: u64,
    /// Memory of the status of transactions, bytes.
    pub status: u64,
    /// Memory of locks, bytes. Half of the budget at most is theirs; where they may take more, that
    /// is beside it.
    pub locks: u64,
    /// Bytes in undo files.
    pub files: u64,
    /// Bytes that undo files may take.
    pub files_most: u64,
    /// Committed transactions that wait in memory for purge.
    pub waiting: u64,
    /// Everything that could be purged waits for the oldest snapshot.
    pub held: bool,
    /// What [`VainSteps::count`] returned.
    pub cannot_spill: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryPlan {
    /// Spill at least so many committed transactions.
    pub transactions: u64,
    /// Free at least so many bytes of undo memory.
    pub bytes: u64,
    /// Expire the oldest snapshot.
    pub expire_oldest: bool,
}

/// Returns the part of the budget that locks use up, bytes. Beyond half of it they have memory of
/// their own.
fn shared(budget: u64, locks: u64) -> u64 {
    locks.min(budget / HISTORY_LOCKS_PART)
}

/// Returns the memory that undo may take before it is spilled, bytes, when transaction states and
/// locks take so much.
#[must_use]
pub fn spill_threshold(budget: u64, status: u64, locks: u64) -> u64 {
    let part = |parts: u64| budget / HISTORY_PARTS * parts;
    let others = status + shared(budget, locks);
    part(HISTORY_SPILL_ABOVE).saturating_sub(others).max(part(HISTORY_UNDO_LEAST))
}

/// Decides what to spill, and whether the oldest snapshot expires.
#[must_use]
pub fn plan(sample: &HistorySample) -> HistoryPlan {
    let total = sample.undo + sample.status + shared(sample.budget, sample.locks);
    let part = |parts: u64| sample.budget / HISTORY_PARTS * parts;
    let above = |most: u64| total.saturating_sub(part(most));
    let spare = sample.undo.saturating_sub(part(HISTORY_UNDO_LEAST));
    let bytes = if above(HISTORY_SPILL_ABOVE) > 0 { above(HISTORY_SPILL_TO).min(spare) } else { 0 };
    let helpless = (sample.cannot_spill || bytes == 0) && above(HISTORY_PARTS) > 0;
    HistoryPlan {
        transactions: if sample.waiting > HISTORY_WAITING_MAX {
            sample.waiting - HISTORY_WAITING_LEFT
        } else {
            0
        },
        bytes,
        expire_oldest: sample.held && (sample.files > sample.files_most || helpless),
    }
}

/// What a step did, which moves undo to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It was not to move any.
    Idle,
    /// It moved some.
    Moved,
    /// It found none that could be moved.
    Nothing,
    /// It found no disk space.
    Failed,
}

/// Steps in a row that should have moved undo, and moved none.
#[derive(Clone, Copy, Debug, Default)]
pub struct VainSteps {
    /// The end of the log at the first of them.
    first: Option<u64>,
}

impl VainSteps {
    /// Counts a step. Then the log ends at `end`, and is durable up to `durable`. Returns whether
    /// undo cannot be moved.
    ///
    /// One step in vain does not say so. There may have been no space just now, or the undo was not
    /// durable yet. Until it is, other steps do not say so either: many writers at their limit take
    /// steps within microseconds.
    pub fn count(&mut self, step: Step, end: u64, durable: u64) -> bool {
        if matches!(step, Step::Idle | Step::Moved) {
            self.first = None;
            return false;
        }
        let Some(first) = self.first else {
            self.first = Some(end);
            return false;
        };
        step == Step::Failed || first <= durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use std::fmt::Write;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_step_in_vain_counts_when_what_was_there_is_durable() {
        let mut steps = VainSteps::default();
        assert!(!steps.count(Step::Nothing, 100, 50), "the first one");
        assert!((0..9).all(|n| !steps.count(Step::Nothing, 101 + n, 99)), "many writers at once");
        assert!(steps.count(Step::Nothing, 200, 100), "all that the first one saw is durable");
        assert!(!steps.count(Step::Moved, 200, 100));
        assert!(!steps.count(Step::Failed, 200, 100), "the first one again");
        assert!(steps.count(Step::Failed, 210, 100), "space does not come from durability");
        assert!(!steps.count(Step::Idle, 210, 100));
        assert!(!steps.count(Step::Nothing, 210, 210));
        assert!(steps.count(Step::Nothing, 220, 220), "it was durable at once");
    }

    /// Simulates phases of (steps, MiB of undo a step, whether a snapshot is held). Without a
    /// snapshot purge frees 20 MiB a step; at most 30 MiB a step are spilled. Prints at the end of
    /// each phase the memory, its peak, the files, and how many snapshots have expired.
    fn run(files_most: u64, locks: u64, phases: &[(u64, u64, bool)]) -> String {
        let mut s = HistorySample {
            budget: 64 * MIB,
            files_most: files_most * MIB,
            locks: locks * MIB,
            ..HistorySample::default()
        };
        let (mut out, mut expired, mut peak) = (String::new(), 0, 0);
        for &(steps, written, snapshot) in phases {
            let mut snapshot = snapshot;
            for _ in 0..steps {
                s.undo += written * MIB;
                if !snapshot {
                    let of_files = s.files.min(20 * MIB);
                    s.files -= of_files;
                    s.undo = s.undo.saturating_sub(20 * MIB - of_files);
                }
                s.held = snapshot;
                let plan = plan(&s);
                let moved = plan.bytes.min(30 * MIB);
                s.cannot_spill = plan.bytes > 0 && moved == 0;
                (s.undo, s.files) = (s.undo - moved, s.files + moved);
                if plan.expire_oldest {
                    (snapshot, expired) = (false, expired + 1);
                }
                peak = peak.max(s.undo + s.status + s.locks);
            }
            writeln!(
                out,
                "{steps} steps of {written} MiB: memory {}, at most {}, files {}, expired {expired}",
                (s.undo + s.locks) / MIB,
                peak / MIB,
                s.files / MIB
            )
            .unwrap();
        }
        out
    }

    #[test]
    fn memory_stays_in_the_budget_and_files_below_their_limit() {
        let mut out = run(1000, 0, &[(20, 5, false), (100, 5, true), (50, 5, false)]);
        out += "a snapshot for longer than files last\n";
        out += &run(200, 0, &[(100, 5, true), (50, 5, false)]);
        out += "locks take half of the memory, and more beside it\n";
        out += &run(1000, 32, &[(100, 5, true), (50, 5, false)]);
        out += &run(1000, 256, &[(100, 5, true), (50, 5, false)]);
        expect![[r#"
            20 steps of 5 MiB: memory 0, at most 0, files 0, expired 0
            100 steps of 5 MiB: memory 40, at most 45, files 460, expired 0
            50 steps of 5 MiB: memory 0, at most 45, files 0, expired 0
            a snapshot for longer than files last
            100 steps of 5 MiB: memory 0, at most 45, files 0, expired 1
            50 steps of 5 MiB: memory 0, at most 45, files 0, expired 1
            locks take half of the memory, and more beside it
            100 steps of 5 MiB: memory 40, at most 47, files 492, expired 0
            50 steps of 5 MiB: memory 32, at most 47, files 0, expired 0
            100 steps of 5 MiB: memory 264, at most 271, files 492, expired 0
            50 steps of 5 MiB: memory 256, at most 271, files 0, expired 0
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn each_case() {
        let calm = HistorySample {
            budget: 64 * MIB,
            undo: 40 * MIB,
            files_most: MIB,
            held: true,
            ..HistorySample::default()
        };
        assert_eq!(plan(&calm), HistoryPlan::default());
        let waiting = plan(&HistorySample { waiting: 40_000, ..calm });
        assert_eq!(
            waiting,
            HistoryPlan { transactions: 40_000 - HISTORY_WAITING_LEFT, ..HistoryPlan::default() }
        );
        assert_eq!(plan(&HistorySample { undo: 50 * MIB, ..calm }).bytes, 10 * MIB);
        for locks in [32 * MIB, 60 * MIB, 900 * MIB] {
            let locked = plan(&HistorySample { undo: 17 * MIB, locks, ..calm });
            assert_eq!(
                (locked.bytes, locked.expire_oldest),
                (9 * MIB, false),
                "locks have half of the budget"
            );
            assert_eq!(spill_threshold(64 * MIB, 0, locks), 16 * MIB);
            let locked = plan(&HistorySample { undo: 8 * MIB, locks, ..calm });
            assert_eq!((locked.bytes, locked.expire_oldest), (0, false), "no snapshot expires for locks");
        }
        assert!(plan(&HistorySample { files: 2 * MIB, ..calm }).expire_oldest);
        assert!(
            !plan(&HistorySample { files: 2 * MIB, held: false, ..calm }).expire_oldest,
            "purge is at work"
        );
        assert!(plan(&HistorySample { undo: 65 * MIB, cannot_spill: true, ..calm }).expire_oldest);
        assert!(!plan(&HistorySample { undo: 63 * MIB, cannot_spill: true, ..calm }).expire_oldest);
    }
}
