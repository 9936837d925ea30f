//! When it is worth writing the root. Each time costs a sync; between two of them the redo that pages no longer need
//! still counts as checkpoint age and still keeps its segment.

/// A root that could move is written at least this often, so that a quiet database has a short log.
const EVERY_US: u64 = 1_000_000;

/// What is known when the question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
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
    /// Redo that the last checkpoint's list took, bytes: about what the next one will take.
    pub list: u64,
}

/// Whether to write the root: when that frees a segment; when the age would fall by a step that admission notices (1/128
/// of the capacity, an eighth of a segment at least); or when it has been put off for a second. In no case when its list
/// would take more of the log than it frees: lists are not admitted, and with many of them the log would run full.
#[must_use]
pub fn worth_writing(v: &View) -> bool {
    if !pays(v) {
        return false;
    }
    let step = (v.capacity / 128).max(v.segment / 8);
    v.possible / v.segment > v.named / v.segment || v.possible - v.named >= step || v.since_us >= EVERY_US
}

/// Whether a root frees at least as much of the log as its list takes.
#[must_use]
pub fn pays(v: &View) -> bool {
    v.possible > v.named && v.possible - v.named >= v.list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_as_a_table() {
        let segment = 4 << 20;
        let v = |named, possible, since_us| View {
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
            ("a step", v(0, 768 << 10, 0), true),
            ("a segment", v(segment - 1, segment + 999, 0), true),
        ];
        for (name, view, worth) in table {
            assert_eq!(worth_writing(&view), worth, "{name}");
        }
    }
}
