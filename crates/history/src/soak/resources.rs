//! The memory, open files and disk space that a process and its database use, and whether they
//! grow.

use std::path::Path;

/// The use of resources, as the operating system counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ResourceUse {
    /// Resident memory, bytes.
    pub(super) memory: u64,
    /// Open files.
    pub(super) open_files: u64,
    /// Disk space of the database's files, bytes.
    pub(super) disk: u64,
    /// The part of it that holds nothing: pages for the next writes. A faster machine leaves more
    /// of them, because more is replaced while a scan holds its snapshot.
    pub(super) free: u64,
}

impl ResourceUse {
    /// Returns the use by this process and by the database in `dir`, of which `free` bytes hold
    /// nothing.
    pub(super) fn of(dir: &Path, free: u64) -> ResourceUse {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
        ResourceUse {
            memory: kib.unwrap_or(0) << 10,
            open_files: std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64),
            disk: bytes_below(dir),
            free,
        }
    }

    pub(super) fn to_line(self) -> String {
        format!("{} {} {} {}", self.memory, self.open_files, self.disk, self.free)
    }
}

/// Returns the disk space of the files below a directory. A file that is deleted meanwhile counts
/// as 0.
fn bytes_below(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// With fewer measurements at rest nothing can be said.
const FEWEST: usize = 6;

/// Names a resource that grows: its median in the last third of all measurements is above the
/// maximum of the first third by more than a quarter and by more than a fixed slack. `None` if
/// nothing grows, or with too few measurements.
pub(super) fn what_grows(rests: &[ResourceUse]) -> Option<String> {
    if rests.len() < FEWEST {
        return None;
    }
    let third = rests.len() / 3;
    let (early, late) = (&rests[..third], &rests[rests.len() - third..]);
    type Figure = (&'static str, u64, fn(&ResourceUse) -> u64);
    let figures: [Figure; 3] = [
        ("resident memory", 16 << 20, |v| v.memory),
        ("open files", 8, |v| v.open_files),
        ("disk in use", 16 << 20, |v| v.disk.saturating_sub(v.free)),
    ];
    figures.iter().find_map(|&(name, slack, of)| {
        let before = early.iter().map(of).max().unwrap_or(0);
        let mut after: Vec<u64> = late.iter().map(of).collect();
        after.sort_unstable();
        let after = after[after.len() / 2];
        let limit = (before + before / 4).max(before + slack);
        (after > limit).then(|| format!("{name} grew from {before} to {after}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rests(disk: impl Fn(u64) -> u64) -> Vec<ResourceUse> {
        (0..12).map(|n| ResourceUse { memory: 50 << 20, open_files: 40, disk: disk(n), free: 0 }).collect()
    }

    #[test]
    fn growth_is_distinguished_from_fluctuation() {
        assert_eq!(what_grows(&rests(|n| (100 + n % 3 * 20) << 20)), None);
        assert_eq!(what_grows(&rests(|n| (100 - n) << 20)), None);
        assert!(what_grows(&rests(|n| (100 + n * 10) << 20)).is_some_and(|what| what.starts_with("disk")));
        assert_eq!(what_grows(&rests(|n| (100 + n * 10) << 20)[..5]), None);
        // The machine had other work first, and then the writers became faster.
        let mut faster = rests(|n| (100 + n * 10) << 20);
        faster.iter_mut().for_each(|rest| rest.free = rest.disk - (90 << 20));
        assert_eq!(what_grows(&faster), None);
    }

    #[test]
    fn this_process_has_memory_and_files() {
        let resources = ResourceUse::of(Path::new(env!("CARGO_MANIFEST_DIR")), 0);
        assert!(resources.memory > 0 && resources.open_files > 0 && resources.disk > 0, "{resources:?}");
    }
}
