//! Which segments a recording has, by their names, and which are too many.

use std::time::Duration;

/// Length of a segment, seconds.
pub(super) const SEGMENT: u64 = 600;
/// What follows the number in the name of a segment that is written, and of one that is complete.
pub(super) const OPEN: &str = ".jsonl";
pub(super) const COMPLETE: &str = ".jsonl.gz";

/// How much of the past is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of all segments together.
    pub(crate) bytes: u64,
    /// How long it is kept.
    pub(crate) age: Duration,
}

/// A segment: its first second since 1970, and whether it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Segment {
    pub(super) from: u64,
    pub(super) complete: bool,
}

impl Segment {
    /// Reads a file's name; `None` if it is no segment.
    pub(super) fn parse(name: &str) -> Option<Segment> {
        let (digits, complete) = match name.strip_suffix(COMPLETE) {
            Some(digits) => (digits, true),
            None => (name.strip_suffix(OPEN)?, false),
        };
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        Some(Segment { from: plain.then_some(digits)?.parse().ok()?, complete })
    }

    /// Returns its file's name.
    pub(super) fn name(self) -> String {
        // Ten digits until the year 2286, so names are in the order of time.
        format!("{:010}{}", self.from, if self.complete { COMPLETE } else { OPEN })
    }
}

/// Returns whether a sample at `now` begins another segment than that of `from`; both in seconds.
pub(super) fn is_another(from: u64, now: u64) -> bool {
    from / SEGMENT != now / SEGMENT
}

/// Returns how many of the oldest segments are too many. `sizes` are segments with their bytes, the
/// oldest first. The newest always stays.
pub(super) fn too_many(sizes: &[(Segment, u64)], now: u64, limits: Limits) -> usize {
    let mut bytes: u64 = sizes.iter().map(|(_, bytes)| bytes).sum();
    let oldest = now.saturating_sub(limits.age.as_secs());
    let mut gone = 0;
    for (i, (_, size)) in sizes.iter().enumerate() {
        // A segment is as old as its end, which is at most the begin of the next.
        let Some((next, _)) = sizes.get(i + 1) else { break };
        if bytes <= limits.bytes && next.from > oldest {
            break;
        }
        bytes -= size;
        gone = i + 1;
    }
    gone
}

/// Returns the segments that may hold samples from `from` until `until`, seconds since 1970.
pub(super) fn overlapping(segments: &[Segment], from: f64, until: f64) -> Vec<Segment> {
    let of = |(i, segment): (usize, &Segment)| {
        let end = segments.get(i + 1).map_or(f64::INFINITY, |next| next.from as f64);
        ((segment.from as f64) <= until && end >= from).then_some(*segment)
    };
    segments.iter().enumerate().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(from: u64) -> Segment {
        Segment { from, complete: true }
    }

    #[test]
    fn names_come_back_and_are_in_the_order_of_time() {
        for complete in [true, false] {
            let segment = Segment { from: 1_764_000_000, complete };
            assert_eq!(Segment::parse(&segment.name()), Some(segment));
        }
        assert!(segment(999_999_999).name() < segment(1_000_000_000).name());
        for name in ["", ".jsonl", "x.jsonl", "12", "12.gz", "-1.jsonl", "99999999999999999999.jsonl"] {
            assert_eq!(Segment::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_segment_ends_with_its_ten_minutes() {
        assert!(!is_another(1200, 1799));
        assert!(is_another(1200, 1800));
        assert!(is_another(1799, 1800), "also if it began a second before");
    }

    #[test]
    fn the_oldest_go_by_size_and_by_age_and_the_newest_stays() {
        let sizes = [(segment(0), 10), (segment(600), 10), (segment(1200), 10)];
        let limits = |bytes, age| Limits { bytes, age: Duration::from_secs(age) };
        assert_eq!(too_many(&sizes, 1500, limits(30, 10_000)), 0);
        assert_eq!(too_many(&sizes, 1500, limits(29, 10_000)), 1);
        assert_eq!(too_many(&sizes, 1500, limits(1, 10_000)), 2);
        assert_eq!(too_many(&sizes, 1500, limits(100, 900)), 1);
        assert_eq!(too_many(&sizes, 1500, limits(100, 1)), 2);
        assert_eq!(too_many(&[], 1500, limits(0, 0)), 0);
    }

    #[test]
    fn a_window_needs_the_segment_before_its_begin() {
        let all = [segment(0), segment(600), segment(1200)];
        assert_eq!(overlapping(&all, 700.0, 800.0), [segment(600)]);
        assert_eq!(overlapping(&all, 500.0, 1200.0), all);
        assert_eq!(overlapping(&all, 5000.0, 6000.0), [segment(1200)]);
        assert!(overlapping(&[], 0.0, 1.0).is_empty());
    }
}
