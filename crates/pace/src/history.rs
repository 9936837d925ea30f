//! How much of the past is kept, and where: undo, the status of transactions and locks share one budget of memory; what does
//! not fit goes to files, and when those are full the oldest snapshot is given up.

/// Above this part of the budget undo goes to files, in 64ths.
const START: u64 = 48;
/// Until memory has come down to this part of it.
const STOP: u64 = 40;
/// So much of the budget undo keeps whatever else takes: what goes to files in small portions costs more memory there than it
/// gives back.
const LEAST: u64 = 8;
/// So many committed transactions may wait for purge in memory whatever it has room for: a checkpoint looks at each of them, and the memory of
/// more would not stay in the processor's caches from its one user to the next.
const WAITING_MOST: u64 = 8 << 10;
/// When there are more, so many stay.
const WAITING_LEFT: u64 = 6 << 10;

/// How things stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Memory that the past may take, bytes.
    pub budget: u64,
    /// Undo in memory, bytes, with all that is kept for it.
    pub undo: u64,
    /// Memory of the status of transactions, bytes.
    pub status: u64,
    /// Memory of locks, bytes. Half of the budget at most is theirs; where they may take more, that is beside it.
    pub locks: u64,
    /// Bytes in undo files.
    pub files: u64,
    /// Bytes that undo files may take.
    pub files_most: u64,
    /// Committed transactions that wait in memory for purge.
    pub waiting: u64,
    /// All that could still be purged waits for the oldest snapshot.
    pub held: bool,
    /// Two steps in a row should have moved undo to files, and there was none that could be moved or no space.
    pub stuck: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Committed transactions that are to go to files, at least.
    pub transactions: u64,
    /// Memory that undo is to give back, bytes, at least.
    pub bytes: u64,
    /// The oldest snapshot is to be given up.
    pub give_up: bool,
}

/// What locks take of the budget, bytes.
fn shared(budget: u64, locks: u64) -> u64 {
    locks.min(budget / 2)
}

/// Memory that undo may take before it goes to files, bytes, beside what status and locks take.
#[must_use]
pub fn mark(budget: u64, status: u64, locks: u64) -> u64 {
    (budget / 64 * START).saturating_sub(status + shared(budget, locks)).max(budget / 64 * LEAST)
}

/// What to do as things stand.
#[must_use]
pub fn plan(sample: &Sample) -> Plan {
    let total = sample.undo + sample.status + shared(sample.budget, sample.locks);
    let part = |part: u64| sample.budget / 64 * part;
    let above = |most: u64| total.saturating_sub(part(most));
    let spare = sample.undo.saturating_sub(part(LEAST));
    let bytes = if above(START) > 0 { above(STOP).min(spare) } else { 0 };
    let helpless = (sample.stuck || bytes == 0) && above(64) > 0;
    Plan {
        transactions: if sample.waiting > WAITING_MOST { sample.waiting - WAITING_LEFT } else { 0 },
        bytes,
        give_up: sample.held && (sample.files > sample.files_most || helpless),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use std::fmt::Write;

    const MIB: u64 = 1 << 20;

    /// Phases of so many steps, each of which writes so many MiB of undo while a snapshot is held or not. Purge frees 20 MiB a
    /// step of what nobody holds, the loop moves at most 30. At each phase's end: memory, its peak, files, snapshots given up.
    fn run(files_most: u64, locks: u64, phases: &[(u64, u64, bool)]) -> String {
        let mut s = Sample {
            budget: 64 * MIB,
            files_most: files_most * MIB,
            locks: locks * MIB,
            ..Sample::default()
        };
        let (mut out, mut given_up, mut peak) = (String::new(), 0, 0);
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
                s.stuck = plan.bytes > 0 && moved == 0;
                (s.undo, s.files) = (s.undo - moved, s.files + moved);
                if plan.give_up {
                    (snapshot, given_up) = (false, given_up + 1);
                }
                peak = peak.max(s.undo + s.status + s.locks);
            }
            writeln!(
                out,
                "{steps} steps of {written} MiB: memory {}, at most {}, files {}, given up {given_up}",
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
            20 steps of 5 MiB: memory 0, at most 0, files 0, given up 0
            100 steps of 5 MiB: memory 40, at most 45, files 460, given up 0
            50 steps of 5 MiB: memory 0, at most 45, files 0, given up 0
            a snapshot for longer than files last
            100 steps of 5 MiB: memory 0, at most 45, files 0, given up 1
            50 steps of 5 MiB: memory 0, at most 45, files 0, given up 1
            locks take half of the memory, and more beside it
            100 steps of 5 MiB: memory 40, at most 47, files 492, given up 0
            50 steps of 5 MiB: memory 32, at most 47, files 0, given up 0
            100 steps of 5 MiB: memory 264, at most 271, files 492, given up 0
            50 steps of 5 MiB: memory 256, at most 271, files 0, given up 0
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn each_case() {
        let calm =
            Sample { budget: 64 * MIB, undo: 40 * MIB, files_most: MIB, held: true, ..Sample::default() };
        assert_eq!(plan(&calm), Plan::default());
        let waiting = plan(&Sample { waiting: 40_000, ..calm });
        assert_eq!(waiting, Plan { transactions: 40_000 - WAITING_LEFT, ..Plan::default() });
        assert_eq!(plan(&Sample { undo: 50 * MIB, ..calm }).bytes, 10 * MIB);
        for locks in [32 * MIB, 60 * MIB, 900 * MIB] {
            let locked = plan(&Sample { undo: 17 * MIB, locks, ..calm });
            assert_eq!((locked.bytes, locked.give_up), (9 * MIB, false), "half of the budget is theirs");
            assert_eq!(mark(64 * MIB, 0, locks), 16 * MIB);
            let locked = plan(&Sample { undo: 8 * MIB, locks, ..calm });
            assert_eq!((locked.bytes, locked.give_up), (0, false), "no snapshot goes for their sake");
        }
        assert!(plan(&Sample { files: 2 * MIB, ..calm }).give_up);
        assert!(!plan(&Sample { files: 2 * MIB, held: false, ..calm }).give_up, "purge is at work");
        assert!(plan(&Sample { undo: 65 * MIB, stuck: true, ..calm }).give_up);
        assert!(!plan(&Sample { undo: 63 * MIB, stuck: true, ..calm }).give_up);
    }
}
