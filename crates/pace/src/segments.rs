//! How many segment files there should be: files follow need, up to the capacity that was asked for.
//!
//! A log of n segments holds n - 1 of them of redo, whatever the checkpoint's place in its segment. A young database
//! needs few, so a large capacity costs neither time nor disk before it is used; and admission goes by the files that
//! there are, so an operation that was let in never finds the disk full.

/// No log that is written to works with less: one being left, one being written, two ahead.
pub const FILES_MIN: u64 = 4;

/// But a log in which nothing happens can lie in two: the one that is written, and one ahead.
pub const FILES_AT_REST: u64 = 2;

/// Files without which a log that holds `age` bytes of redo does not work. One sixteenth of a segment says that it is at rest no more.
fn least(age: u64, segment: u64) -> u64 {
    if age < segment / 16 { FILES_AT_REST } else { FILES_MIN }
}

/// Redo that so many files can hold, whatever the checkpoint's place.
#[must_use]
pub fn redo_bytes(files: u64, segment: u64) -> u64 {
    files.saturating_sub(1) * segment
}

/// Files for a capacity, rounded down: the capacity is what the log may take.
#[must_use]
pub fn files(capacity: u64, segment_file_bytes: u64) -> u64 {
    (capacity / segment_file_bytes).max(FILES_MIN)
}

/// Files that nobody misses any of as long as the log does not grow longer than `age` bytes: half as many again as they fill.
#[must_use]
pub fn needed(age: u64, segment: u64) -> u64 {
    files_for(age, segment).max(least(age, segment))
}

/// The same without the files that a log needs whatever it holds.
#[must_use]
pub fn files_for(age: u64, segment: u64) -> u64 {
    (age + age / 2).div_ceil(segment) + 1
}

/// A log of so many files has more made by the cleaner's usual steps, an eighth at a time: its own room lasts that long, and zeros
/// for new files share the device with commits. A shorter one is filled sooner than the cleaner looks.
pub const FILES_SHORT: u64 = 16;

/// The age above which [`step`] makes files for a short log, if there may be more than `have`: whoever writes beyond it has
/// somebody look.
#[must_use]
pub fn grows_above(have: u64, most: u64, segment: u64) -> Option<u64> {
    match have {
        _ if have >= most || have >= FILES_SHORT => None,
        _ if have < FILES_AT_REST => Some(0),
        _ if have < FILES_MIN => Some((segment / 16).saturating_sub(1)),
        _ => Some(redo_bytes(have, segment) / 8 * 3),
    }
}

/// What to do about the number of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentStep {
    /// Leave it.
    Keep,
    /// Make so many more.
    Make(u64),
    /// There may be as many as this; what is free beyond goes.
    Shrink(u64),
}

/// The step from `have` files towards at most `most`, while `age` bytes of redo are needed.
///
/// Growth begins when three eighths are in use, long before admission delays anyone, and by an eighth at a time. A
/// shrinking log stays half as large again as the redo that is still needed, so that nobody is stopped by it: cleaning
/// lowers the age, and the files follow. (Cleaning for the new size brings the age below 0.57 of it, so it gets there.)
#[must_use]
pub fn step(have: u64, most: u64, age: u64, segment: u64) -> SegmentStep {
    let least = most.min(least(age, segment));
    if have < least {
        return SegmentStep::Make(least - have);
    }
    if have < most && age > redo_bytes(have, segment) / 8 * 3 {
        return SegmentStep::Make((most - have).min((have / 8).max(1)));
    }
    if have > most {
        let to = most.max(needed(age, segment));
        if to < have {
            return SegmentStep::Shrink(to);
        }
    }
    SegmentStep::Keep
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 4 << 20;

    #[test]
    fn the_rule_as_a_table() {
        let mib = |n: u64| n << 20;
        let table = [
            ("new", step(0, 24, 0, S), SegmentStep::Make(2)),
            ("at rest", step(2, 24, mib(1) / 8, S), SegmentStep::Keep),
            ("at rest no more", step(2, 24, mib(1) / 4, S), SegmentStep::Make(2)),
            ("young", step(4, 24, mib(4), S), SegmentStep::Keep),
            ("filling", step(4, 24, mib(5), S), SegmentStep::Make(1)),
            ("filling, larger", step(16, 600, mib(24), S), SegmentStep::Make(2)),
            ("nearly there", step(599, 600, mib(2000), S), SegmentStep::Make(1)),
            ("there", step(600, 600, mib(2000), S), SegmentStep::Keep),
            ("asked to shrink, all in use", step(600, 24, mib(2000), S), SegmentStep::Keep),
            ("asked to shrink, half free", step(600, 24, mib(1000), S), SegmentStep::Shrink(376)),
            ("asked to shrink, idle", step(600, 24, mib(1), S), SegmentStep::Shrink(24)),
        ];
        for (name, is, wanted) in table {
            assert_eq!(is, wanted, "{name}");
        }
        assert_eq!((files(96 << 20, S), files(0, S)), (24, 4));
        assert_eq!(redo_bytes(24, S), 92 << 20);
    }

    #[test]
    fn it_is_known_where_the_next_step_up_is() {
        for (have, most) in (0..40).flat_map(|have| [4, 5, 24, 600].map(|most| (have, most))) {
            let makes = |age| matches!(step(have, most, age, S), SegmentStep::Make(_));
            match grows_above(have, most, S) {
                None => assert!(have >= FILES_SHORT || !makes(u64::MAX / 4), "{have} of {most}"),
                Some(0) => assert!(makes(0) && makes(1)),
                Some(age) => assert!(!makes(age) && makes(age + 1), "{have} of {most} at {age}"),
            }
        }
    }

    #[test]
    fn a_log_cleaned_for_its_new_size_gets_there() {
        for (files, threads) in [(8, 4), (16, 16), (24, 16), (600, 64)] {
            let marks = crate::thresholds::thresholds(redo_bytes(files, S), threads);
            assert_eq!(step(900, files, marks.target, S), SegmentStep::Shrink(files), "{files} files");
        }
    }

    /// Whatever the age does, a step never leaves less room than the age needs.
    #[test]
    fn a_shrinking_log_stops_nobody() {
        for age_mib in 0..2400 {
            if let SegmentStep::Shrink(to) = step(600, 24, age_mib << 20, S) {
                assert!(redo_bytes(to, S) >= (age_mib << 20) / 2 * 3, "{age_mib} MiB, {to} files");
            }
        }
    }
}
