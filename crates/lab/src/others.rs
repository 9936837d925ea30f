//! What other processes use of the processors and of a disk, which a measurement shall have alone.

use crate::block_device::BlockDevice;
use serde::Serialize;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// For how long they are watched. The processors' time is counted in steps of 10 ms.
const WATCHED: Duration = Duration::from_millis(400);
/// From which shares on they disturb, percent.
const PROCESSORS_DISTURBED: f64 = 20.0;
const DISK_DISTURBED: f64 = 10.0;

/// Their shares, percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Others {
    /// Of the time of all processors.
    pub(crate) processors_percent: f64,
    /// Of the time, in which the disk was busy; `None` if the kernel does not tell.
    pub(crate) disk_percent: Option<f64>,
}

impl Others {
    /// Watches them for a moment. REQUIRES: this process does nothing meanwhile.
    pub(crate) fn watch(device: Option<&BlockDevice>) -> Others {
        let processors = || processor_ticks(&fs::read_to_string("/proc/stat").unwrap_or_default());
        let disk = || busy_ms(&fs::read_to_string(format!("/sys/block/{}/stat", device?.name)).ok()?);
        let (begun, before, disk_before) = (Instant::now(), processors(), disk());
        sleep(WATCHED);
        let ms = begun.elapsed().as_secs_f64() * 1000.0;
        let percent = |(from, to): (u64, u64)| (to.saturating_sub(from) as f64 * 100.0 / ms).min(100.0);
        Others {
            processors_percent: share(before, processors()),
            disk_percent: disk_before.zip(disk()).map(percent),
        }
    }

    /// Says that they disturb, if they do.
    pub(crate) fn sentence(&self) -> Option<String> {
        let mut does = Vec::new();
        if self.processors_percent >= PROCESSORS_DISTURBED {
            does.push(format!("use {:.0} % of the processors", self.processors_percent));
        }
        if let Some(percent) = self.disk_percent.filter(|percent| *percent >= DISK_DISTURBED) {
            does.push(format!("keep the disk busy {percent:.0} % of the time"));
        }
        let what = does.join(" and ");
        (!does.is_empty()).then(|| format!("other processes {what}, so figures are worse than they could be"))
    }
}

/// The time of all processors since the machine was started, and how much of it they were idle.
type Ticks = (u64, u64);

/// Returns them, from /proc/stat; zeros if it does not tell.
fn processor_ticks(stat: &str) -> Ticks {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or("");
    // User, nice, system, idle, waiting for I/O, interrupts, soft interrupts, stolen by the host.
    // The times of guests, which follow, are in that of users.
    let times: Vec<u64> = line.split_whitespace().take(8).map_while(|time| time.parse().ok()).collect();
    (times.iter().sum(), times.iter().skip(3).take(2).sum())
}

/// Returns which percentage of the time was not idle.
fn share(before: Ticks, after: Ticks) -> f64 {
    let (all, idle) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    if all == 0 { 0.0 } else { 100.0 * all.saturating_sub(idle) as f64 / all as f64 }
}

/// Returns for how many milliseconds a disk was busy, from its file `stat` in sysfs.
fn busy_ms(stat: &str) -> Option<u64> {
    stat.split_whitespace().nth(9)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_from_the_counters_of_the_kernel() {
        let before = processor_ticks("cpu  100 0 50 1000 10 0 0 0 0 0\ncpu0 100 0 50 1000 10 0 0 0 0 0\n");
        assert_eq!(before, (1160, 1010));
        let after = processor_ticks("cpu  160 0 70 1100 30 5 5 10 60 0\n");
        assert!((share(before, after) - 100.0 * 100.0 / 220.0).abs() < 1e-9);
        assert_eq!(share((0, 0), processor_ticks("")), 0.0);
        assert_eq!(busy_ms("  1 2 3 4 5 6 7 8 9 1234 11 12\n"), Some(1234));
        assert_eq!(busy_ms("1 2"), None);
    }

    #[test]
    fn only_others_that_disturb_are_named() {
        let said = |processors_percent, disk_percent| Others { processors_percent, disk_percent }.sentence();
        assert_eq!(said(5.0, Some(1.0)), None);
        assert_eq!(said(5.0, None), None);
        let both = said(97.3, Some(40.0)).unwrap();
        assert!(both.starts_with(
            "other processes use 97 % of the processors and keep the disk busy 40 % of the time"
        ));
        assert!(said(0.0, Some(11.0)).unwrap().starts_with("other processes keep the disk busy 11 %"));
    }
}
