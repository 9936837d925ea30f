//! When redo may be logged that takes back or clears away: that of rollback and purge.
//!
//! Nobody stands behind it who could be held at the door, and there may be any amount of it: a transaction of an hour is rolled
//! back in minutes. So it asks as well, a row or a few pages at a time, and goes by marks of its own:
//!
//! ```text
//! 0 ........ soft ........ share ... hard ..... reserve ..... capacity
//!   at once                  | a slice |  only while  | never
//!                            | now and |  nothing     |
//!                            | then    |  cleans      |
//! ```
//! Writers are let in at a third of the rate of cleaning where the age stands at the share, so a long rollback leaves them
//! that much. Beyond it a slice goes on after each pause, so they cannot crowd it out either. Beyond the hard mark lies what is kept for those
//! who finish. While cleaning gets on nobody needs to go there. Where it cannot, because a full disk keeps the checkpoint from moving, rolling back
//! is what may help, so half of that is for it; the other half is for commits, for the checkpoint's own list and for operations
//! that were let in.

use crate::thresholds::Thresholds;

/// Redo that goes on at once beyond the share, bytes.
pub const SLICE_BYTES: u64 = 64 << 10;

/// The pause before the next slice lasts so long at least and at most.
const PAUSE_US: (u64, u64) = (10_000, 500_000);

/// The pause before the next slice where so much is cleaned: all slices together come to a quarter of that, so with the third that
/// writers have the age falls.
#[must_use]
pub fn pause_us(clean_bytes_per_s: f64) -> u64 {
    let pause = SLICE_BYTES as f64 * 4e6 / clean_bytes_per_s.max(1.0);
    (pause as u64).clamp(PAUSE_US.0, PAUSE_US.1)
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoView {
    /// Redo between the checkpoint LSN and the end of the log, that of admitted operations included.
    pub age: u64,
    /// The marks of the log as long as it is now.
    pub marks: Thresholds,
    /// The checkpoint cannot move: there is no space for what it has to write before.
    pub checkpoint_blocked: bool,
}

/// What becomes of redo that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoDecision {
    /// It goes on.
    Now,
    /// It goes on if it is the rest of a slice, else after a pause.
    InSlices,
    /// It waits for the checkpoint.
    Wait,
}

/// The answer for so many bytes.
#[must_use]
pub fn decide(view: &UndoView, redo_bytes: u64) -> UndoDecision {
    let (marks, end) = (&view.marks, view.age.saturating_add(redo_bytes));
    if end <= delay_mark(marks) {
        UndoDecision::Now
    } else if end <= marks.hard {
        UndoDecision::InSlices
    } else if view.checkpoint_blocked && end <= full_disk_limit(marks) {
        UndoDecision::Now
    } else {
        UndoDecision::Wait
    }
}

/// Three quarters of the way from the soft mark to the hard one.
fn delay_mark(marks: &Thresholds) -> u64 {
    marks.soft + marks.hard.saturating_sub(marks.soft) / 4 * 3
}

/// Half of what is never given to new operations.
#[must_use]
fn full_disk_limit(marks: &Thresholds) -> u64 {
    marks.hard.saturating_add(marks.capacity.saturating_sub(marks.hard) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_marks_as_a_table() {
        let marks = Thresholds { target: 60, soft: 75, hard: 95, capacity: 101 };
        let mut out = String::new();
        for age in [0, 75, 88, 89, 93, 94, 96, 97, 101, 200] {
            let say = |checkpoint_blocked| decide(&UndoView { age, marks, checkpoint_blocked }, 1);
            out += &format!("{age:>3} {:?} {:?}\n", say(false), say(true));
        }
        expect![[r#"
              0 Now Now
             75 Now Now
             88 Now Now
             89 Now Now
             93 InSlices InSlices
             94 InSlices InSlices
             96 Wait Now
             97 Wait Now
            101 Wait Wait
            200 Wait Wait
        "#]]
        .assert_eq(&out);
        assert_eq!(
            decide(&UndoView { age: u64::MAX, marks, checkpoint_blocked: true }, 10),
            UndoDecision::Wait
        );
    }

    /// Writers that never pause, a rollback that never pauses, and a device that cleans so much: nobody is stopped, and the
    /// age stays below the hard mark.
    #[test]
    fn a_long_rollback_and_writers_leave_each_other_room() {
        use crate::admission;
        const MIB: u64 = 1 << 20;
        for clean_mb in [5, 50, 500] {
            let marks = crate::thresholds::thresholds(64 * MIB, 8);
            let clean = f64::from(clean_mb) * 1e6;
            let (mut age, mut slice, mut writers, mut undone, mut worst) =
                (0_f64, 0_u64, 0_f64, 0_f64, 0_f64);
            for step in 0..20_000 {
                // One millisecond: the rollback could log 300 KB, the writers 1 MB.
                let view = UndoView { age: age as u64, marks, checkpoint_blocked: false };
                if step % (pause_us(clean) / 1000) == 0 {
                    slice = SLICE_BYTES;
                }
                let gave = match decide(&view, 1000) {
                    UndoDecision::Now => 300_000,
                    UndoDecision::InSlices => std::mem::take(&mut slice),
                    UndoDecision::Wait => 0,
                } as f64;
                let door = admission::AdmissionView {
                    age: age as u64,
                    soft: marks.soft,
                    hard: marks.hard,
                    clean_bytes_per_s: clean,
                };
                let price = admission::price_ns(&door, 1_000_000) as f64;
                let let_in = if admission::must_wait(&door, 1000) {
                    0.0
                } else {
                    1e6 * (1e6 / price.max(1e6)).min(1.0)
                };
                age = (age + gave + let_in - clean / 1000.0).max(0.0);
                worst = worst.max(age);
                if step >= 10_000 {
                    (writers, undone) = (writers + let_in, undone + gave);
                }
            }
            let per_s = |bytes: f64| bytes / 10.0;
            assert!(worst < marks.hard as f64, "{clean_mb} MB/s: age {worst}");
            assert!(per_s(writers) > clean / 5.0, "{clean_mb} MB/s: writers {}", per_s(writers));
            assert!(per_s(undone) > clean / 5.0, "{clean_mb} MB/s: rollback {}", per_s(undone));
        }
    }
}
