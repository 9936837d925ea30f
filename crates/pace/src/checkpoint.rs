//! When it is worth writing the root. Each time costs a sync; between two of them the redo that pages no longer need
//! still counts as checkpoint age and still keeps its segment.

/// A root that could move is written at least this often, so that a quiet database has a short log.
const EVERY_US: u64 = 1_000_000;

/// What is known when the question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointView {
    /// The checkpoint LSN that the root names.
    pub named: u64,
    /// Where it could stand.
    pub possible: u64,
    /// Redo that the log holds at most.
    pub capacity: u64,
    /// Redo in a segment; segments begin at its multiples.
    pub segment: u64,
    /// Microseconds since the root was written.
    pub since_us: u64,
}

/// Whether to write the root: when that frees a segment; when the age would fall by a step that admission notices (1/128
/// of the capacity, an eighth of a segment at least); or when it has been put off for a second.
#[must_use]
pub fn worth_writing(v: &CheckpointView) -> bool {
    if v.possible <= v.named {
        return false;
    }
    let step = (v.capacity / 128).max(v.segment / 8);
    v.possible / v.segment > v.named / v.segment || v.possible - v.named >= step || v.since_us >= EVERY_US
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
        };
        let table = [
            ("nothing to gain", v(5, 5, u64::MAX), false),
            ("behind", v(5, 4, u64::MAX), false),
            ("a little", v(5, 500_000, 999_999), false),
            ("a little, for long", v(5, 500_000, 1_000_000), true),
            ("a step", v(0, 768 << 10, 0), true),
            ("a segment", v(segment - 1, segment, 0), true),
        ];
        for (name, view, worth) in table {
            assert_eq!(worth_writing(&view), worth, "{name}");
        }
    }
}
