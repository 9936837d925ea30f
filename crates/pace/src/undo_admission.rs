//! Admission for rollback and purge: when their redo may be logged.
//!
//! There is no new operation that could be delayed instead, and there may be any amount of this
//! redo: a rollback may undo an hour of work within minutes. So rollback and purge ask for
//! admission too, for a row or a few pages at a time. They have limits of their own:
//!
//! ```text
//! 0 ........ soft ........ delay ... hard ..... full disk ..... capacity
//!   at once                  | a slice |  only while  | never
//!                            | after a |  the         |
//!                            | pause   |  checkpoint  |
//!                            |         |  is blocked  |
//! ```
//! At the delay limit writers are admitted at a third of the rate of cleaning, so a long rollback
//! leaves them that much. Above it one slice is admitted after each pause, so writers cannot starve
//! a rollback either. The redo above the hard limit is kept for operations that finish. While
//! cleaning makes progress, rollback and purge do not need it. If a full disk blocks the
//! checkpoint, rolling back may help, so half of it is for rollback and purge. The other half is
//! for commits, for the checkpoint's own list and for admitted operations.

use crate::age_limits::AgeLimits;
use crate::constants::{
    ADMISSION_CLEAN_BYTES_PER_S_MIN, UNDO_CLEAN_PART, UNDO_PAUSE_US_MIN, UNDO_SLICE_BYTES,
};

/// Returns the pause before the next slice, for a rate of cleaning. All slices together log a
/// quarter of what is cleaned.
#[must_use]
pub fn pause_us(clean_bytes_per_s: f64) -> u64 {
    let clean = clean_bytes_per_s.max(ADMISSION_CLEAN_BYTES_PER_S_MIN);
    let pause = UNDO_SLICE_BYTES as f64 * UNDO_CLEAN_PART * 1e6 / clean;
    (pause as u64).max(UNDO_PAUSE_US_MIN)
}

/// The state on which the decision is based.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoView {
    /// Redo between the checkpoint LSN and the end of the log, with the redo that admitted
    /// operations may still write.
    pub age: u64,
    /// The limits for the present capacity.
    pub limits: AgeLimits,
    /// The checkpoint cannot advance: there is no disk space for what it must write before.
    pub checkpoint_blocked: bool,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoDecision {
    /// Admitted.
    Now,
    /// Admitted if it fits the rest of a slice, else after a pause.
    InSlices,
    /// Wait for the checkpoint.
    Wait,
}

/// Returns whether and how a request for `redo_bytes` bytes is admitted.
#[must_use]
pub fn admit(view: &UndoView, redo_bytes: u64) -> UndoDecision {
    let (limits, end) = (&view.limits, view.age.saturating_add(redo_bytes));
    if end <= delay_limit(limits) {
        UndoDecision::Now
    } else if end <= limits.hard {
        UndoDecision::InSlices
    } else if view.checkpoint_blocked && end <= full_disk_limit(limits) {
        UndoDecision::Now
    } else {
        UndoDecision::Wait
    }
}

/// Returns the age at which operations stop while a rollback waits for pages on a full disk.
///
/// Others are admitted then, because what they delete frees pages. Their undo may find no space, so
/// the checkpoint moves only when purge has made it unnecessary. So a third of the log is for them,
/// a third more for what the rollback can do meanwhile ([`retry_limit`]), and the rest for purge.
#[must_use]
pub fn stop_beside_waiting(limits: &AgeLimits) -> u64 {
    limits.hard / 3
}

/// Returns the age up to which such a rollback is tried again.
#[must_use]
pub fn retry_limit(limits: &AgeLimits) -> u64 {
    limits.hard / 3 * 2
}

/// Three quarters of the way from the soft limit to the hard one.
fn delay_limit(limits: &AgeLimits) -> u64 {
    limits.soft + limits.hard.saturating_sub(limits.soft) / 4 * 3
}

/// The hard limit and half of the redo that is never given to new operations.
#[must_use]
fn full_disk_limit(limits: &AgeLimits) -> u64 {
    limits.hard.saturating_add(limits.capacity.saturating_sub(limits.hard) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_limits_as_a_table() {
        let limits = AgeLimits { target: 60, soft: 75, hard: 95, capacity: 101 };
        let mut out = String::new();
        for age in [0, 75, 88, 89, 93, 94, 96, 97, 101, 200] {
            let say = |checkpoint_blocked| admit(&UndoView { age, limits, checkpoint_blocked }, 1);
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
            admit(&UndoView { age: u64::MAX, limits, checkpoint_blocked: true }, 10),
            UndoDecision::Wait
        );
    }

    #[test]
    fn a_pause_is_as_long_as_the_rate_of_cleaning_demands_and_has_two_bounds() {
        let rates = [0.0, 1.0, ADMISSION_CLEAN_BYTES_PER_S_MIN, 1e6, 10e6, 100e6, f64::INFINITY];
        assert_eq!(rates.map(pause_us), [500_000, 500_000, 500_000, 262_144, 26_214, 10_000, 10_000]);
    }

    /// Writers and a rollback that never pause, on devices of several speeds: neither side is
    /// stopped, and the age stays below the hard limit.
    #[test]
    fn a_long_rollback_and_writers_leave_each_other_room() {
        use crate::admission;
        const MIB: u64 = 1 << 20;
        for clean_mb in [5, 50, 500] {
            let limits = crate::age_limits::age_limits(64 * MIB, 8);
            let clean = f64::from(clean_mb) * 1e6;
            let (mut age, mut slice, mut writers, mut undone, mut worst) =
                (0_f64, 0_u64, 0_f64, 0_f64, 0_f64);
            for step in 0..20_000 {
                // One millisecond: the rollback could log 300 KB, the writers 1 MB.
                let view = UndoView { age: age as u64, limits, checkpoint_blocked: false };
                if step % (pause_us(clean) / 1000) == 0 {
                    slice = UNDO_SLICE_BYTES;
                }
                let gave = match admit(&view, 1000) {
                    UndoDecision::Now => 300_000,
                    UndoDecision::InSlices => std::mem::take(&mut slice),
                    UndoDecision::Wait => 0,
                } as f64;
                let door = admission::AdmissionView {
                    age: age as u64,
                    soft: limits.soft,
                    hard: limits.hard,
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
            assert!(worst < limits.hard as f64, "{clean_mb} MB/s: age {worst}");
            assert!(per_s(writers) > clean / 5.0, "{clean_mb} MB/s: writers {}", per_s(writers));
            assert!(per_s(undone) > clean / 5.0, "{clean_mb} MB/s: rollback {}", per_s(undone));
        }
    }
}
