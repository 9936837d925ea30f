//! A snapshot of all metrics: plain numbers that can be found by name, and subtracted.
//!
//! The names are those of the catalog; `fsyncs`, `fsync_us_total` and `fsync_waiters`; the families
//! `fsyncs_by_file.F`, `fsyncs_by_reason.R`, `pages_written_by_force.W`,
//! `page_writes_io_by_force.W`; and `L.count`, `L.mean`, `L.p50`, `L.p95`, `L.p99`, `L.max` for
//! each latency L. The set of names never changes while a program runs.

use crate::catalog::{CATALOG, M, MetricKind};
use crate::histogram::HistogramCounts;
use crate::labels::{FileKind, Force, Latency, SyncReason};

/// Syncs of one kind of file for one reason.
#[derive(Clone, Debug, PartialEq)]
pub struct FsyncRow {
    /// Which kind of file.
    pub file: FileKind,
    /// For which reason.
    pub reason: SyncReason,
    /// Callers that waited, summed over the syncs.
    pub waiters: u64,
    /// How long the syncs took.
    pub took: HistogramCounts,
}

/// One kind of duration.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyRow {
    /// What took the time.
    pub what: Latency,
    /// How long.
    pub took: HistogramCounts,
}

/// A copy of all metrics: plain numbers, each with a name. Two copies can be
/// [subtracted](Snapshot::minus): the difference shows what happened between them.
///
/// Counters grow from the opening of the database on. Gauges are levels. The catalog has about a
/// hundred metrics, such as `commits`, `redo_bytes_written` and `checkpoint_age_bytes`.
/// [`Snapshot::names`] lists all names, [`Snapshot::to_prometheus`] gives the meaning and the unit
/// of each. There are also
///
/// - `fsyncs`, `fsync_us_total` and `fsync_waiters`: syncs, the microseconds that they took, the
///   callers that waited;
/// - `fsyncs_by_file.F` and `fsyncs_by_reason.R`: syncs of each kind of file, and for each reason;
/// - `pages_written_by_force.W` and `page_writes_io_by_force.W`: what forced pages to be written;
/// - `L.count`, `L.mean`, `L.p50`, `L.p95`, `L.p99`, `L.max`: durations, microseconds.
///
/// The set of names never changes while a program runs. Taking a copy costs some microseconds and
/// stops no other thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub(crate) plain: Vec<u64>,
    pub(crate) pages_by_force: Vec<u64>,
    pub(crate) ios_by_force: Vec<u64>,
    pub(crate) fsyncs: Vec<FsyncRow>,
    pub(crate) latencies: Vec<LatencyRow>,
}

impl Snapshot {
    /// Returns a metric of the catalog.
    #[must_use]
    pub fn value(&self, metric: M) -> u64 {
        self.plain[metric as usize]
    }

