//! What a flush of the device's cache costs, beside the write before it.

use crate::measurements::histogram;
use crate::test_file::{SECTOR_BYTES, TestFile, random_bytes, stamp};
use hdrhistogram::Histogram;
use rustix::fs::OFlags;
use serde::Serialize;
use std::io;
use std::time::{Duration, Instant};

/// What one thread sees that overwrites 4 KiB blocks one after the other. The first three are times
/// that a tenth does not exceed: other work makes a flush slower, and never faster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct FlushCost {
    /// A write that bypasses the page cache.
    pub(super) write_us: f64,
    /// The fdatasync after it, which has nothing to do but to flush the device's cache.
    pub(super) flush_us: f64,
    /// A write that is durable when it returns (`O_DSYNC`).
    pub(super) dsync_write_us: f64,
    /// The median of a write with its flush.
    pub(super) flushed_p50_us: f64,
    /// The median of a write with `O_DSYNC`.
    pub(super) dsync_p50_us: f64,
}

impl FlushCost {
    /// Measures it for twice `time`. `None` where the page cache cannot be bypassed: there a sync
    /// writes too.
    pub(super) fn measure(test: &TestFile, time: Duration) -> io::Result<Option<FlushCost>> {
        if !test.is_direct() {
            return Ok(None);
        }
        let (mut writes, mut flushes) = (histogram(), histogram());
        let (mut flushed, mut dsync_writes) = (histogram(), histogram());
        repeat(test, time, |block, at| {
            let (write, flush) = (test.write(block, at)?, test.flush()?);
            record(&mut writes, write);
            record(&mut flushes, flush);
            record(&mut flushed, write + flush);
            Ok(())
        })?;
        let dsync = test.opened_with(OFlags::DSYNC)?;
        repeat(&dsync, time, |block, at| {
            record(&mut dsync_writes, dsync.write(block, at)?);
            Ok(())
        })?;
        let us = |taken: &Histogram<u64>, quantile| taken.value_at_quantile(quantile) as f64 / 1000.0;
        Ok(Some(FlushCost {
            write_us: us(&writes, 0.1),
            flush_us: us(&flushes, 0.1),
            dsync_write_us: us(&dsync_writes, 0.1),
            flushed_p50_us: us(&flushed, 0.5),
            dsync_p50_us: us(&dsync_writes, 0.5),
        }))
    }

    /// Returns how long a write and its flush take.
    pub(super) fn durable_us(&self) -> f64 {
        self.write_us + self.flush_us
    }
}

fn record(taken: &mut Histogram<u64>, time: Duration) {
    taken.saturating_record(time.as_nanos() as u64);
}

/// Calls `work` with one block of the file after the other, for `time`.
fn repeat(
    test: &TestFile,
    time: Duration,
    mut work: impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut block = random_bytes(SECTOR_BYTES);
    let (begun, mut n) = (Instant::now(), 0);
    while n == 0 || begun.elapsed() < time {
        stamp(&mut block, n);
        work(&block, n % test.blocks(SECTOR_BYTES) * SECTOR_BYTES as u64)?;
        n += 1;
    }
    Ok(())
}
