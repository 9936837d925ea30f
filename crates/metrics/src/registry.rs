//! The live counters, gauges and histograms of one open database, striped by thread.

use crate::catalog::M;
use crate::histogram::{Histogram, HistogramCounts};
use crate::labels::{FileKind, Force, Latency, SyncReason};
use crate::snapshot::{FsyncRow, LatencyRow, Snapshot};
use base::StripedArc;
use base::sync::atomic::{AtomicU64, Ordering};

/// What one thread, or a few, have counted in the shortest calls.
#[derive(Debug)]
struct ThreadCounts {
    plain: [AtomicU64; M::COUNT],
    latencies: [Histogram; Latency::COUNT],
}

impl Default for ThreadCounts {
    fn default() -> Self {
        ThreadCounts {
            plain: std::array::from_fn(|_| AtomicU64::new(0)),
            latencies: std::array::from_fn(|_| Histogram::new()),
        }
    }
}

/// Syncs of one kind of file for one reason.
#[derive(Debug)]
struct SyncCounts {
    waiters: AtomicU64,
    took: Histogram,
}

/// The live numbers of one open database. Recording never waits.
#[derive(Debug)]
pub struct Metrics {
    /// A number is the sum over all stripes. One stripe may add what another one subtracts, so a
    /// stripe's part may be negative, in two's complement. Numbers that are set, not added to, are
    /// in the first stripe.
    stripes: StripedArc<ThreadCounts>,
    pages_by_force: Box<[AtomicU64]>,
    ios_by_force: Box<[AtomicU64]>,
    syncs: Box<[SyncCounts]>,
}

impl Metrics {
    /// Metrics that are all 0.
    #[must_use]
    pub fn new() -> Self {
        let cells = |n: usize| (0..n).map(|_| AtomicU64::new(0)).collect::<Box<[AtomicU64]>>();
        Metrics {
            stripes: StripedArc::default(),
            pages_by_force: cells(Force::COUNT),
            ios_by_force: cells(Force::COUNT),
            syncs: (0..FileKind::COUNT * SyncReason::COUNT)
                .map(|_| SyncCounts { waiters: AtomicU64::new(0), took: Histogram::new() })
                .collect(),
        }
    }

    /// Adds to a metric.
    #[inline]
    pub fn add(&self, metric: M, n: u64) {
        self.stripes.own().plain[metric as usize].fetch_add(n, Ordering::Relaxed);
    }

    /// Subtracts from a gauge. REQUIRES: at least as much was added before, by any threads.
    #[inline]
    pub fn sub(&self, gauge: M, n: u64) {
        self.stripes.own().plain[gauge as usize].fetch_sub(n, Ordering::Relaxed);
    }

    /// Sets a gauge. REQUIRES: [`Metrics::add`] is never called for it.
    #[inline]
    pub fn set(&self, gauge: M, value: u64) {
        self.stripes.first().plain[gauge as usize].store(value, Ordering::Relaxed);
    }

    /// Raises a gauge to `value` if it is lower. REQUIRES: [`Metrics::add`] is never called for it.
    #[inline]
    pub fn max(&self, gauge: M, value: u64) {
        let cell = &self.stripes.first().plain[gauge as usize];
        if value > cell.load(Ordering::Relaxed) {
            cell.fetch_max(value, Ordering::Relaxed);
        }
    }

    /// Returns a metric's value now.
    #[must_use]
    pub fn get(&self, metric: M) -> u64 {
        let parts = self.stripes.iter().map(|stripe| stripe.plain[metric as usize].load(Ordering::Relaxed));
        // A reader may see a subtraction in one stripe and miss the addition in another: the sum
        // may be below 0 for a moment.
        parts.fold(0, u64::wrapping_add).cast_signed().max(0).cast_unsigned()
    }

    fn took(&self, what: Latency) -> HistogramCounts {
        let mut all = HistogramCounts::default();
        for stripe in self.stripes.iter() {
            all.merge(&stripe.latencies[what as usize].counts());
        }
        all
    }

    /// Counts pages written in place and the I/Os that wrote them, by what forced the write.
    /// `foreground` says that a caller's thread wrote them although the caller asked for no page
    /// write. The totals `pages_written`, `pages_written_foreground` and `page_writes_io` are
    /// counted here too, so that the parts always add up.
    pub fn page_writes(&self, force: Force, pages: u64, ios: u64, foreground: bool) {
        if foreground {
            self.add(M::PagesWrittenForeground, pages);
        }
        self.add(M::PagesWritten, pages);
        self.add(M::PageWritesIo, ios);
        self.pages_by_force[force as usize].fetch_add(pages, Ordering::Relaxed);
        self.ios_by_force[force as usize].fetch_add(ios, Ordering::Relaxed);
    }

    /// Counts one sync: of which file, for what reason, how long it took, and how many callers
    /// waited for it, in a thread or by a future.
    pub fn fsync(&self, file: FileKind, reason: SyncReason, took_us: u64, waiters: u64) {
        let cell = &self.syncs[file as usize * SyncReason::COUNT + reason as usize];
        cell.waiters.fetch_add(waiters, Ordering::Relaxed);
        cell.took.record(took_us);
    }

    /// Counts one duration.
    #[inline]
    pub fn time(&self, what: Latency, took_us: u64) {
        self.stripes.own().latencies[what as usize].record(took_us);
    }

    /// Returns a copy of all metrics. Not one point in time: numbers change while they are read.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let read = |cells: &[AtomicU64]| cells.iter().map(|c| c.load(Ordering::Relaxed)).collect();
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
            plain: M::ALL.iter().map(|&metric| self.get(metric)).collect(),
            pages_by_force: read(&self.pages_by_force),
            ios_by_force: read(&self.ios_by_force),
            fsyncs,
            latencies: Latency::ALL.iter().map(|&what| LatencyRow { what, took: self.took(what) }).collect(),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}
