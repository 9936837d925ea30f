//! How many segment files the log should have. The number follows the need, up to the capacity that
//! was asked for.
//!
//! A log of n segments holds n - 1 segments of redo, wherever in its segment the checkpoint is. A
//! young database needs few segments, so a large capacity costs no time and no disk before it is
//! used. Admission counts only the files that exist, so an admitted operation never finds the disk
//! full.

use crate::constants::{LOG_FILES_AT_REST, LOG_FILES_MIN, LOG_FILES_SHORT, LOG_GROWTH_PART};

/// Returns the least number of files of a log that holds `age` bytes of redo. From one sixteenth of
/// a segment on it is no longer at rest.
fn least(age: u64, segment: u64) -> u64 {
    if age < segment / 16 { LOG_FILES_AT_REST } else { LOG_FILES_MIN }
}

/// Returns the redo that so many files can hold, wherever the checkpoint is.
#[must_use]
pub fn redo_bytes(files: u64, segment: u64) -> u64 {
    files.saturating_sub(1) * segment
}

/// Returns the number of files for a capacity, rounded down: the log may not take more than the
/// capacity.
#[must_use]
pub fn files(capacity: u64, segment_file_bytes: u64) -> u64 {
    (capacity / segment_file_bytes).max(LOG_FILES_MIN)
}

/// Returns how many files are enough for a log of `age` bytes: a third more than the redo fills.
/// Then the age is at four fifths of the hard limit, below the soft one.
#[must_use]
pub fn needed(age: u64, segment: u64) -> u64 {
    files_for(age, segment).max(least(age, segment))
}

/// The same, without the least number that any log needs.
#[must_use]
pub fn files_for(age: u64, segment: u64) -> u64 {
    (age + age / 3).div_ceil(segment) + 1
}

/// Returns the part of the log's redo, in eighths, above which it grows. Beside replay the age
/// falls as replay goes on: a log that grew as early as others would write zeros for files that
/// nobody needs, while replay needs the device.
fn grows_at(replaying: bool) -> u64 {
    if replaying { 4 } else { 3 }
}

/// Returns the age above which [`step`] makes more files for a short log; `None` if the log is not
/// short or may not have more than `have`. A writer that goes beyond this age wakes the cleaner.
#[must_use]
pub fn grows_above(have: u64, most: u64, segment: u64, replaying: bool) -> Option<u64> {
    match have {
        _ if have >= most || have >= LOG_FILES_SHORT => None,
        _ if have < LOG_FILES_AT_REST => Some(0),
        _ if have < LOG_FILES_MIN => Some((segment / 16).saturating_sub(1)),
        _ => Some(redo_bytes(have, segment) / 8 * grows_at(replaying)),
    }
}

/// A change of the number of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentStep {
    /// No change.
    Keep,
    /// Make so many more.
    Make(u64),
    /// Remove free files until so many are left.
    Shrink(u64),
}

/// Returns the step from `have` files towards at most `most`, while `age` bytes of redo are needed.
/// `replaying`: some of it is of the last run.
///
/// Growth begins when three eighths are in use, four beside replay, long before admission delays a
/// writer, and goes by an eighth at a time. A shrinking log stays a third larger than the redo that
/// is still needed, so that it stops no writer: cleaning lowers the age, and the number of files
/// follows. (Cleaning for the new size brings the age below three quarters of it, so the log does
/// reach the new size.)
#[must_use]
pub fn step(have: u64, most: u64, age: u64, segment: u64, replaying: bool) -> SegmentStep {
    let least = most.min(least(age, segment));
    if have < least {
        return SegmentStep::Make(least - have);
    }
    if have < most && age > redo_bytes(have, segment) / 8 * grows_at(replaying) {
        return SegmentStep::Make((most - have).min((have / LOG_GROWTH_PART).max(1)));
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
            ("new", step(0, 24, 0, S, false), SegmentStep::Make(2)),
            ("at rest", step(2, 24, mib(1) / 8, S, false), SegmentStep::Keep),
            ("at rest no more", step(2, 24, mib(1) / 4, S, false), SegmentStep::Make(2)),
            ("young", step(4, 24, mib(4), S, false), SegmentStep::Keep),
            ("filling", step(4, 24, mib(5), S, false), SegmentStep::Make(1)),
            ("filling, larger", step(16, 600, mib(24), S, false), SegmentStep::Make(2)),
            ("nearly there", step(599, 600, mib(2000), S, false), SegmentStep::Make(1)),
            ("there", step(600, 600, mib(2000), S, false), SegmentStep::Keep),
            ("killed at half", step(600, 900, mib(1190), S, true), SegmentStep::Keep),
            ("killed when nearly full", step(600, 900, mib(2200), S, true), SegmentStep::Make(75)),
            ("asked to shrink, all in use", step(600, 24, mib(2000), S, false), SegmentStep::Keep),
            ("asked to shrink, half free", step(600, 24, mib(1000), S, false), SegmentStep::Shrink(335)),
            ("asked to shrink, idle", step(600, 24, mib(1), S, false), SegmentStep::Shrink(24)),
        ];
        for (name, is, wanted) in table {
            assert_eq!(is, wanted, "{name}");
        }
        assert_eq!((files(96 << 20, S), files(0, S)), (24, 4));
        assert_eq!(redo_bytes(24, S), 92 << 20);
    }

    #[test]
    fn grows_above_agrees_with_step() {
        let cases = (0..40).flat_map(|have| [4, 5, 24, 600].map(|most| (have, most)));
        for ((have, most), replaying) in cases.flat_map(|case| [false, true].map(|beside| (case, beside))) {
            let makes = |age| matches!(step(have, most, age, S, replaying), SegmentStep::Make(_));
            match grows_above(have, most, S, replaying) {
                None => assert!(have >= LOG_FILES_SHORT || !makes(u64::MAX / 4), "{have} of {most}"),
                Some(0) => assert!(makes(0) && makes(1)),
                Some(age) => assert!(!makes(age) && makes(age + 1), "{have} of {most} at {age}"),
            }
        }
    }

    #[test]
    fn a_log_cleaned_for_its_new_size_reaches_it() {
        for (files, threads) in [(8, 4), (16, 16), (24, 16), (600, 64)] {
            let limits = crate::age_limits::age_limits(redo_bytes(files, S), threads);
            // The age moves around its target.
            let age = limits.target + limits.target / 8;
            assert_eq!(step(900, files, age, S, false), SegmentStep::Shrink(files), "{files} files");
        }
    }

    /// At any age, a step leaves so much room that admission delays nobody.
    #[test]
    fn a_shrinking_log_stops_no_writer() {
        for age_mib in 0..2400 {
            if let SegmentStep::Shrink(to) = step(600, 24, age_mib << 20, S, false) {
                let limits = crate::age_limits::age_limits(redo_bytes(to, S), 16);
                assert!(age_mib << 20 < limits.soft, "{age_mib} MiB, {to} files");
            }
        }
    }
}
