//! What the engine and the operating system counted during the measured phase. Only this module
//! and the benchmarks know names of metrics.

use metrics::FsyncRow;
use millpond::{Db, Snapshot};
use std::collections::BTreeMap;

/// The values of all counters at one time.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    engine: Snapshot,
    device_write_bytes: Option<u64>,
}

impl Reading {
    /// Reads the counters now.
    pub(crate) fn now(db: &Db) -> Reading {
        Reading { device_write_bytes: device_write_bytes(), ..Reading::of(db.metrics()) }
    }

    /// Makes a reading of an engine without the operating system's counters.
    pub(crate) fn of(engine: Snapshot) -> Reading {
        Reading { engine, device_write_bytes: None }
    }

    /// Returns what the engine counted.
    pub(crate) fn engine(&self) -> &Snapshot {
        &self.engine
    }
}

/// Returns the bytes that this process has sent to the storage layer, as the kernel counts them.
pub(crate) fn device_write_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes:"))?;
    line.trim().parse().ok()
}

/// Returns a gauge or counter; 0 if the engine has none of that name, so old and new engines can be
/// compared.
fn value(snapshot: &Snapshot, name: &str) -> u64 {
    snapshot.get(name).map_or(0, |v| v as u64)
}

/// Returns the redo between the checkpoint and the end of the log, bytes.
pub(crate) fn checkpoint_age(snapshot: &Snapshot) -> u64 {
    value(snapshot, "checkpoint_age_bytes")
}

/// Returns the LSN of the end of the log.
pub(crate) fn lsn(snapshot: &Snapshot) -> u64 {
    value(snapshot, "current_lsn")
}

/// Returns the syncs of all files since the database was opened.
pub(crate) fn fsyncs(snapshot: &Snapshot) -> u64 {
    value(snapshot, "fsyncs")
}

/// Returns the milliseconds from the opening until all redo was applied.
pub(crate) fn recovery_ms(snapshot: &Snapshot) -> u64 {
    value(snapshot, "recovery_ms")
}

/// Returns the redo after the checkpoint that the opening found, bytes.
pub(crate) fn recovery_redo_bytes(snapshot: &Snapshot) -> u64 {
    value(snapshot, "recovery_redo_bytes")
}

/// Returns the redo of the last run that is still to be applied, bytes.
pub(crate) fn recovery_left_bytes(snapshot: &Snapshot) -> u64 {
    value(snapshot, "recovery_left_bytes")
}

/// Returns how many aborted transactions are not yet fully reverted.
pub(crate) fn being_reverted(snapshot: &Snapshot) -> u64 {
    value(snapshot, "aborted_transactions")
}

/// Maximum and mean of the samples of a gauge.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    max: u64,
    sum: u64,
    samples: u64,
}

impl Level {
    /// Adds a sample.
    pub(crate) fn add(&mut self, value: u64) {
        self.max = self.max.max(value);
        self.sum += value;
        self.samples += 1;
    }

    /// Returns whether there is no sample.
    pub(crate) fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Returns the greatest sample.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean of the samples.
    pub(crate) fn mean(&self) -> u64 {
        self.sum.checked_div(self.samples).unwrap_or(0)
    }
}

/// The differences between two readings.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) redo_bytes: u64,
    pub(crate) redo_pad_bytes: u64,
    pub(crate) pages_read: u64,
    pub(crate) pages_written: u64,
    pub(crate) pages_written_foreground: u64,
    pub(crate) pages_written_by_force: BTreeMap<String, u64>,
    pub(crate) page_writes_io: u64,
    pub(crate) doublewrite_pages: u64,
    pub(crate) device_write_bytes: Option<u64>,
    pub(crate) fsyncs: u64,
    pub(crate) fsyncs_by_reason: BTreeMap<String, u64>,
    pub(crate) fsyncs_by_file: BTreeMap<String, u64>,
    pub(crate) checkpoint_age_limit: u64,
    pub(crate) throttled_us_total: u64,
    pub(crate) hard_waits: u64,
    pub(crate) free_frame_waits: u64,
    pub(crate) recovery_ms: u64,
    /// The database's files bypass the page cache.
    pub(crate) direct_io: bool,
    /// Batches of pages are written by io_uring.
    pub(crate) io_uring: bool,
    pub(crate) fsync_rows: Vec<FsyncRow>,
    pub(crate) page_writes_io_by_force: BTreeMap<String, u64>,
}

impl Figures {
    /// Computes the difference of two readings of one database.
    pub(crate) fn between(before: &Reading, after: &Reading) -> Figures {
        let engine = after.engine.minus(&before.engine);
        let of = |name: &str| value(&engine, name);
        let family = |members: Vec<(&'static str, u64)>| {
            members.into_iter().filter(|(_, n)| *n > 0).map(|(label, n)| (label.to_owned(), n)).collect()
        };
        let device = after.device_write_bytes.zip(before.device_write_bytes);
        Figures {
            redo_bytes: of("redo_bytes_written"),
            redo_pad_bytes: of("redo_pad_bytes"),
            pages_read: of("pages_read"),
            pages_written: of("pages_written"),
            pages_written_foreground: of("pages_written_foreground"),
            pages_written_by_force: family(engine.pages_by_force()),
            page_writes_io: of("page_writes_io"),
            doublewrite_pages: of("doublewrite_pages"),
            device_write_bytes: device.map(|(after, before)| after.saturating_sub(before)),
            fsyncs: of("fsyncs"),
            fsyncs_by_reason: family(engine.fsyncs_by_reason()),
            fsyncs_by_file: family(engine.fsyncs_by_file()),
            checkpoint_age_limit: of("checkpoint_age_limit"),
            throttled_us_total: of("throttled_us_total"),
            hard_waits: of("hard_waits"),
            free_frame_waits: of("free_frame_waits"),
            recovery_ms: of("recovery_ms"),
            direct_io: of("direct_io") > 0,
            io_uring: of("io_uring") > 0,
            fsync_rows: engine.fsyncs().to_vec(),
            page_writes_io_by_force: family(engine.ios_by_force()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_counts_our_writes() {
        // A sandbox may forbid the file. If it can be read, it must be understood.
        if std::fs::read_to_string("/proc/self/io").is_ok() {
            assert!(device_write_bytes().is_some());
        }
    }

    #[test]
    fn a_level_has_a_mean_and_a_maximum() {
        let mut level = Level::default();
        assert_eq!((level.max(), level.mean()), (0, 0));
        for value in [10, 40, 10] {
            level.add(value);
        }
        assert_eq!((level.max(), level.mean()), (40, 20));
    }
}
