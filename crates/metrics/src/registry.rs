//! The live numbers of one open database.

use crate::catalog::M;
use crate::histogram::Histogram;
use crate::labels::{FileKind, Force, Latency, SyncReason};
use crate::snapshot::{FsyncRow, LatencyRow, Snapshot};
use base::sync::atomic::{AtomicU64, Ordering};

/// A number with a cache line for itself: threads that count different things do not slow each other.
#[derive(Debug)]
#[repr(align(64))]
struct Cell(AtomicU64);

impl Cell {
    fn new() -> Self {
        Cell(AtomicU64::new(0))
    }
}

/// Syncs of one kind of file for one reason.
#[derive(Debug)]
struct SyncCell {
    waiters: AtomicU64,
    took: Histogram,
}

/// The live numbers of one open database. Recording never waits.
#[derive(Debug)]
pub struct Metrics {
    plain: Box<[Cell]>,
    pages_by_force: Box<[Cell]>,
    ios_by_force: Box<[Cell]>,
    syncs: Box<[SyncCell]>,
    latencies: Box<[Histogram]>,
}

impl Metrics {
    /// All zeros.
    #[must_use]
    pub fn new() -> Self {
        let cells = |n: usize| (0..n).map(|_| Cell::new()).collect::<Box<[Cell]>>();
        Metrics {
            plain: cells(M::COUNT),
            pages_by_force: cells(Force::COUNT),
            ios_by_force: cells(Force::COUNT),
            syncs: (0..FileKind::COUNT * SyncReason::COUNT)
                .map(|_| SyncCell { waiters: AtomicU64::new(0), took: Histogram::new() })
                .collect(),
            latencies: (0..Latency::COUNT).map(|_| Histogram::new()).collect(),
        }
    }

    /// Adds to a metric.
    #[inline]
    pub fn add(&self, metric: M, n: u64) {
        self.plain[metric as usize].0.fetch_add(n, Ordering::Relaxed);
    }

    /// Takes from a gauge. The caller added at least as much before.
    #[inline]
    pub fn sub(&self, gauge: M, n: u64) {
        self.plain[gauge as usize].0.fetch_sub(n, Ordering::Relaxed);
    }

    /// Sets a gauge.
    #[inline]
    pub fn set(&self, gauge: M, value: u64) {
        self.plain[gauge as usize].0.store(value, Ordering::Relaxed);
    }

    /// Raises a gauge to `value` if it is lower.
    #[inline]
    pub fn max(&self, gauge: M, value: u64) {
        let cell = &self.plain[gauge as usize].0;
        if value > cell.load(Ordering::Relaxed) {
            cell.fetch_max(value, Ordering::Relaxed);
        }
    }

    /// A metric's value now.
    #[inline]
    #[must_use]
    pub fn get(&self, metric: M) -> u64 {
        self.plain[metric as usize].0.load(Ordering::Relaxed)
    }

    /// Counts pages written in place and the I/Os that carried them, under what forced them. The totals
    /// `pages_written` and `page_writes_io` are counted here too, so that the parts always add up.
    pub fn page_writes(&self, force: Force, pages: u64, ios: u64) {
        self.add(M::PagesWritten, pages);
        self.add(M::PageWritesIo, ios);
        self.pages_by_force[force as usize].0.fetch_add(pages, Ordering::Relaxed);
        self.ios_by_force[force as usize].0.fetch_add(ios, Ordering::Relaxed);
    }

    /// Counts one sync: which file, for what, how long it took, and how many threads waited for its end.
    pub fn fsync(&self, file: FileKind, reason: SyncReason, took_us: u64, waiters: u64) {
        let cell = &self.syncs[file as usize * SyncReason::COUNT + reason as usize];
        cell.waiters.fetch_add(waiters, Ordering::Relaxed);
        cell.took.record(took_us);
    }

    /// Counts one duration.
    #[inline]
    pub fn time(&self, what: Latency, took_us: u64) {
        self.latencies[what as usize].record(took_us);
    }

    /// A copy of everything. Not one instant: numbers move while they are read.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let read = |cells: &[Cell]| cells.iter().map(|c| c.0.load(Ordering::Relaxed)).collect::<Vec<u64>>();
        let mut fsyncs = Vec::new();
        for &file in FileKind::ALL {
            for &reason in SyncReason::ALL {
                let cell = &self.syncs[file as usize * SyncReason::COUNT + reason as usize];
                let took = cell.took.counts();
                if took.count() > 0 {
                    fsyncs.push(FsyncRow {
                        file,
                        reason,
                        waiters: cell.waiters.load(Ordering::Relaxed),
                        took,
                    });
                }
            }
        }
        Snapshot {
            plain: read(&self.plain),
            pages_by_force: read(&self.pages_by_force),
            ios_by_force: read(&self.ios_by_force),
            fsyncs,
            latencies: Latency::ALL
                .iter()
                .map(|&what| LatencyRow { what, took: self.latencies[what as usize].counts() })
                .collect(),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
