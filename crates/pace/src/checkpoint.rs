//! When to write a checkpoint to the root. Each write costs a sync. Until the next write, redo that
//! pages no longer need still counts as checkpoint age and still keeps its segment.

use crate::constants::CHECKPOINT_EVERY_US;

/// The state on which the decision is based.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointView {
    /// The checkpoint LSN that the root names.
    pub named: u64,
    /// The checkpoint LSN that a new root could name.
    pub possible: u64,
    /// The most redo that the log holds.
    pub capacity: u64,
    /// Redo in a segment; segments begin at its multiples.
    pub segment: u64,
    /// Microseconds since the root was written.
    pub since_us: u64,
    /// Redo that the last checkpoint's list took, bytes: about what the next one will take.
    pub list: u64,
}

/// Returns whether a root frees at least as much of the log as its list takes.
#[must_use]
pub fn pays(v: &CheckpointView) -> bool {
    v.possible > v.named && v.possible - v.named >= v.list
}

/// Whether to write the root now. Yes if that frees a segment, if the age would fall by a step that
/// matters to admission (1/64 of the capacity, at least an eighth of a segment), or if the last
/// write was a second ago. Never if its list would take more of the log than it frees: admission
/// does not ask for lists, and many of them would fill the log.
#[must_use]
pub fn worth_writing(v: &CheckpointView) -> bool {
    if !pays(v) {
        return false;
    }
    let step = (v.capacity / 64).max(v.segment / 8);
    v.possible / v.segment > v.named / v.segment
        || v.possible - v.named >= step
        || v.since_us >= CHECKPOINT_EVERY_US
}

/// The state on which [`renews`] decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadView {
    /// Log that an opening would read after a crash now, bytes.
    pub head: u64,
    /// The checkpoint age, bytes.
    pub age: u64,
    /// The most redo that the log holds, bytes.
    pub capacity: u64,
    /// About the log that a list of the dirty pages takes, bytes.
    pub list: u64,
    /// Log that an opening may read, bytes.
    pub most: u64,
}

/// Whether to write new lists so that an opening reads less of the log. Not if the log is short
/// anyway; never so often that lists are more than a sixteenth of the log, and never if they could
/// fill it.
#[must_use]
pub fn renews(v: &HeadView) -> bool {
    let step = v.most.max(v.list.saturating_mul(16));
    v.head >= step && v.age >= 2 * step && v.age.saturating_add(v.list.saturating_mul(4)) <= v.capacity
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_as_a_table() {
        let segment = 4 << 20;
        let v = |named, possible, since_us| CheckpointView {
            named,
            possible,
            capacity: 96 << 20,
            segment,
            since_us,
            list: 1000,
        };
        let table = [
            ("less than the list, for long", v(5, 1004, u64::MAX), false),
            ("a segment, and less than the list", v(segment - 1, segment + 998, 0), false),
            ("as much as the list, for long", v(5, 1005, u64::MAX), true),
            ("nothing to gain", v(5, 5, u64::MAX), false),
            ("behind", v(5, 4, u64::MAX), false),
            ("a little", v(5, 500_000, 999_999), false),
            ("a little, for long", v(5, 500_000, 1_000_000), true),
            ("a step", v(0, 1536 << 10, 0), true),
            ("a segment", v(segment - 1, segment + 999, 0), true),
        ];
        for (name, view, worth) in table {
            assert_eq!(worth_writing(&view), worth, "{name}");
        }
    }

    #[test]
    fn lists_are_renewed_as_a_table() {
        const MIB: u64 = 1 << 20;
        let v = |head, age, list| HeadView {
            head: head * MIB,
            age: age * MIB,
            capacity: 1024 * MIB,
            list: list * MIB,
            most: 64 * MIB,
        };
        let table = [
            ("a short head", v(63, 1000, 0), false),
            ("a long head", v(64, 1000, 0), true),
            ("a long head of a short log", v(64, 127, 0), false),
            ("a list of a fifteenth of the head", v(64, 500, 5), false),
            ("the same, later", v(80, 500, 5), true),
            ("hardly room", v(80, 1004, 5), true),
            ("no room", v(80, 1005, 5), false),
        ];
        for (name, view, renew) in table {
            assert_eq!(renews(&view), renew, "{name}");
        }
    }
}