    /// Returns the value with this name; `None` if there is no such name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        if let Some(i) = CATALOG.iter().position(|e| e.name == name) {
            return Some(self.plain[i] as f64);
        }
        self.derived().into_iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// Returns all names, in a fixed order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.figures().into_iter().map(|(name, _)| name).collect()
    }

    /// Returns all names with their values, in a fixed order.
    #[must_use]
    pub fn figures(&self) -> Vec<(String, f64)> {
        let plain = CATALOG.iter().zip(&self.plain).map(|(e, v)| (e.name.to_owned(), *v as f64));
        plain.chain(self.derived()).collect()
    }

    /// Returns the syncs by file and reason. Pairs that never occurred are left out.
    #[must_use]
    pub fn fsyncs(&self) -> &[FsyncRow] {
        &self.fsyncs
    }

    /// Returns the durations by kind.
    #[must_use]
    pub fn latencies(&self) -> &[LatencyRow] {
        &self.latencies
    }

    /// Returns how many syncs there were, of all files.
    #[must_use]
    pub fn fsyncs_total(&self) -> u64 {
        self.fsyncs.iter().map(|row| row.took.count()).sum()
    }

    /// Returns the number of syncs of each kind of file.
    #[must_use]
    pub fn fsyncs_by_file(&self) -> Vec<(&'static str, u64)> {
        let of = |file| self.fsyncs.iter().filter(|row| row.file == file).map(|row| row.took.count()).sum();
        FileKind::ALL.iter().map(|f| (f.label(), of(*f))).collect()
    }

    /// Returns the number of syncs for each reason.
    #[must_use]
    pub fn fsyncs_by_reason(&self) -> Vec<(&'static str, u64)> {
        let of =
            |reason| self.fsyncs.iter().filter(|row| row.reason == reason).map(|row| row.took.count()).sum();
        SyncReason::ALL.iter().map(|r| (r.label(), of(*r))).collect()
    }

    /// Returns the pages written in place, by what forced the write.
    #[must_use]
    pub fn pages_by_force(&self) -> Vec<(&'static str, u64)> {
        Force::ALL.iter().zip(&self.pages_by_force).map(|(f, n)| (f.label(), *n)).collect()
    }

    /// Returns the in-place page writes given to the device, by what forced the write.
    #[must_use]
    pub fn ios_by_force(&self) -> Vec<(&'static str, u64)> {
        Force::ALL.iter().zip(&self.ios_by_force).map(|(f, n)| (f.label(), *n)).collect()
    }

    /// Returns what happened since `earlier`. Counters and histograms are subtracted, gauges keep
    /// their present value.
    #[must_use]
    pub fn minus(&self, earlier: &Snapshot) -> Snapshot {
        let sub = |now: &[u64], then: &[u64]| -> Vec<u64> {
            now.iter().zip(then).map(|(a, b)| a.saturating_sub(*b)).collect()
        };
        let plain = CATALOG
            .iter()
            .zip(self.plain.iter().zip(&earlier.plain))
            .map(|(entry, (now, then))| match entry.kind {
                MetricKind::Counter => now.saturating_sub(*then),
                MetricKind::Gauge => *now,
            })
            .collect();
        let fsyncs = self.fsyncs.iter().filter_map(|row| {
            let then = earlier.fsyncs.iter().find(|t| (t.file, t.reason) == (row.file, row.reason));
            let Some(then) = then else { return Some(row.clone()) };
            let took = row.took.minus(&then.took);
            let waiters = row.waiters.saturating_sub(then.waiters);
            (took.count() > 0).then_some(FsyncRow { file: row.file, reason: row.reason, waiters, took })
        });
        let latencies = self.latencies.iter().zip(&earlier.latencies);
        Snapshot {
            plain,
            pages_by_force: sub(&self.pages_by_force, &earlier.pages_by_force),
            ios_by_force: sub(&self.ios_by_force, &earlier.ios_by_force),
            fsyncs: fsyncs.collect(),
            latencies: latencies
                .map(|(now, then)| LatencyRow { what: now.what, took: now.took.minus(&then.took) })
                .collect(),
        }
    }

    /// Returns the values that are computed from the families.
    fn derived(&self) -> Vec<(String, f64)> {
        let sum = |f: fn(&FsyncRow) -> u64| self.fsyncs.iter().map(f).sum::<u64>() as f64;
        let mut out = vec![
            ("fsyncs".to_owned(), self.fsyncs_total() as f64),
            ("fsync_us_total".to_owned(), sum(|row| row.took.sum_us())),
            ("fsync_waiters".to_owned(), sum(|row| row.waiters)),
        ];
        let families = [
            ("fsyncs_by_file", self.fsyncs_by_file()),
            ("fsyncs_by_reason", self.fsyncs_by_reason()),
            ("pages_written_by_force", self.pages_by_force()),
            ("page_writes_io_by_force", self.ios_by_force()),
        ];
        for (family, members) in families {
            out.extend(members.into_iter().map(|(label, n)| (format!("{family}.{label}"), n as f64)));
        }
        for LatencyRow { what, took } in &self.latencies {
            let mean = took.sum_us() as f64 / (took.count().max(1)) as f64;
            let parts = [
                ("count", took.count() as f64),
                ("mean", mean),
                ("p50", took.quantile(0.50) as f64),
                ("p95", took.quantile(0.95) as f64),
                ("p99", took.quantile(0.99) as f64),
                ("max", took.max_us() as f64),
            ];
            out.extend(parts.map(|(part, v)| (format!("{}.{part}", what.label()), v)));
        }
        out
    }
}
