//! What follows from the cost of a flush about the device's cache, as far as it can be told.

use super::flush_cost::FlushCost;
use super::short::short_micros;
use crate::block_device::BlockDevice;
use serde::Serialize;

/// A flush that takes less than this many times a write is one more request that is answered, as
/// by a host that does nothing else. One that writes to a medium takes many times a write into a
/// cache.
const FREE_TIMES: f64 = 2.0;
/// Flash needs at least so long to program a page, microseconds. A durable write that is faster
/// ends in memory.
const FLASH_LEAST_US: f64 = 75.0;
/// A rotating disk needs on average half a turn (4 ms at 7,200 turns a minute) to come to the
/// place, and more between blocks that follow each other. Those of one that is honest take longer
/// than this, microseconds.
const TURN_LEAST_US: f64 = 2000.0;

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// A file system in memory.
    Memory,
    /// The page cache cannot be bypassed.
    Unknown,
    /// The device says that it has no volatile cache, so the kernel sends no flush.
    NoFlushSent,
    /// A durable write takes less than the medium needs.
    FasterThanMedium,
    /// A flush takes about as long as any request.
    FlushIsFree,
    /// A flush takes its time.
    FlushCosts,
}

/// Decides it.
pub(super) fn judge(memory: bool, cost: Option<&FlushCost>, device: Option<&BlockDevice>) -> Verdict {
    if memory {
        return Verdict::Memory;
    }
    let Some(cost) = cost else { return Verdict::Unknown };
    let cache = device.and_then(|device| device.write_cache.as_deref());
    if cache == Some("write through") {
        Verdict::NoFlushSent
    } else if cost.durable_us() < least_us(device) {
        Verdict::FasterThanMedium
    } else if cost.flush_us < FREE_TIMES * cost.write_us {
        Verdict::FlushIsFree
    } else {
        Verdict::FlushCosts
    }
}

/// Returns how long the medium needs for a durable write at least.
fn least_us(device: Option<&BlockDevice>) -> f64 {
    if rotates(device) { TURN_LEAST_US } else { FLASH_LEAST_US }
}

fn rotates(device: Option<&BlockDevice>) -> bool {
    device.is_some_and(|device| device.rotational == Some(true))
}

impl Verdict {
    /// Says in one sentence what follows, and in a second one what cannot be told.
    pub(super) fn sentence(self, cost: Option<&FlushCost>, device: Option<&BlockDevice>) -> String {
        let us = |of: fn(&FlushCost) -> f64| cost.map_or_else(String::new, |cost| short_micros(of(cost)));
        let (write, flush) = (us(|cost| cost.write_us), us(|cost| cost.flush_us));
        let durable = us(FlushCost::durable_us);
        let follows = match self {
            Verdict::Memory => return "memory: a sync does nothing, and nothing survives a power cut".into(),
            Verdict::Unknown => "without direct I/O a flush cannot be told from the write before it, so \
                                 nothing follows about the device's cache"
                .to_owned(),
            Verdict::NoFlushSent => "the device says that it has no volatile cache (write through), so the \
                                     kernel flushes nothing, and commits are durable only if that is true"
                .to_owned(),
            Verdict::FlushIsFree => format!(
                "a flush adds only {flush} to a write of {write}, as any request would, so the device has \
                 power-loss protection, or it is a virtual disk, or its cache lies"
            ),
            Verdict::FasterThanMedium => format!(
                "a durable write takes {durable}, less than {}, so it ends in a cache: one with power-loss \
                 protection, that of a virtual disk, or one that lies",
                if rotates(device) {
                    "a rotating disk (which it says to be) needs to turn"
                } else {
                    "flash needs to program a page"
                }
            ),
            Verdict::FlushCosts => format!(
                "a flush adds {flush} to a write of {write}, so the device does something at a flush, as an \
                 honest cache does"
            ),
        };
        format!("{follows}. Only a power cut proves it; those of `millpond torture` do not reach the device")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(write_us: f64, flush_us: f64) -> FlushCost {
        let durable_us = write_us + flush_us;
        FlushCost {
            write_us,
            flush_us,
            dsync_write_us: durable_us,
            flushed_p50_us: durable_us,
            dsync_p50_us: durable_us,
        }
    }

    fn device(rotational: bool, cache: &str) -> BlockDevice {
        BlockDevice {
            rotational: Some(rotational),
            write_cache: Some(cache.to_owned()),
            ..BlockDevice::default()
        }
    }

    #[test]
    fn the_verdict_follows_from_cost_and_device() {
        let (flash, disk) = (device(false, "write back"), device(true, "write back"));
        let through = device(false, "write through");
        for (write_us, flush_us, device, expected) in [
            // NVMe with a capacitor, as a server has it.
            (15.0, 0.5, Some(&through), Verdict::NoFlushSent),
            // A consumer's flash.
            (25.0, 900.0, Some(&flash), Verdict::FlushCosts),
            // The same with a flush that does nothing.
            (25.0, 3.0, Some(&flash), Verdict::FasterThanMedium),
            (25.0, 40.0, Some(&flash), Verdict::FasterThanMedium),
            // A rotating disk.
            (80.0, 8000.0, Some(&disk), Verdict::FlushCosts),
            // A virtual one that says that it rotates.
            (150.0, 300.0, Some(&disk), Verdict::FasterThanMedium),
            // The network, where a flush has nothing to do; no device is known.
            (900.0, 800.0, None, Verdict::FlushIsFree),
            (100.0, 90.0, Some(&flash), Verdict::FlushIsFree),
        ] {
            let cost = cost(write_us, flush_us);
            assert_eq!(judge(false, Some(&cost), device), expected, "{cost:?}, {device:?}");
            assert_eq!(judge(true, Some(&cost), device), Verdict::Memory);
            assert_eq!(judge(false, None, device), Verdict::Unknown);
        }
    }

    #[test]
    fn every_sentence_has_its_figures_and_says_what_cannot_be_told() {
        let (cost, disk) = (cost(150.0, 300.0), device(true, "write back"));
        let said = |verdict: Verdict| verdict.sentence(Some(&cost), Some(&disk));
        let faster = said(Verdict::FasterThanMedium);
        assert!(faster.starts_with("a durable write takes 450µs, less than a rotating disk"), "{faster}");
        assert!(said(Verdict::FlushCosts).starts_with("a flush adds 300µs to a write of 150µs"));
        for verdict in [
            Verdict::Unknown,
            Verdict::NoFlushSent,
            Verdict::FlushIsFree,
            Verdict::FasterThanMedium,
            Verdict::FlushCosts,
        ] {
            assert!(said(verdict).contains("Only a power cut proves it"), "{verdict:?}");
        }
        assert!(said(Verdict::Memory).contains("nothing survives"));
    }
}
