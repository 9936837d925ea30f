//! What a trace has found, whichever way it was traced.

use super::histogram::{Bucket, Points};
use super::pairing::Sync;
use super::purpose::purpose;
use super::{histogram, line::Call};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Syncs of one file, for one reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    /// Its path, or its kind in a database of Millpond.
    pub(crate) file: String,
    /// The reason, or what the file is for.
    pub(crate) reason: String,
    /// The call; empty where it is not known.
    pub(crate) call: &'static str,
    pub(crate) syncs: u64,
    pub(crate) failed: u64,
    pub(crate) us_total: u64,
    pub(crate) us_max: u64,
    /// Callers that waited for them, where that is known.
    pub(crate) waiters: Option<u64>,
}

/// A second, or a longer step, of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Second {
    /// Its length.
    pub(crate) seconds: f64,
    pub(crate) syncs: u64,
    /// Transactions that were committed in it, where that is known.
    pub(crate) commits: Option<u64>,
}

/// Commits that the traced process itself has counted meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counted {
    /// About how many in the time of the trace.
    pub(crate) commits: u64,
    /// Who counted which commits.
    pub(crate) by: String,
    /// The syncs of the trace are those of these commits, and of nothing else.
    pub(crate) all: bool,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Trace {
    /// What was traced.
    pub(crate) target: String,
    /// A word for the way it was traced: `tracepoints`, `strace`, `recorder`.
    pub(crate) way: &'static str,
    /// The way, as a sentence.
    pub(crate) how: String,
    pub(crate) seconds: f64,
    /// Most syncs first.
    pub(crate) rows: Vec<Row>,
    pub(crate) latency: Vec<Bucket>,
    pub(crate) points: Points,
    pub(crate) over_time: Vec<Second>,
    /// Commits, where seconds do not have them.
    pub(crate) counted: Option<Counted>,
    /// What else is to be known, as sentences.
    pub(crate) notes: Vec<String>,
}

impl Trace {
    /// Returns the number of syncs.
    pub(crate) fn syncs(&self) -> u64 {
        self.rows.iter().map(|row| row.syncs).sum()
    }

    /// Returns the number of commits of all that was traced, if it is known.
    pub(crate) fn commits(&self) -> Option<u64> {
        let counted = || self.counted.as_ref().filter(|counted| counted.all).map(|counted| counted.commits);
        self.over_time.iter().map(|second| second.commits).sum::<Option<u64>>().or_else(counted)
    }
}

/// Adds up syncs that were seen one by one.
#[derive(Debug)]
pub(crate) struct Tally {
    begin_us: u64,
    end_us: u64,
    rows: BTreeMap<(Option<String>, Call), Row>,
    times: Histogram<u64>,
    seconds: Vec<u64>,
}

impl Tally {
    /// Counts syncs that end from `begin_us` on, for at most `length_us`.
    pub(crate) fn new(begin_us: u64, length_us: u64) -> Tally {
        // Three digits. It grows when it has to, so no time is too long.
        let times = Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are allowed"));
        let end_us = begin_us.saturating_add(length_us);
        Tally { begin_us, end_us, rows: BTreeMap::new(), times, seconds: Vec::new() }
    }

    /// Counts a sync.
    pub(crate) fn add(&mut self, sync: Sync) {
        if !(self.begin_us..self.end_us).contains(&sync.end_us) {
            return;
        }
        let row = self.rows.entry((sync.file, sync.call)).or_default();
        row.syncs += 1;
        row.failed += u64::from(sync.failed);
        row.us_total += sync.took_us;
        row.us_max = row.us_max.max(sync.took_us);
        // Any number of digits fits once it has grown; only memory can be short.
        let _ = self.times.record(sync.took_us);
        let second = ((sync.end_us - self.begin_us) / 1_000_000) as usize;
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, 0);
        }
        self.seconds[second] += 1;
    }

    /// Returns what was found in `seconds`. `ponds` are directories of Millpond's databases,
    /// `step_us` the width of a row of the histogram.
    pub(crate) fn result(mut self, seconds: f64, ponds: &[PathBuf], step_us: Option<u64>) -> Trace {
        let whole = (seconds.ceil() as usize).max(1);
        self.seconds.resize(whole.max(self.seconds.len()), 0);
        let last = self.seconds.len() - 1;
        let length = |i: usize| if i == last { seconds - last as f64 } else { 1.0 };
        let over_time = self.seconds.iter().enumerate();
        let over_time =
            over_time.map(|(i, syncs)| Second { seconds: length(i), syncs: *syncs, commits: None }).collect();
        let mut rows: Vec<Row> = self.rows.into_iter().map(|(key, row)| named(key, row, ponds)).collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.syncs), row.file.clone()));
        Trace {
            seconds,
            rows,
            latency: histogram::linear(&self.times, step_us),
            points: histogram::points(&self.times),
            over_time,
            ..Trace::default()
        }
    }
}

fn named((file, call): (Option<String>, Call), row: Row, ponds: &[PathBuf]) -> Row {
    let reason = file.as_deref().map_or("", |file| purpose(Path::new(file), ponds)).to_owned();
    let nameless = match call {
        Call::Msync => "(a memory map)",
        Call::Sync => "(all file systems)",
        _ => "(a file that was closed)",
    };
    let file = file.unwrap_or_else(|| nameless.to_owned());
    Row { file, reason, call: call.label(), ..row }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sync(end_us: u64, took_us: u64, file: &str) -> Sync {
        Sync { end_us, took_us, call: Call::Fdatasync, file: Some(file.to_owned()), failed: false }
    }

    #[test]
    fn syncs_are_added_up_by_file_and_by_second() {
        let mut tally = Tally::new(1_000_000, 3_000_000);
        tally.add(sync(999_999, 5, "/d/early"));
        tally.add(sync(1_000_000, 500, "/d/ib_logfile0"));
        tally.add(sync(1_999_999, 7_000_000, "/d/ib_logfile0"));
        tally.add(Sync { failed: true, ..sync(3_000_000, 90, "/d/t.ibd") });
        tally.add(Sync { call: Call::Sync, file: None, ..sync(3_500_000, 10, "") });
        tally.add(sync(4_000_000, 5, "/d/late"));
        let trace = tally.result(2.6, &[], Some(100));
        let rows: Vec<_> = trace
            .rows
            .iter()
            .map(|r| (r.file.as_str(), r.reason.as_str(), r.call, r.syncs, r.failed))
            .collect();
        assert_eq!(
            rows,
            [
                ("/d/ib_logfile0", "redo log", "fdatasync", 2, 0),
                ("(all file systems)", "", "sync", 1, 0),
                ("/d/t.ibd", "a table", "fdatasync", 1, 1),
            ]
        );
        assert_eq!((trace.rows[0].us_total, trace.rows[0].us_max), (7_000_500, 7_000_000));
        assert!((7_000_000..7_010_000).contains(&trace.points.max), "{:?}", trace.points);
        let seconds: Vec<_> = trace.over_time.iter().map(|s| s.syncs).collect();
        assert_eq!((seconds, trace.syncs(), trace.commits()), (vec![2, 0, 2], 4, None));
        assert!((trace.over_time[2].seconds - 0.6).abs() < 1e-9);
        assert_eq!(Tally::new(0, 9).result(0.5, &[], None).over_time.len(), 1);
    }
}
