//! What the model of the device learns from syncs and reads, and how the metrics show it. Page
//! writes tell it themselves (`flush/batch.rs`). Callers that sync or read only count, as they did
//! before; the cleaner looks at the counts now and then.

use super::Shared;
use metrics::{Latency, M, Metrics};
use pace::device::{Parallelism, Totals};

/// The cleaner looks this often, microseconds.
const LOOK_US: u64 = 250_000;

/// What the cleaner has seen.
#[derive(Debug, Default)]
pub(super) struct DeviceSeen {
    at_us: u64,
    syncs: Totals,
    reads: Totals,
}

/// Returns the totals of syncs and of reads of pages.
fn totals(metrics: &Metrics) -> (Totals, Totals) {
    let (syncs, sync_us) = metrics.synced();
    let (calls, us) = metrics.timed(Latency::PageRead);
    let reads = Totals { requests: metrics.get(M::PageReadsIo), calls, us };
    (Totals { requests: syncs, calls: syncs, us: sync_us }, reads)
}

impl Shared {
    /// Tells the model what syncs and reads took since the last look, if one is due.
    pub(super) fn learn_device(&self, seen: &mut DeviceSeen, now_us: u64) {
        let elapsed_us = now_us.saturating_sub(seen.at_us);
        if elapsed_us < LOOK_US {
            return;
        }
        let (syncs, reads) = totals(&self.store.metrics);
        // The first look has only the counts of opening, and knows no time for them.
        if seen.at_us > 0 {
            let mut device = self.flusher.device().lock();
            if let Some(span) = syncs.since(seen.syncs, elapsed_us) {
                device.synced(span.in_flight, span.us_per_call);
            }
            if let Some(span) = reads.since(seen.reads, elapsed_us) {
                device.read(span.requests, span.in_flight, span.took_us);
            }
        }
        *seen = DeviceSeen { at_us: now_us, syncs, reads };
    }

    /// Sets the gauges of the model.
    pub(super) fn report_device(&self) {
        let metrics = &self.store.metrics;
        let (one, some, sync_us, reads) = {
            let device = self.flusher.device().lock();
            let known = |class| device.known_write(class);
            let (one, some) = (known(Parallelism::One), known(Parallelism::Some));
            (one, some, device.known_sync_us(), device.known_reads_per_s())
        };
        let set = |gauge, value: Option<f64>| metrics.set(gauge, value.map_or(0, |v| (v + 0.5) as u64));
        set(M::DeviceWriteFixedUs, one.map(|line| line.fixed_us));
        set(M::DeviceWriteUsPerMib, one.map(|line| line.us_per_mib));
        set(M::DeviceManyWriteFixedUs, some.map(|line| line.fixed_us));
        set(M::DeviceManyWriteUsPerMib, some.map(|line| line.us_per_mib));
        set(M::DeviceSyncUs, sync_us);
        set(M::DeviceReadsPerS, reads);
    }
}
